"""Tile geometry: which tokens see which, and where a token stands.

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
    if segment is None and is_traced():
        return _lay_in_graph(valid, size, max(size, whole), lead, trail)
    sizes = (size, max(size, whole), longest or size)
    tiles: Tiles = _lay_on_host(valid, *sizes, lead, trail, segment)
    return tiles


# No graph can depend on the number of segments.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _lay_on_host(
    valid: Tensor,
    size: int,
    whole: int,
    longest: int,
    lead: int,
    trail: int,
    segment: Tensor | None,
) -> Tiles:
    """`lay_tiles` where lengths may be looked at.

    A GPU would start dozens of small operations before the first layer. Texts of one length have
    the same tiles, segments aside.
    """
    row_length = valid.shape[1]
    total = valid.sum(dim=1, keepdim=True).numpy(force=True)
    padded = segment is not None or bool((total < row_length).any())
    if padded:
        first = valid.int().argmax(dim=1, keepdim=True).numpy(force=True)
    else:
        total = total[:1]
        first = np.zeros_like(total)
    count = (total - lead - trail).clip(0)
    if segment is None:
        length = _balanced(count, np.where(count > whole, size, whole))
    else:
        begins = (first + lead)[:, 0]
        contents = zip(segment.numpy(force=True), begins, count[:, 0], strict=True)
        tiles_of = [_segment_lengths(row[at : at + n], size, longest) for row, at, n in contents]
        length = np.zeros((len(tiles_of), max(map(len, tiles_of))), dtype=np.int64)
        for row, of_text in zip(length, tiles_of, strict=True):
            row[: len(of_text)] = of_text
    number = np.arange(length.shape[1])
    start = first + lead + length.cumsum(axis=1) - length

    # A text is runs of tokens at rising positions: padding, shared, its tiles, shared, padding.
    in_front = np.minimum(total, lead)
    at_end = total - in_front - count
    lengths = np.hstack([first, in_front, length, at_end, row_length - first - total])
    zero = np.zeros_like(first)
    behind_tiles = lead + length.max(axis=1, keepdims=True)
    positions = np.hstack([zero, zero, np.full_like(length, lead), behind_tiles, zero])
    kinds = np.hstack([NO_TILE, SHARED, number, SHARED, NO_TILE])
    repeats = lengths.ravel()
    before = repeats.cumsum() - repeats
    tile = np.repeat(np.broadcast_to(kinds, lengths.shape), repeats)
    position = np.repeat(positions.ravel() - before, repeats) + np.arange(len(tile))
    position[tile == NO_TILE] = 0

    shared = _shared_rows(torch.from_numpy(first), torch.from_numpy(total), lead, trail)
    geometry = [position.reshape(len(first), -1), tile.reshape(len(first), -1), start, length]
    # In one copy to the device.
    together = torch.from_numpy(np.hstack([*geometry, shared.numpy()])).to(valid.device)
    widths = [row_length, row_length, len(number), len(number), lead + trail]
    parts = torch.split(together.expand(len(valid), -1), widths, dim=1)
    of_several = length[(length > 0).sum(axis=1) > 1]
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


def _balanced(count: np.ndarray, size: np.ndarray | int) -> np.ndarray:
    """[N, M]: the lengths of tiles of at most `size` tokens, given the tokens [N, 1] of texts."""
    pieces = (-(-count // size)).clip(1)
    number = np.arange(pieces.max(initial=1))
    return np.where(number < pieces, count // pieces + (number < count % pieces), 0)


def _segment_lengths(segment: np.ndarray, size: int, longest: int) -> list[int]:
    """The lengths of the tiles of a text, given the segment of each content token."""
    if not len(segment):
        return [0]
    # Below 0 throughout: a text that is cut by size.
    most = size if segment[0] < 0 else longest
    runs_of = np.split(segment, np.flatnonzero(np.diff(segment)) + 1)
    cut = [_balanced(np.array([[len(run)]]), most)[0].tolist() for run in runs_of]
    return [length for lengths in cut for length in lengths]


def _lay_in_graph(valid: Tensor, size: int, whole: int, lead: int, trail: int) -> Tiles:
    """`lay_tiles` without segments, in a graph that does not depend on lengths."""
    first = valid.int().argmax(dim=1, keepdim=True)
    total = valid.sum(dim=1, keepdim=True)
    rank = valid.cumsum(dim=1) - 1
    count = (total - lead - trail).clamp(min=0)
    offset = rank - lead
    inside = valid & (offset >= 0) & (offset < count)
    room = valid.shape[1] - lead - trail
    most_tiles, longest = runs(room, size)
    _, width = runs(room, whole)
    limit = size if whole == size else torch.where(count > whole, size, whole)

    # Tiles of `base` tokens, of which the first ones, `longer`, have one token more.
    pieces = (-(-count // limit)).clamp(min=1)
    base = count // pieces
    longer = count % pieces
    number = torch.arange(most_tiles, device=count.device)
    length = torch.where(number < pieces, base + (number < longer), 0)
    start = first + lead + number * base + torch.minimum(number, longer)
    base = base.clamp(min=1)
    beyond = offset - longer * (base + 1)
    is_early = beyond < 0
    content_tile = torch.where(is_early, offset // (base + 1), longer + beyond // base)
    within = torch.where(is_early, offset % (base + 1), beyond % base)

    at_end = lead + length[:, :1] + offset - count
    outside = torch.where(offset < 0, rank, at_end)
    position = torch.where(inside, lead + within, outside)
    tile = torch.where(inside, content_tile, SHARED)
    return Tiles(
        valid,
        torch.where(valid, position, 0),
        torch.where(valid, tile, NO_TILE),
        start.contiguous(),
        length.contiguous(),
        _shared_rows(first, total, lead, trail),
        lead,
        trail,
        width,
        longest,
        padded=True,
    )


def _shared_rows(first: Tensor, total: Tensor, lead: int, trail: int) -> Tensor:
    """[N, S]: the rows of shared tokens, of texts of `total` [N, 1] tokens from `first` [N, 1]."""
    number = torch.arange(lead + trail, device=first.device).expand(first.shape[0], -1)
    behind_content = number - lead + (total - trail).clamp(min=lead)
    rank = torch.where(number < lead, number, behind_content)
    return first + rank.clamp(max=(total - 1).clamp(min=0))


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
