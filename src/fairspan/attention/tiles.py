"""Tile geometry: which tokens see which, and where a token stands (METHODS §10).

A text has shared tokens in front (special tokens and the prompt), content, and shared tokens at its
end. The content is cut into tiles. A content token sees its own tile and the shared tokens; shared
tokens see everything and are seen by everything. Positions start again in every tile, so that no
position exceeds the longest tile and the shared ones.

A position bias is a table of P×P entries for these positions instead of L×L, and the mask of a
causal or windowed layer a table of distances.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fairspan.attention.baskets import is_traced, runs

SHARED = -1
NO_TILE = -2
FAR = 2**30
"""A distance that no two tokens of a tile have."""


@dataclass(slots=True, eq=False)
class Tiles:
    """The tiles of a batch of texts.

    Attributes:
        valid: [N, L] bool, False for padding.
        position: [N, L], where each token stands; 0 at padding.
        tile: [N, L], the tile of each token, `SHARED` or `NO_TILE` (padding).
        start, length: [N, M], where each tile begins and how many tokens it has; 0 where a text has
            fewer tiles.
        shared: [N, S], the rows of the shared tokens, clamped where a text has fewer.
        lead, trail: how many shared tokens a text has in front and at its end.
        width: a length that no tile exceeds.
        size: a length that no tile of a text of several exceeds.
        padded: whether the batch may have padding.
        groups: kept by `tile_rows` between the layers of a pass.
        bands: the tables of distances of a pass that show one run of them, by address; see
            `TileView`.
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
    size: int
    padded: bool
    groups: list[TileGroup] | None = None
    bands: dict[int, tuple[Tensor, tuple[int, int]]] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """P, the number of positions."""
        return self.lead + self.width + self.trail


@dataclass(frozen=True, slots=True, eq=False)
class TileGroup:
    """Tiles that are computed together; tokens are numbered through the batch, text after text.

    Attributes:
        rows: [G, W], the tokens of each tile.
        row_ok: [G, W], which of them are there; None for all, or where a token that is there
            already fills the gap.
        keys: [G, K], the shared tokens and those that the tile sees.
        key_ok: [G, K], which of them are there; None for all.
    """

    rows: Tensor
    row_ok: Tensor | None
    keys: Tensor
    key_ok: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """The tokens of each text that are not shared.

    Attributes:
        start: [N, 1], where they begin.
        count: [N, 1], how many there are.
        offset: [N, L], how far each token is behind the first of them.
        inside: [N, L] bool, whether a token is one of them.
    """

    start: Tensor
    count: Tensor
    offset: Tensor
    inside: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """Content that is cut into tiles; `start`, `length`, `width` and `size` as in `Tiles`.

    Attributes:
        tile, within: [N, L], the tile of each content token and how far in it the token is.
        longest: [N, 1], the length of the longest tile of each text.
    """

    tile: Tensor
    within: Tensor
    start: Tensor
    length: Tensor
    longest: Tensor
    width: int
    size: int


def lay_tiles(
    valid: Tensor,
    size: int,
    *,
    lead: int,
    trail: int,
    whole: int = 0,
    segment: Tensor | None = None,
    longest: int | None = None,
) -> Tiles:
    """The tiles of texts given as [N, L] bool, False for padding on either side.

    n tokens are cut into as few tiles as sizes allow, whose lengths differ by one at most, the
    longer ones first.

    Args:
        size: the most tokens of a tile.
        lead, trail: how many tokens in front and at the end are shared.
        whole: texts of at most so many tokens, shared ones aside, are one tile.
        segment: [N, L], rising numbers of segments, each of which becomes a tile; below 0
            throughout for texts that are cut by `size`.
        longest: the most tokens of a tile of a segment; `size` if None.
    """
    whole = max(size, whole)
    if segment is None and not is_traced():
        return _lay_on_host(valid, size, whole, lead, trail)
    first = valid.int().argmax(dim=1, keepdim=True)
    total = valid.sum(dim=1, keepdim=True)
    rank = valid.cumsum(dim=1) - 1
    count = (total - lead - trail).clamp(min=0)
    offset = rank - lead
    content = _Content(first + lead, count, offset, valid & (offset >= 0) & (offset < count))
    if segment is None:
        cut = _cut_by_size(content, size, whole, valid.shape[1] - lead - trail)
    else:
        cut = _cut_by_segment(content, segment, size, size if longest is None else longest)

    at_end = lead + cut.longest + offset - count
    outside = torch.where(offset < 0, rank, at_end)
    position = torch.where(content.inside, lead + cut.within, outside)
    tile = torch.where(content.inside, cut.tile, SHARED)
    return Tiles(
        valid,
        torch.where(valid, position, 0),
        torch.where(valid, tile, NO_TILE),
        cut.start.contiguous(),
        cut.length.contiguous(),
        _shared_rows(first, total, lead, trail),
        lead,
        trail,
        cut.width,
        cut.size,
        padded=True,
    )


def _lay_on_host(valid: Tensor, size: int, whole: int, lead: int, trail: int) -> Tiles:
    """`lay_tiles` without segments, where lengths may be looked at.

    A GPU would start dozens of small operations before the first layer. Texts of one length have
    the same tiles.
    """
    row_length = valid.shape[1]
    total = valid.sum(dim=1, keepdim=True).numpy(force=True)
    padded = bool((total < row_length).any())
    if padded:
        first = valid.int().argmax(dim=1, keepdim=True).numpy(force=True)
    else:
        total = total[:1]
        first = np.zeros_like(total)
    count = (total - lead - trail).clip(0)
    pieces = (-(-count // np.where(count > whole, size, whole))).clip(1)
    number = np.arange(pieces.max(initial=1))
    length = np.where(number < pieces, count // pieces + (number < count % pieces), 0)
    start = first + lead + length.cumsum(axis=1) - length

    # A text is runs of tokens at rising positions: padding, shared, its tiles, shared, padding.
    in_front = np.minimum(total, lead)
    at_end = total - in_front - count
    lengths = np.hstack([first, in_front, length, at_end, row_length - first - total])
    zero = np.zeros_like(first)
    behind_tiles = lead + length[:, :1]
    positions = np.hstack([zero, zero, np.full_like(length, lead), behind_tiles, zero])
    kinds = np.hstack([NO_TILE, SHARED, number, SHARED, NO_TILE])
    repeats = lengths.ravel()
    begins = repeats.cumsum() - repeats
    tile = np.repeat(np.broadcast_to(kinds, lengths.shape), repeats)
    position = np.repeat(positions.ravel() - begins, repeats) + np.arange(len(tile))
    position[tile == NO_TILE] = 0

    shared = _shared_rows(torch.from_numpy(first), torch.from_numpy(total), lead, trail)
    geometry = [position.reshape(len(first), -1), tile.reshape(len(first), -1), start, length]
    # In one copy to the device.
    together = torch.from_numpy(np.hstack([*geometry, shared.numpy()])).to(valid.device)
    widths = [row_length, row_length, len(number), len(number), lead + trail]
    parts = torch.split(together.expand(len(valid), -1), widths, dim=1)
    of_several = length[pieces[:, 0] > 1]
    return Tiles(
        valid=valid,
        position=parts[0],
        tile=parts[1],
        start=parts[2],
        length=parts[3],
        shared=parts[4],
        lead=lead,
        trail=trail,
        width=int(length.max(initial=1)),
        size=int(of_several.max(initial=1)),
        padded=padded,
    )


def _cut_by_size(content: _Content, size: int, whole: int, room: int) -> _Cut:
    """Texts of more than `whole` tokens cut into tiles of at most `size` tokens.

    No text has more content than `room`.
    """
    most_tiles, longest = runs(room, size)
    _, width = runs(room, whole)
    number = torch.arange(most_tiles, device=content.count.device)
    limit = size if whole == size else torch.where(content.count > whole, size, whole)
    pieces, base, longer = _balance(content.count, limit)
    length = torch.where(number < pieces, base + (number < longer), 0)
    start = content.start + number * base + torch.minimum(number, longer)
    tile, within = _piece_of(content.offset, content.count, limit)
    return _Cut(tile, within, start, length, length[:, :1], width, longest)


def _cut_by_segment(content: _Content, segment: Tensor, size: int, longest: int) -> _Cut:
    """Every segment [N, L] cut into tiles of at most `longest` tokens, other texts by `size`."""
    begin, end = _segment_spans(content, segment)
    most_tokens = torch.where(segment[:, :1] < 0, size, longest)
    _, within = _piece_of(content.offset - begin, end - begin, most_tokens)
    inside = content.inside
    begins = inside & (within == 0)
    tile = torch.where(inside, begins.cumsum(dim=1) - 1, 0)
    shape = (len(tile), int(tile.max()) + 1)
    zeros = torch.zeros(shape, dtype=torch.long, device=tile.device)
    length = zeros.scatter_add(1, tile, inside.long())
    row = torch.arange(tile.shape[1], device=tile.device)
    start = zeros.scatter_add(1, tile, torch.where(begins, row, 0))
    longest_tile = length.amax(dim=1, keepdim=True)
    width = max(1, int(longest_tile.max()))
    return _Cut(tile, within, start, length, longest_tile, width, width)


def _segment_spans(content: _Content, segment: Tensor) -> tuple[Tensor, Tensor]:
    """[N, L] each: the offsets at which the segment of a content token begins and ends."""
    inside = content.inside
    number = torch.where(inside, segment, -1)
    changes = torch.nn.functional.pad(number[:, 1:] != number[:, :-1], (1, 0), value=True)
    begin = torch.where(inside & changes, content.offset, 0).cummax(dim=1).values
    is_last = inside & changes.roll(-1, 1)
    ends = torch.where(is_last, content.offset + 1, content.count)
    return begin, ends.flip(1).cummin(dim=1).values.flip(1)


def _shared_rows(first: Tensor, total: Tensor, lead: int, trail: int) -> Tensor:
    """[N, S]: the rows of shared tokens, of texts of `total` [N, 1] tokens from `first` [N, 1]."""
    number = torch.arange(lead + trail, device=first.device).expand(first.shape[0], -1)
    behind_content = number - lead + (total - trail).clamp(min=lead)
    rank = torch.where(number < lead, number, behind_content)
    return first + rank.clamp(max=(total - 1).clamp(min=0))


def _balance(count: Tensor, size: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
    """`count` tokens in pieces of at most `size`: the number of pieces, at least one, their length,
    and how many of them, the first ones, have one token more.
    """
    pieces = (-(-count // size)).clamp(min=1)
    return pieces, count // pieces, count % pieces


def _piece_of(offset: Tensor, count: Tensor, size: Tensor | int) -> tuple[Tensor, Tensor]:
    """In which piece of `_balance` an offset lies, and how far in it."""
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
        mask: [2·P − 1] bool, whether a row sees a key that it stands d positions behind, for d from
            −(P − 1); None if every row sees all.
        bias: [N or 1, H, P, P], added to the scores of these positions.
        causal: whether a row sees no token after its own.
        band: the smallest and the largest d that `mask` shows, if it shows all between them; `FAR`
            where there is no bound.
    """

    tiles: Tiles
    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    band: tuple[int, int] | None = None

    @property
    def uniform(self) -> bool:
        """Whether rows differ in nothing but their tile."""
        return self.mask is None and self.bias is None

    def sees(self, row: Tensor, key: Tensor) -> Tensor:
        """Whether rows at these positions see keys at those, as far as the layer's mask goes."""
        assert self.mask is not None
        return self.mask[row - key + self.tiles.positions - 1]

    def of_rows(self, text: Tensor, row: Tensor) -> tuple[Tensor | None, Tensor]:
        """What rows `row` [B] of texts `text` [B] see: the bias [B, H, L] and the keys [B, L]."""
        row_tile = self.tiles.tile[text, row, None]
        row_position = self.tiles.position[text, row, None]
        key_tile = self.tiles.tile[text]
        key_position = self.tiles.position[text]
        is_shared = (key_tile == SHARED) | (row_tile == SHARED)
        visible = (key_tile != NO_TILE) & ((key_tile == row_tile) | is_shared)
        if self.mask is not None:
            behind = key_position
            if self.causal:
                key = torch.arange(key_tile.shape[1], device=row.device)
                visible = visible & (key <= row[:, None])
                # A token of an earlier tile may be at a later position, and is still behind.
                behind = torch.minimum(key_position, row_position)
            visible = visible & self.sees(row_position, behind)
        if self.bias is None:
            return None, visible
        rows = self.bias[text % self.bias.shape[0], :, row_position[:, 0]]  # [B, H, P]
        return rows.gather(2, key_position[:, None].expand(-1, rows.shape[1], -1)), visible


class _CurrentPass(threading.local):
    tiles: Tiles | None = None


_current = _CurrentPass()


@contextmanager
def reading(tiles: Tiles | None) -> Iterator[None]:
    """Inside this block, masks and position biases are made for the positions of `tiles`."""
    before = _current.tiles
    _current.tiles = tiles
    try:
        yield
    finally:
        _current.tiles = before


def tiles_being_read() -> Tiles | None:
    """The tiles of the pass that this thread is in, if it is one in tiles.

    Models build masks and biases before their layers run, without our arguments.
    """
    return _current.tiles
