"""Tile geometry: which tokens see which, and where a token stands (METHODS §10).

A text has shared tokens in front (special tokens and the prompt), content, and shared tokens at its end. The content
is cut into tiles. A content token sees its own tile and the shared tokens; shared tokens see everything and are seen
by everything. Positions start again in every tile, so that no position exceeds the longest tile and the shared ones.

All that depends on a place (masks of causal and windowed layers, position biases) is needed for these few positions
only, and not for every pair of tokens: a table of P×P entries in place of a matrix of L×L.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
from torch import Tensor

from fairspan.attention.baskets import has_no_padding, lasting, runs

SHARED, NO_TILE = -1, -2


@dataclass(eq=False)
class Tiles:
    """The tiles of a batch of texts.

    Attributes:
        valid: [N, L] bool, False for padding.
        position: [N, L], where each token stands; 0 at padding.
        start, length: [N, M], where each tile begins and how many tokens it has; 0 where a text has fewer tiles.
        lead, trail: how many shared tokens a text has in front and at its end.
        width: a length that no tile exceeds.
        reach: how many tiles on either side a token sees besides its own.
        padded: whether the batch may have padding.
    """

    valid: Tensor
    position: Tensor
    start: Tensor
    length: Tensor
    lead: int
    trail: int
    width: int
    reach: int
    padded: bool
    groups: list[TileGroup] | None = field(default=None, init=False)
    """Kept by `tile_rows` between the layers of a pass."""
    # Kept likewise, and by hand: a compiled graph cannot go through the lock of a cached_property (Python 3.11).
    _content: Tensor | None = field(default=None, init=False)
    _shared: Tensor | None = field(default=None, init=False)
    _tile: Tensor | None = field(default=None, init=False)

    @property
    def positions(self) -> int:
        """P, the number of positions."""
        return self.lead + self.width + self.trail

    @property
    def content(self) -> Tensor:
        """[N], how many tokens of each text lie in tiles."""
        if self._content is None:
            self._content = (self.valid.sum(dim=1) - self.lead - self.trail).clamp(min=0)
        return self._content

    @property
    def shared(self) -> Tensor:
        """[N, S], the rows of the shared tokens, clamped where a text has fewer."""
        if self._shared is None:
            self._shared = self._find_shared()
        return self._shared

    @property
    def tile(self) -> Tensor:
        """[N, L], the tile of each token, `SHARED` or `NO_TILE` (padding)."""
        if self._tile is None:
            self._tile = self._find_tile()
        return self._tile

    def _find_shared(self) -> Tensor:
        first, total = self.valid.int().argmax(dim=1, keepdim=True), self.valid.sum(dim=1, keepdim=True)
        rank = torch.arange(self.lead + self.trail, device=first.device).expand(first.shape[0], -1)
        at_end = rank - self.lead + (total - self.trail).clamp(min=self.lead)
        rank = torch.where(rank < self.lead, rank, at_end)
        return first + rank.clamp(max=(total - 1).clamp(min=0))

    def _find_tile(self) -> Tensor:
        begins = torch.zeros_like(self.position)
        exists = (self.length > 0).to(begins.dtype)
        begins = begins.scatter_add(1, self.start.clamp(max=begins.shape[1] - 1), exists)
        rank = self.valid.cumsum(dim=1) - 1 - self.lead
        inside = (rank >= 0) & (rank < self.content[:, None])
        tile = torch.where(inside, begins.cumsum(dim=1) - 1, SHARED)
        return torch.where(self.valid, tile, NO_TILE)


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
    reach: int = 0,
    segment: Tensor | None = None,
    longest: int | None = None,
) -> Tiles:
    """The tiles of texts given as [N, L] bool, False for padding on either side.

    Args:
        size: tokens per tile; the last of a text may be shorter.
        segment: [N, L], rising numbers of segments, each of which becomes a tile; below 0 throughout for texts that
            are cut into runs of `size`.
        longest: a segment of more tokens is cut into runs of so many.
    """
    if segment is None and has_no_padding(valid):
        return _without_padding(valid.shape, size, lead, trail, reach, valid.device)
    return _lay(valid, size, lead, trail, reach, segment, longest)


@lru_cache(maxsize=64)
def _without_padding(
    shape: tuple[int, int], size: int, lead: int, trail: int, reach: int, device: torch.device
) -> Tiles:
    """Batches without padding have the same tiles whatever their texts, so that these need not be found again."""
    with lasting():
        tiles = _lay(torch.ones(shape, dtype=torch.bool, device=device), size, lead, trail, reach, None, None)
        tiles = replace(tiles, padded=False)
        assert tiles.shared is not None
        assert tiles.tile is not None
    return tiles


def _lay(
    valid: Tensor, size: int, lead: int, trail: int, reach: int, segment: Tensor | None, longest: int | None
) -> Tiles:
    rank, total = valid.cumsum(dim=1) - 1, valid.sum(dim=1, keepdim=True)
    content = (total - lead - trail).clamp(min=0)
    offset = rank - lead
    inside = valid & (offset >= 0) & (offset < content)
    if segment is None:
        count, width = runs(valid.shape[1] - lead - trail, size)
        first = valid.int().argmax(dim=1, keepdim=True)
        steps = torch.arange(count, device=valid.device) * size
        start, length = first + lead + steps, (content - steps).clamp(min=0, max=size)
        within = offset % size
        longest_tile = content.clamp(max=size)
    else:
        number = torch.where(inside, segment, -1)
        changes = torch.nn.functional.pad(number[:, 1:] != number[:, :-1], (1, 0), value=True)
        begin = torch.where(inside & changes, offset, 0).cummax(dim=1).values
        cut = torch.where(segment[:, :1] < 0, size, size if longest is None else longest)
        within = (offset - begin) % cut
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
    return Tiles(valid, position, start.contiguous(), length.contiguous(), lead, trail, width, reach, padded=True)


@dataclass(frozen=True, slots=True, eq=False)
class TileView:
    """What the rows of one layer see.

    Attributes:
        mask: [P, P] bool, which position sees which; None if each sees all.
        bias: [N or 1, H, P, P], added to the scores of these positions.
        causal: whether a row sees no token after its own.
        tiled: whether the layer is tiled, or every row sees all tiles.
    """

    tiles: Tiles
    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    tiled: bool

    def of_rows(self, text: Tensor, row: Tensor) -> tuple[Tensor | None, Tensor]:
        """For rows `row` [B] of the texts `text` [B]: the bias [B, H, L] and the keys that they see [B, L]."""
        tile, position = self.tiles.tile, self.tiles.position
        own, at, keys, places = tile[text, row, None], position[text, row, None], tile[text], position[text]
        visible = keys != NO_TILE
        if self.tiled:
            visible = visible & (((keys - own).abs() <= self.tiles.reach) | (keys == SHARED) | (own == SHARED))
        if self.mask is not None:
            before = places
            if self.causal:
                visible = visible & (torch.arange(keys.shape[1], device=row.device) <= row[:, None])
                # In an earlier tile a token may stand further on, and is behind the row all the same.
                before = torch.minimum(places, at)
            visible = visible & self.mask[at, before]
        return self.bias_between(text, at, places), visible

    def bias_between(self, text: Tensor, at: Tensor, places: Tensor) -> Tensor | None:
        """The bias [B, H, L] of rows that stand at `at` [B, 1], and keys that stand at `places` [B, L]."""
        if self.bias is None:
            return None
        rows = self.bias[text % self.bias.shape[0], :, at[:, 0]]  # [B, H, P]
        return rows.gather(2, places[:, None].expand(-1, rows.shape[1], -1))


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

    Masks and biases are made by the model before its layers, and models hand no argument of ours to what makes them.
    """
    return _reading.tiles
