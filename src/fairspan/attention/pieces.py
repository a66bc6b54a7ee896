"""One long text read in pieces, so that neither its memory nor its time is taken in one go.

The tiles of a text do not see each other, but the shared tokens see all of them. A piece is some
tiles with the shared tokens around them. It runs through the model like a text of its own, and
stops between two layers, where only its hidden states are kept, until all pieces are there.

What the shared rows of a layer see in the pieces is put together, as in a softmax that is computed
block by block. The last piece is in a layer after all others, so it completes these rows, and the
other pieces take the states of the shared tokens from it before the next layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from greenlet import GreenletExit, getcurrent, greenlet
from torch import Tensor, nn

from fairspan.attention.plan import LayerInputs
from fairspan.attention.steps import give_way
from fairspan.attention.tile_rows import seen_by_shared, shared_tokens, take
from fairspan.attention.tiles import SHARED, Tiles, TileView, reading

SharedRows = Callable[[LayerInputs, TileView], Tensor | None]
"""[1, S, H, D]: what the shared rows of a layer see in all pieces; None if they are not needed."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialRows:
    """What the shared rows see in some pieces, in float32.

    Attributes:
        top: [N, H, S, 1], the largest score; −inf where nothing is seen.
        weight: [N, H, S, 1], the sum of exp(score − top).
        total: [N, H, S, D], the values weighted with these, summed.
    """

    top: Tensor
    weight: Tensor
    total: Tensor


@dataclass(slots=True, eq=False)
class _Text:
    """What the pieces of a text hand to each other.

    Attributes:
        only_shared_in: the last layer, if nothing reads its other rows than the shared ones.
        seen: what the shared rows see in the pieces that have been in the current layer.
        shared: [1, S, d], the states of the shared tokens before the next layer.
    """

    only_shared_in: int | None
    seen: PartialRows | None = None
    shared: Tensor | None = None


class _Piece(greenlet):
    """A pass over some tiles of a text, which stops between layers.

    Attributes:
        rows: [L'], the tokens of the text that it reads.
        is_last: whether it is the last of its text, in which the shared rows see the shared tokens.
        stops: how many times it has stopped.
        layers: how many layers it has been in.
    """

    def __init__(self, text: _Text, tiles: Tiles, rows: Tensor, *, is_last: bool) -> None:
        super().__init__()
        self.text = text
        self.tiles = tiles
        self.rows = rows
        self.is_last = is_last
        self.stops = 0
        self.layers = 0

    def shared_rows(self, inputs: LayerInputs, view: TileView) -> Tensor | None:
        """[1, S, H, D]: the shared rows of a layer in the last piece; None in the others."""
        assert self.stops == self.layers, "a piece must stop before every layer but the first"
        self.layers += 1
        text = self.text
        partial = partial_rows(inputs, view, shared_keys=self.is_last)
        text.seen = partial if text.seen is None else merge(text.seen, partial)
        if self.is_last:
            rows = text.seen.total / text.seen.weight
            text.seen = None
            return rows.transpose(1, 2).to(inputs.value.dtype)
        if inputs.layer == text.only_shared_in:
            raise GreenletExit
        return None

    def stop(self, states: Tensor) -> None:
        """Stop before a layer, given its input [1, L', d], in which the shared tokens are set."""
        self.stops += 1
        shared = self.tiles.shared[0]
        if self.is_last:
            self.text.shared = states[:, shared]
        assert self.parent is not None
        with reading(None):
            self.parent.switch()
        if self.text.shared is not None and not self.is_last:
            states[:, shared] = self.text.shared


def read_in_pieces(
    tiles: Tiles,
    size: int,
    layers: Sequence[nn.Module],
    run: Callable[[Tiles, Tensor, SharedRows], Tensor],
    *,
    only_shared_in: int | None = None,
) -> Tensor:
    """[1, L, d]: what `run` gives for every token of one text, in pieces of about `size` tokens.

    Args:
        layers: the model's layers, whose first argument is the states [1, L', d].
        run: [1, L', d], the model's output for the tiles and tokens [L'] of a piece, whose layers
            get their shared rows from the function that is its last argument.
        only_shared_in: the last layer, if only the shared tokens are wanted, [1, S, d].
    """
    text = _Text(only_shared_in)
    pieces = list(_cut(tiles, size, text))
    for piece in pieces:
        piece.run = run
    with _stops_before(layers, text):
        try:
            outputs = [_step(piece, piece.tiles, piece.rows, piece.shared_rows) for piece in pieces]
            while not pieces[-1].dead:
                outputs = [_step(piece) for piece in pieces]
        finally:
            for piece in pieces:
                if not piece.dead:
                    piece.throw()
    last: Tensor = outputs[-1]
    if only_shared_in is not None:
        return last[:, pieces[-1].tiles.shared[0]]
    whole = last.new_zeros(1, tiles.valid.shape[1], last.shape[-1])
    for piece in pieces:
        whole[:, piece.rows] = outputs.pop(0)  # which frees its memory
    return whole


@contextmanager
def _stops_before(layers: Sequence[nn.Module], text: _Text) -> Iterator[None]:
    """Inside this block, the pieces of a text stop before each of the layers but the first."""

    def before(
        layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        # Also called, without `kwargs` after its removal, for other passes through these layers.
        piece = getcurrent()
        if isinstance(piece, _Piece) and piece.text is text and piece.layers > piece.stops:
            piece.stop(args[0] if args else kwargs["hidden_states"])

    hooks = [layer.register_forward_pre_hook(before, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _step(piece: _Piece, *arguments: Any) -> Any:
    """What a piece gives at its next stop: None, or its output [1, L', d] at the end."""
    output = piece.switch(*arguments)
    give_way()
    # An exit that ends a piece early would keep all that the piece held.
    return output if isinstance(output, Tensor) else None


def _cut(tiles: Tiles, size: int, text: _Text) -> Iterator[_Piece]:
    """The pieces of a text, of as many tiles as `size` tokens hold, but at least one."""
    starts = tiles.start[0].tolist()
    ends = (tiles.start + tiles.length)[0].tolist()
    count = int((tiles.length[0] > 0).sum())
    first = 0
    for last in range(count):
        if last + 1 == count or ends[last + 1] - starts[first] > size:
            part, rows = _part(tiles, first, last + 1)
            yield _Piece(text, part, rows, is_last=last + 1 == count)
            first = last + 1


def _part(tiles: Tiles, first: int, end: int) -> tuple[Tiles, Tensor]:
    """The tiles from `first` up to `end` with the shared tokens around them, and the rows [L'] of
    their tokens in the text."""
    lead = tiles.lead
    shared = tiles.shared[0]
    start = tiles.start[:, first:end]
    length = tiles.length[:, first:end]
    content = torch.arange(int(start[0, 0]), int((start + length)[0, -1]), device=shared.device)
    rows = torch.cat([shared[:lead], content, shared[lead:]])
    tile = tiles.tile[:, rows]
    behind = lead + len(content)
    own_shared = [*range(lead), *range(behind, behind + tiles.trail)]
    part = Tiles(
        valid=tiles.valid[:, rows],
        position=tiles.position[:, rows],
        tile=torch.where(tile == SHARED, SHARED, tile - first),
        start=start - content[0] + lead,
        length=length.contiguous(),
        shared=torch.tensor([own_shared], dtype=torch.long, device=shared.device),
        lead=lead,
        trail=tiles.trail,
        width=tiles.width,
        size=tiles.size,
        padded=False,
    )
    return part, rows


def partial_rows(inputs: LayerInputs, view: TileView, *, shared_keys: bool) -> PartialRows:
    """What the shared rows see in a piece, with or without its shared tokens."""
    query = take(inputs.query, shared_tokens(view.tiles)).float()
    key = inputs.key.float()
    value = inputs.value.float()
    n, heads, count, width = query.shape
    # Heads that share keys are rows of one head.
    by_key_head = (n, key.shape[1], count * (heads // key.shape[1]))
    scores = query.reshape(*by_key_head, width) @ key.mT * inputs.scale
    scores = scores.view(n, heads, count, key.shape[2])
    seen = seen_by_shared(view)
    if seen is not None and seen.dtype == torch.bool:
        scores = scores.masked_fill(~seen, -torch.inf)
    elif seen is not None:
        scores = scores + seen
    if not shared_keys:
        scores = scores.masked_fill((view.tiles.tile == SHARED)[:, None, None], -torch.inf)
    top = scores.amax(dim=-1, keepdim=True)
    # Rows that see nothing have weights of 0, not NaN.
    weights = (scores - top.clamp(min=torch.finfo(torch.float32).min)).exp()
    total = weights.view(*by_key_head, key.shape[2]) @ value
    total = total.view(n, heads, count, value.shape[-1])
    return PartialRows(top, weights.sum(dim=-1, keepdim=True), total)


def merge(one_part: PartialRows, other: PartialRows) -> PartialRows:
    """What the shared rows see in both parts."""
    # Rows that see nothing in either have weights of 0, not NaN.
    top = torch.maximum(one_part.top, other.top).clamp(min=torch.finfo(torch.float32).min)
    factor = (one_part.top - top).exp()
    other_factor = (other.top - top).exp()
    weight = one_part.weight * factor + other.weight * other_factor
    return PartialRows(top, weight, one_part.total * factor + other.total * other_factor)
