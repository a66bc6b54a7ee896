"""One long text read in pieces, so that neither its memory nor its time is taken in one go.

The tiles of a text do not see each other, but the shared tokens see all of them. A piece is some
tiles with the shared tokens around them. It runs through the layers like a text of its own, and
stops in each of them until all pieces have been there: what the shared rows see in the pieces is
then put together, as in a softmax that is computed block by block, and every piece goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from greenlet import greenlet
from torch import Tensor

from fairspan.attention.plan import LayerInputs
from fairspan.attention.steps import give_way
from fairspan.attention.tile_rows import seen_by_shared, shared_tokens, take
from fairspan.attention.tiles import SHARED, Tiles, TileView, reading

SharedRows = Callable[[LayerInputs, TileView], Tensor]
"""[1, S, H, D]: what the shared rows of a layer see in all pieces."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialRows:
    """What the shared rows see in one piece, in float32.

    Attributes:
        top: [N, H, S, 1], the largest score; −inf where nothing is seen.
        weight: [N, H, S, 1], the sum of exp(score − top).
        total: [N, H, S, D], the values weighted with these, summed.
    """

    top: Tensor
    weight: Tensor
    total: Tensor


class _Piece(greenlet):
    """A pass over some tiles of a text, which stops in every layer.

    Attributes:
        rows: [L'], the tokens of the text that it reads.
        counts_shared: whether the shared rows see its shared tokens; those of the other pieces are
            the same tokens again.
    """

    def __init__(self, tiles: Tiles, rows: Tensor, *, counts_shared: bool) -> None:
        super().__init__()
        self.tiles = tiles
        self.rows = rows
        self.counts_shared = counts_shared

    def shared_rows(self, inputs: LayerInputs, view: TileView) -> Tensor:
        """[1, S, H, D]: the shared rows of a layer, once all pieces have been in it."""
        partial = partial_rows(inputs, view, shared_keys=self.counts_shared)
        assert self.parent is not None
        with reading(None):
            rows: Tensor = self.parent.switch(partial)
        return rows.transpose(1, 2).to(inputs.value.dtype)


def read_in_pieces(
    tiles: Tiles, size: int, run: Callable[[Tiles, Tensor, SharedRows], Tensor]
) -> Tensor:
    """[1, L, d]: what `run` gives for every token of one text, in pieces of about `size` tokens.

    Args:
        run: [1, L', d], the model's output for the tiles and tokens [L'] of a piece, whose layers
            get their shared rows from the function that is its last argument.
    """
    pieces = list(_cut(tiles, size))
    for piece in pieces:
        piece.run = run
    try:
        outputs = [_step(piece, piece.tiles, piece.rows, piece.shared_rows) for piece in pieces]
        while not pieces[0].dead:
            rows = combine(outputs)
            outputs = [_step(piece, rows) for piece in pieces]
    finally:
        for piece in pieces:
            if not piece.dead:
                piece.throw()
    whole: Tensor = outputs[0].new_zeros(1, tiles.valid.shape[1], outputs[0].shape[-1])
    for piece, output in zip(pieces, outputs, strict=True):
        whole[:, piece.rows] = output
    return whole


def _step(piece: _Piece, *arguments: Any) -> Any:
    """What a piece gives at its next stop: `PartialRows`, or its output [1, L', d] at the end."""
    output = piece.switch(*arguments)
    give_way()
    return output


def _cut(tiles: Tiles, size: int) -> Iterator[_Piece]:
    """The pieces of a text, of as many tiles as `size` tokens hold, but at least one."""
    starts = tiles.start[0].tolist()
    ends = (tiles.start + tiles.length)[0].tolist()
    count = int((tiles.length[0] > 0).sum())
    first = 0
    for last in range(count):
        if last + 1 == count or ends[last + 1] - starts[first] > size:
            yield _piece(tiles, first, last + 1, counts_shared=last + 1 == count)
            first = last + 1


def _piece(tiles: Tiles, first: int, end: int, *, counts_shared: bool) -> _Piece:
    """The tiles from `first` up to `end` with the shared tokens around them."""
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
    return _Piece(part, rows, counts_shared=counts_shared)


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


def combine(parts: Sequence[PartialRows]) -> Tensor:
    """[N, H, S, D]: the shared rows, given what they see in each piece."""
    top = torch.stack([part.top for part in parts]).amax(dim=0)
    factors = [(part.top - top).exp() for part in parts]
    weights = [part.weight * factor for part, factor in zip(parts, factors, strict=True)]
    totals = [part.total * factor for part, factor in zip(parts, factors, strict=True)]
    return torch.stack(totals).sum(dim=0) / torch.stack(weights).sum(dim=0)
