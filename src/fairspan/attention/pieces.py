"""One long text in pieces, which bound what a layer needs for it beside its input and output.

The tiles of a text do not see each other, but the global tokens see all of them. A piece is some
tiles with the global tokens around them. A layer runs on one piece after another, and the last one
completes the rows of the global tokens: what they see in the pieces is put together, as in a
softmax that is computed block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairspan.attention.baskets import is_traced
from fairspan.attention.plan import PLAN_ARGUMENT, LayerInputs, Piece, Plan
from fairspan.attention.tile_rows import global_tokens, seen_by_global, tokens_of
from fairspan.attention.tiles import GLOBAL, Tiles, TileView

_EMBEDDED_AT_A_TIME = 2**12
"""Tokens of a long text whose embeddings are computed together."""
_EMBEDDED_ON_GPU = 2**15
"""The same on a GPU, where smaller blocks take longer than they save memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PartialRows:
    """What the global rows see in some pieces, in float32.

    Attributes:
        top: [N, H, S, 1], the largest score; −inf where nothing is seen.
        weight: [N, H, S, 1], the sum of exp(score − top).
        total: [N, H, S, D], the values weighted with these, summed.
    """

    top: Tensor
    weight: Tensor
    total: Tensor


class _GlobalRows:
    """What the global rows see in the pieces of a text that have been in the current layer."""

    def __init__(self) -> None:
        self._seen: PartialRows | None = None

    def add(self, inputs: LayerInputs, view: TileView, *, is_last: bool) -> Tensor | None:
        """[1, S, H, D]: the global rows of a layer, after its last piece; None before."""
        # The global tokens are in every piece, and are seen once.
        rows = partial_rows(inputs, view, global_keys=is_last)
        self._seen = rows if self._seen is None else merge(self._seen, rows)
        if not is_last:
            return None
        complete = self._seen.total / self._seen.weight
        self._seen = None
        return complete.transpose(1, 2).to(inputs.value.dtype)


def in_pieces(plan: Plan, size: int) -> Plan:
    """A plan for one text in tiles whose layers run on pieces of about `size` tokens."""
    assert plan.tiles is not None
    global_rows = _GlobalRows()
    cuts = list(_cut(plan.tiles, size))
    pieces = []
    for number, (first, end) in enumerate(cuts, start=1):
        tiles, rows = _part(plan.tiles, first, end)
        is_last = number == len(cuts)
        # The last piece counts the layers of the whole pass.
        asked = plan.asked if is_last else []
        add = partial(global_rows.add, is_last=is_last)
        pieces.append(Piece(replace(plan, tiles=tiles, asked=asked, add_piece=add), rows))
    return replace(plan, pieces=tuple(pieces))


def route_layers(model: nn.Module, layers: Iterable[nn.Module]) -> None:
    """Let a model's layers run on the pieces of a plan; without such a plan they run as before."""
    for layer in layers:
        _route(layer, run_layer)
    embeddings = getattr(model, "embeddings", None)
    if isinstance(embeddings, nn.Module):
        _route(embeddings, run_embeddings)


def _route(module: nn.Module, run: Callable[..., Any]) -> None:
    if getattr(module.forward, "func", None) is not run:
        module.forward = partial(run, module.forward)


def run_embeddings(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """[1, L, d]: the embeddings of a long text whose positions are given, block by block.

    What is added up for a token would take as much memory as several layers' states.
    """
    positions: Tensor | None = kwargs.get("position_ids")
    if positions is None or torch.is_grad_enabled() or is_traced():
        return forward(*args, **kwargs)
    texts, length = positions.shape
    size = _EMBEDDED_ON_GPU if positions.is_cuda else _EMBEDDED_AT_A_TIME
    if texts != 1 or length <= size:
        return forward(*args, **kwargs)
    blocks = torch.split(torch.arange(length, device=positions.device), size)
    parts = (_rows_of((args, kwargs), block, length) for block in blocks)
    return torch.cat([forward(*part_args, **part_kwargs) for part_args, part_kwargs in parts], 1)


def run_layer(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The output of a layer, whose first argument is the states [1, L, d] if there are pieces.

    The states of the layer before are overwritten, piece by piece.
    """
    plan: Plan | None = kwargs.get(PLAN_ARGUMENT)
    if plan is None or not plan.pieces:
        return forward(*args, **kwargs)
    states: Tensor = args[0] if args else kwargs["hidden_states"]
    if kwargs.get("past_key_values") is not None:
        # A cache would give every piece the keys of those before it.
        kwargs = {**kwargs, "past_key_values": None}
    out = states if states is plan.states else torch.empty_like(states)
    for piece in plan.pieces:
        piece_args, piece_kwargs = _rows_of((args, kwargs), piece.rows, states.shape[1])
        output = forward(*piece_args, **{**piece_kwargs, PLAN_ARGUMENT: piece.plan})
        plan.path = piece.plan.path
        piece_states = output if isinstance(output, Tensor) else output[0]
        content = piece.content
        out[:, piece.rows[content]] = piece_states[:, content]
    # Not before every piece has read the global tokens.
    out[:, piece.rows] = piece_states
    plan.states = out
    return out if isinstance(output, Tensor) else (out, *output[1:])


def _rows_of(arguments: Any, rows: Tensor, length: int) -> Any:
    """The arguments of a layer with the tokens `rows` of every tensor [1, L, …] in them."""
    if isinstance(arguments, Tensor):
        return arguments[:, rows] if arguments.shape[:2] == (1, length) else arguments
    if isinstance(arguments, dict):
        return {name: _rows_of(value, rows, length) for name, value in arguments.items()}
    if type(arguments) in (tuple, list):
        return type(arguments)(_rows_of(value, rows, length) for value in arguments)
    return arguments


def _cut(tiles: Tiles, size: int) -> Iterator[tuple[int, int]]:
    """The first tile of each piece and the one after its last: as many as `size` tokens hold, but
    at least one."""
    starts = tiles.start[0].tolist()
    ends = (tiles.start + tiles.length)[0].tolist()
    count = int((tiles.length[0] > 0).sum())
    first = 0
    for last in range(count):
        if last + 1 == count or ends[last + 1] - starts[first] > size:
            yield first, last + 1
            first = last + 1


def _part(tiles: Tiles, first: int, end: int) -> tuple[Tiles, Tensor]:
    """The tiles from `first` up to `end` with the global tokens around them, and the rows [L'] of
    their tokens in the text."""
    lead = tiles.lead
    of_text = tiles.global_rows[0]
    start = tiles.start[:, first:end]
    length = tiles.length[:, first:end]
    content = torch.arange(int(start[0, 0]), int((start + length)[0, -1]), device=of_text.device)
    rows = torch.cat([of_text[:lead], content, of_text[lead:]])
    tile = tiles.tile[:, rows]
    behind = lead + len(content)
    part_global = [*range(lead), *range(behind, behind + tiles.trail)]
    part = replace(
        tiles,
        valid=tiles.valid[:, rows],
        position=tiles.position[:, rows],
        tile=torch.where(tile == GLOBAL, GLOBAL, tile - first),
        start=start - content[0] + lead,
        length=length.contiguous(),
        global_rows=torch.tensor([part_global], dtype=torch.long, device=of_text.device),
        padded=False,
        groups=None,
    )
    return part, rows


def partial_rows(inputs: LayerInputs, view: TileView, *, global_keys: bool) -> PartialRows:
    """What the global rows see in a piece, with or without its global tokens."""
    query = tokens_of(inputs.query, global_tokens(view.tiles)).float()
    key = inputs.key.float()
    value = inputs.value.float()
    n, heads, count, width = query.shape
    # Heads that share keys are rows of one head.
    by_key_head = (n, key.shape[1], count * (heads // key.shape[1]))
    scores = query.reshape(*by_key_head, width) @ key.mT * inputs.scale
    scores = scores.view(n, heads, count, key.shape[2])
    seen = seen_by_global(view)
    if seen is not None and seen.dtype == torch.bool:
        scores = scores.masked_fill(~seen, -torch.inf)
    elif seen is not None:
        scores = scores + seen
    if not global_keys:
        scores = scores.masked_fill((view.tiles.tile == GLOBAL)[:, None, None], -torch.inf)
    top = scores.amax(dim=-1, keepdim=True)
    # Rows that see nothing have weights of 0, not NaN.
    weights = (scores - top.clamp(min=torch.finfo(torch.float32).min)).exp()
    total = weights.view(*by_key_head, key.shape[2]) @ value
    total = total.view(n, heads, count, value.shape[-1])
    return PartialRows(top, weights.sum(dim=-1, keepdim=True), total)


def merge(one_part: PartialRows, other: PartialRows) -> PartialRows:
    """What the global rows see in both parts."""
    # Rows that see nothing in either have weights of 0, not NaN.
    top = torch.maximum(one_part.top, other.top).clamp(min=torch.finfo(torch.float32).min)
    factor = (one_part.top - top).exp()
    other_factor = (other.top - top).exp()
    weight = one_part.weight * factor + other.weight * other_factor
    return PartialRows(top, weight, one_part.total * factor + other.total * other_factor)
