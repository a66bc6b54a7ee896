"""Tile geometry: which tokens see which, and where a token stands.

A text has global tokens in front (special tokens and the prompt), content, and global tokens at its
end. The content is cut into tiles. A content token sees its own tile and the global tokens; global
tokens see everything and are seen by everything. Positions start again in every tile, so that no
position exceeds the longest tile and the global ones.

A position bias is a table of P×P entries for these positions instead of L×L, and the mask of a
causal or windowed layer a table of distances.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairspan.attention.baskets import is_traced, runs

GLOBAL = -1
NO_TILE = -2
FAR = 2**30
"""A distance that no two tokens of a tile have."""


@dataclass(slots=True, eq=False)
class Tiles:
    """The tiles of a batch of texts.

    Attributes:
        valid: [N, L] bool, False for padding.
        position: [N, L], where each token stands; 0 at padding.
        tile: [N, L], the tile of each token, `GLOBAL` or `NO_TILE` (padding).
        start, length: [N, M], where each tile begins and how many tokens it has; 0 where a text has
            fewer tiles.
        global_rows: [N, S], the rows of the global tokens, clamped where a text has fewer.
        lead, trail: how many global tokens a text has in front and at its end.
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
    global_rows: Tensor
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
        keys: [G, K], the global tokens and those that the tile sees.
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
    spans: Tensor | None = None,
) -> Tiles:
    """The tiles of texts given as [N, L] bool, False for padding on either side.

    n tokens are cut into as few tiles as sizes allow, whose lengths differ by one at most, the
    longer ones first.

    Args:
        size: the most tokens of a tile.
        lead, trail: how many tokens in front and at the end are global.
        whole: texts of at most so many tokens, global ones aside, are one tile.
        segment: [N, L], rising numbers of segments, each of which becomes a tile; below 0
            throughout for texts that are cut by `size`.
        longest: the most tokens of a tile of a segment; `size` if None.
        spans: what `spans_of` gives, where it is there already.
    """
    columns = valid.shape[1]
    how = (columns, size, max(size, whole), lead, trail, segment, longest or size)
    tensors: Sequence[Tensor]
    if segment is None and is_traced():
        tensors, facts = _numbers(spans_of(valid), *how)
    else:
        tensors, facts = _numbers_on_host(spans_of(valid) if spans is None else spans, *how)
        # In one copy to the device.
        sizes = [part.shape[1] for part in tensors]
        tensors = torch.split(torch.cat([*tensors], dim=1).to(valid.device), sizes, dim=1)
    start, length, global_rows, borders, bases = tensors
    # 0 in front of the tiles, then the number of the tile from 1 on, and one more behind them.
    region = valid.new_zeros(valid.shape[0], columns + 1, dtype=torch.long)
    region = region.scatter_add(1, borders, torch.ones_like(borders)).cumsum(dim=1)[:, :columns]
    column = torch.arange(columns, device=valid.device)
    tile = torch.where(column < borders[:, -1:], region - 1, GLOBAL)
    return Tiles(
        valid=valid,
        position=torch.where(valid, column - bases.gather(1, region), 0),
        tile=torch.where(valid, tile, NO_TILE),
        start=start,
        length=length,
        global_rows=global_rows,
        lead=lead,
        trail=trail,
        **facts,
    )


def spans_of(valid: Tensor) -> Tensor:
    """[N, 2]: the first token of each text, and how many it has; on the host unless traced.

    Looking at them is the only device sync before the layers run.
    """
    spans = torch.stack([valid.int().argmax(dim=1), valid.sum(dim=1)], dim=1)
    return spans if is_traced() else spans.cpu()


# No graph can depend on the number of segments.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _numbers_on_host(spans: Tensor, *how: Any) -> tuple[Sequence[Tensor], dict[str, Any]]:
    """The numbers of a batch, computed on the CPU, where they may be looked at."""
    return _numbers(spans.cpu(), *how)


def _numbers(
    spans: Tensor,
    columns: int,
    size: int,
    whole: int,
    lead: int,
    trail: int,
    segment: Tensor | None,
    longest: int,
) -> tuple[list[Tensor], dict[str, Any]]:
    """What `lay_tiles` needs of each text, and three numbers of `Tiles`. In a graph none of them
    depends on lengths, but on the columns.

    Returns:
        `start`, `length` and `global_rows` of `Tiles`; [N, M + 1], where each tile begins and where
        the last one ends; [N, M + 2], what is subtracted from a column for a token's position: in
        front of the tiles, in each of them and behind them.
    """
    first = spans[:, :1]
    total = spans[:, 1:]
    count = (total - lead - trail).clamp(min=0)
    most_tiles, longest_of_several = runs(columns - lead - trail, size)
    _, width = runs(columns - lead - trail, whole)
    padded = True
    if segment is None:
        length = _balanced(count, torch.where(count > whole, size, whole), most_tiles)
    else:
        length = _segment_lengths(segment.cpu(), first + lead, count, size, longest)
    if not is_traced():
        tiles = (length > 0).sum(dim=1)
        length = length[:, : max(1, int(tiles.max()))]
        width = max(1, int(length.max()))
        several = length[tiles > 1]
        longest_of_several = max(1, int(several.max())) if several.numel() else 1
        padded = segment is not None or bool((total < columns).any())
    start = first + lead + length.cumsum(dim=1) - length
    borders = torch.cat([start, first + lead + count], dim=1).clamp(max=columns)
    behind = first + count - length.amax(dim=1, keepdim=True)
    bases = torch.cat([first, start - lead, behind], dim=1)
    tensors = [start, length, _global_rows(first, total, lead, trail), borders, bases]
    return tensors, {"width": width, "size": longest_of_several, "padded": padded}


def _balanced(count: Tensor, size: Tensor | int, most_tiles: int) -> Tensor:
    """[N, M]: the lengths of tiles of at most `size` tokens, given the tokens [N, 1] of texts."""
    tiles = (-(-count // size)).clamp(min=1)
    number = torch.arange(most_tiles, device=count.device)
    return torch.where(number < tiles, count // tiles + (number < count % tiles), 0)


def _segment_lengths(
    segment: Tensor, begin: Tensor, count: Tensor, size: int, longest: int
) -> Tensor:
    """[N, M]: the lengths of the tiles of texts whose content has the segments [N, L] from `begin`
    on."""
    lengths = []
    for row, first, tokens in zip(segment, begin[:, 0], count[:, 0], strict=True):
        content = row[int(first) : int(first + tokens)]
        # Below 0 throughout: a text that is cut by size.
        most = size if len(content) and content[0] < 0 else longest
        _, runs_of = content.unique_consecutive(return_counts=True)
        cut = _balanced(runs_of[:, None], most, max(1, -(-len(content) // most)))
        lengths.append(cut[cut > 0] if len(content) else count.new_zeros(1))
    return torch.nn.utils.rnn.pad_sequence(lengths, batch_first=True)


def _global_rows(first: Tensor, total: Tensor, lead: int, trail: int) -> Tensor:
    """[N, S]: the rows of global tokens, of texts of `total` [N, 1] tokens from `first` [N, 1]."""
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
        is_global = (key_tile == GLOBAL) | (row_tile == GLOBAL)
        visible = (key_tile != NO_TILE) & ((key_tile == row_tile) | is_global)
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
