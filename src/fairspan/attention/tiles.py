"""Tile geometry: which tokens see which, and where a token stands (METHODS §10).

A text has shared tokens in front (special tokens and the prompt), content, and shared tokens at its end. The content
is cut into tiles. A content token sees its own tile and the shared tokens; shared tokens see everything and are seen
by everything. Positions start again in every tile, so that no position exceeds the longest tile and the shared ones.

All that depends on a place is needed for these few positions only, and not for every pair of tokens: a position bias
is a table of P×P entries instead of L×L, and the mask of a causal or windowed layer a table of distances.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from fairspan.attention.baskets import has_no_padding, lasting, runs

SHARED, NO_TILE = -1, -2


@dataclass(slots=True, eq=False)
class Tiles:
    """The tiles of a batch of texts.

    Attributes:
        valid: [N, L] bool, False for padding.
        position: [N, L], where each token stands; 0 at padding.
        tile: [N, L], the tile of each token, `SHARED` or `NO_TILE` (padding).
        start, length: [N, M], where each tile begins and how many tokens it has; 0 where a text has fewer tiles.
        shared: [N, S], the rows of the shared tokens, clamped where a text has fewer.
        lead, trail: how many shared tokens a text has in front and at its end.
        width: a length that no tile exceeds.
        padded: whether the batch may have padding.
        groups: kept by `tile_rows` between the layers of a pass.
    """

    valid: Tensor
    position: Tensor
    tile: Tensor
    start: Tensor
    length: Tensor
    shared: Tensor
    lead: int
    trail: int
    width: int
    padded: bool
    groups: list[TileGroup] | None = None

    @property
    def positions(self) -> int:
        """P, the number of positions."""
        return self.lead + self.width + self.trail


@dataclass(frozen=True, slots=True, eq=False)
class TileGroup:
    """Tiles that are computed together; numbers of tokens count through the whole batch, text after text.

    Attributes:
        rows: [G, W], the tokens of each tile. row_ok: [G, W], which of them are there; None for all, or where a
            token that is there already fills the gap.
        keys: [G, K], the shared tokens and those that the tile sees. key_ok: [G, K], which of them are there; None
            for all.
    """

    rows: Tensor
    row_ok: Tensor | None
    keys: Tensor
    key_ok: Tensor | None


def lay_tiles(
    valid: Tensor,
    size: int,
    *,
    lead: int,
    trail: int,
    segment: Tensor | None = None,
    longest: int | None = None,
) -> Tiles:
    """The tiles of texts given as [N, L] bool, False for padding on either side.

    n tokens are cut into as few tiles as sizes allow, whose lengths differ by one at most, the longer ones first.

    Args:
        size: the most tokens of a tile.
        lead, trail: how many tokens in front and at the end are shared.
        segment: [N, L], rising numbers of segments, each of which becomes a tile; below 0 throughout for texts that
            are cut by `size`.
        longest: the most tokens of a tile of a segment.
    """
    if segment is None and has_no_padding(valid):
        return _without_padding(valid.shape, size, lead, trail, valid.device)
    return _lay(valid, size, lead, trail, segment, longest)


@lru_cache(maxsize=64)
def _without_padding(
    shape: tuple[int, int], size: int, lead: int, trail: int, device: torch.device
) -> Tiles:
    """Batches without padding have the same tiles whatever their texts, so that these need not be found again."""
    with lasting():
        tiles = _lay(
            torch.ones(shape, dtype=torch.bool, device=device), size, lead, trail, None, None
        )
        return replace(tiles, padded=False, width=max(1, int(tiles.length.max())))


def _lay(
    valid: Tensor, size: int, lead: int, trail: int, segment: Tensor | None, longest: int | None
) -> Tiles:
    first, total = valid.int().argmax(dim=1, keepdim=True), valid.sum(dim=1, keepdim=True)
    rank = valid.cumsum(dim=1) - 1
    content = (total - lead - trail).clamp(min=0)
    offset = rank - lead
    inside = valid & (offset >= 0) & (offset < content)
    if segment is None:
        count, width = runs(valid.shape[1] - lead - trail, size)
        tile, within = _cut(offset, content, size)
        number = torch.arange(count, device=valid.device)
        pieces, base, longer = _balance(content, size)
        length = torch.where(number < pieces, base + (number < longer), 0)
        start = first + lead + number * base + torch.minimum(number, longer)
        longest_tile = length[:, :1]
    else:
        number = torch.where(inside, segment, -1)
        changes = torch.nn.functional.pad(number[:, 1:] != number[:, :-1], (1, 0), value=True)
        begin = torch.where(inside & changes, offset, 0).cummax(dim=1).values
        cut = torch.where(segment[:, :1] < 0, size, size if longest is None else longest)
        ends = torch.where(inside & changes.roll(-1, 1), offset + 1, content)
        end = ends.flip(1).cummin(dim=1).values.flip(1)
        _, within = _cut(offset - begin, end - begin, cut)
        begins = inside & (within == 0)
        tile = torch.where(inside, begins.cumsum(dim=1) - 1, 0)
        count = int(tile.max()) + 1
        length = torch.zeros(len(valid), count, dtype=torch.long, device=valid.device)
        length = length.scatter_add(1, tile, inside.long())
        where = torch.where(begins, torch.arange(valid.shape[1], device=valid.device), 0)
        start = torch.zeros_like(length).scatter_add(1, tile, where)
        longest_tile = length.amax(dim=1, keepdim=True)
        width = max(1, int(longest_tile.max()))
    at_end = lead + longest_tile + offset - content
    position = torch.where(inside, lead + within, torch.where(offset < 0, rank, at_end))
    position = torch.where(valid, position, 0)
    tile = torch.where(valid, torch.where(inside, tile, SHARED), NO_TILE)
    number = torch.arange(lead + trail, device=valid.device).expand(valid.shape[0], -1)
    number = torch.where(number < lead, number, number - lead + (total - trail).clamp(min=lead))
    shared = first + number.clamp(max=(total - 1).clamp(min=0))
    start, length = start.contiguous(), length.contiguous()
    return Tiles(valid, position, tile, start, length, shared, lead, trail, width, padded=True)


def _balance(count: Tensor, size: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
    """The number of pieces of at most `size` tokens, at least one; their length; and how many of them, the first
    ones, have one token more.
    """
    pieces = (-(-count // size)).clamp(min=1)
    return pieces, count // pieces, count % pieces


def _cut(offset: Tensor, count: Tensor, size: Tensor | int) -> tuple[Tensor, Tensor]:
    """In which piece an offset into `count` tokens lies, and where in it."""
    _, base, longer = _balance(count, size)
    base = base.clamp(min=1)
    beyond = offset - longer * (base + 1)
    early = beyond < 0
    piece = torch.where(early, offset // (base + 1), longer + beyond // base)
    return piece, torch.where(early, offset % (base + 1), beyond % base)


@dataclass(frozen=True, slots=True, eq=False)
class TileView:
    """What the rows of one layer see.

    Attributes:
        mask: [2·P − 1] bool, whether a row sees a key that it stands d positions behind, for d from −(P − 1); None if
            every row sees all.
        bias: [N or 1, H, P, P], added to the scores of these positions.
        causal: whether a row sees no token after its own.
    """

    tiles: Tiles
    mask: Tensor | None
    bias: Tensor | None
    causal: bool

    def sees(self, row: Tensor, key: Tensor) -> Tensor:
        """Whether rows at these positions see keys at those, as far as the layer's mask goes."""
        assert self.mask is not None
        return self.mask[row - key + self.tiles.positions - 1]

    def of_rows(self, text: Tensor, row: Tensor) -> tuple[Tensor | None, Tensor]:
        """For rows `row` [B] of the texts `text` [B]: the bias [B, H, L] and the keys that they see [B, L]."""
        tile, position = self.tiles.tile, self.tiles.position
        own, at, keys, places = (
            tile[text, row, None],
            position[text, row, None],
            tile[text],
            position[text],
        )
        visible = (keys != NO_TILE) & ((keys == own) | (keys == SHARED) | (own == SHARED))
        if self.mask is not None:
            before = places
            if self.causal:
                visible = visible & (torch.arange(keys.shape[1], device=row.device) <= row[:, None])
                # In an earlier tile a token may stand further on, and is behind the row all the same.
                before = torch.minimum(places, at)
            visible = visible & self.sees(at, before)
        if self.bias is None:
            return None, visible
        rows = self.bias[text % self.bias.shape[0], :, at[:, 0]]  # [B, H, P]
        return rows.gather(2, places[:, None].expand(-1, rows.shape[1], -1)), visible


class _Reading(threading.local):
    tiles: Tiles | None = None


_reading = _Reading()


@contextmanager
def reading(tiles: Tiles) -> Iterator[None]:
    """Inside this block, masks and position biases are made for the positions of `tiles`."""
    before, _reading.tiles = _reading.tiles, tiles
    try:
        yield
    finally:
        _reading.tiles = before


def tiles_being_read() -> Tiles | None:
    """The tiles of the pass that this thread is in, if it is one in tiles.

    The model builds masks and biases before its layers run, and does not pass our arguments to that code.
    """
    return _reading.tiles
