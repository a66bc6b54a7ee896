"""The portable path for tiles: tile by tile with the global keys in front, no L×L tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fairspan.attention.bias import modulo
from fairspan.attention.plan import LayerInputs
from fairspan.attention.tiles import TileGroup, Tiles, TileView

# Rows that are computed together: enough to keep all threads busy, and few enough to stay in cache.
_ROWS_AT_A_TIME = 1024
# Bounds the mask of a block of rows where one has to be written out.
_MASK_AT_A_TIME = 2**22
# Widths are rounded up to multiples of `_STEP` if there are more than `_LENGTHS` lengths of tiles.
_STEP = 16
_LENGTHS = 8


def tile_rows(inputs: LayerInputs, view: TileView) -> Tensor:
    """Attention of one layer, [N, L, H, D]; rows of padding are 0."""
    tiles = view.tiles
    n, heads, length, _ = inputs.query.shape
    # One row more takes what is computed for tokens that are not there.
    flat = inputs.query.new_zeros(n * length + 1, heads, inputs.value.shape[-1])
    for group in _groups(tiles):
        _add_group(flat, inputs, view, group)
    if tiles.lead + tiles.trail:
        _add_global(flat, inputs, view)
    return flat[:-1].view(n, length, heads, -1)


def _add_group(flat: Tensor, inputs: LayerInputs, view: TileView, group: TileGroup) -> None:
    """Write the rows of a group into `flat` [N·L + 1, H, D], a block of tiles at a time."""
    width = group.rows.shape[1]
    tiles_at_once = max(1, _ROWS_AT_A_TIME // width)
    rows_at_once = width
    if not view.uniform:
        # A mask is written out for some rows of a tile at a time.
        heads = 1 if view.bias is None else view.bias.shape[1]
        rows_at_once = _MASK_AT_A_TIME // (tiles_at_once * heads * group.keys.shape[1])
    for block in _blocks(len(group.rows), tiles_at_once):
        keys = group.keys[block]
        key = tokens_of(inputs.key, keys)
        value = tokens_of(inputs.value, keys)
        for part in _blocks(width, rows_at_once):
            rows = group.rows[block, part]
            mask = group_mask(view, group, block, rows, keys)
            out = _attend(inputs, tokens_of(inputs.query, rows), key, value, mask)
            if group.row_ok is not None:
                rows = torch.where(group.row_ok[block, part], rows, len(flat) - 1)
            _write(flat, rows, out)


def _blocks(count: int, size: int) -> Iterable[slice]:
    """Blocks of so many of `count`; one of all in a compiled graph, or there would be a graph for
    every number of blocks."""
    if torch.compiler.is_compiling():
        return [slice(None)]
    size = max(1, size)
    return (slice(first, first + size) for first in range(0, count, size))


def _write(flat: Tensor, tokens: Tensor, out: Tensor) -> None:
    """Write `out` [G, H, W, D] at the tokens [G, W], where a token may follow itself."""
    if out.requires_grad:
        # Every copy of a token would get its gradient, so all but one go to the row nobody reads.
        is_copy = torch.nn.functional.pad(tokens[:, 1:] == tokens[:, :-1], (1, 0))
        tokens = torch.where(is_copy, len(flat) - 1, tokens)
    flat[tokens.flatten()] = out.transpose(1, 2).flatten(0, 1)


def tokens_of(x: Tensor, tokens: Tensor) -> Tensor:
    """[G, H, W, D], the tokens [G, W] of x [N, H, L, D], counted through the batch."""
    by_token = x.transpose(1, 2)
    flat = tokens.flatten()
    if by_token.is_contiguous():
        taken = by_token.flatten(0, 1).index_select(0, flat)
    else:
        taken = by_token[flat // x.shape[2], modulo(flat, x.shape[2])]
    return taken.view(*tokens.shape, *taken.shape[1:]).transpose(1, 2)


def _attend(
    inputs: LayerInputs, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """SDPA, [G, H, W, D]; heads that share keys are rows of one head, so that no key is copied."""
    n, heads, rows, _ = query.shape
    kv_heads = key.shape[1]
    if heads != kv_heads:
        query = query.reshape(n, kv_heads, -1, query.shape[-1])
        if mask is not None and mask.shape[1:3] != (1, 1):
            mask = mask.expand(-1, heads, rows, -1)
            mask = mask.reshape(mask.shape[0], kv_heads, -1, mask.shape[-1])
    out = scaled_dot_product_attention(query, key, value, mask, inputs.dropout, scale=inputs.scale)
    return out.reshape(n, heads, rows, -1)


def group_mask(
    view: TileView, group: TileGroup, block: slice, rows: Tensor, keys: Tensor
) -> Tensor | None:
    """[G, 1 or H, 1 or W, K]: what rows [G, W] see of keys [G, K], or what is added to scores."""
    seen = None if group.key_ok is None else group.key_ok[block, None, None, :]
    if view.uniform:
        return seen
    position = view.tiles.position.flatten()
    row_position = position[rows][:, :, None]
    key_position = position[keys][:, None, :]
    if view.mask is not None:
        shown = view.sees(row_position, key_position)[:, None]
        seen = shown if seen is None else shown & seen
    if view.bias is None:
        return seen
    text = rows[:, 0] // view.tiles.valid.shape[1]
    bias = view.bias[text % view.bias.shape[0]]  # [G, H, P, P]
    index = row_position.expand(-1, -1, bias.shape[-1])[:, None].expand(-1, bias.shape[1], -1, -1)
    by_row = bias.gather(2, index)
    added = by_row.gather(3, key_position[:, None].expand(*by_row.shape[:3], -1))
    return added if seen is None else added.masked_fill(~seen, -torch.inf)


def _add_global(flat: Tensor, inputs: LayerInputs, view: TileView) -> None:
    """Write the global rows into `flat` [N·L + 1, H, D]."""
    tokens = global_tokens(view.tiles)
    rows = tokens_of(inputs.query, tokens)
    out = _attend(inputs, rows, inputs.key, inputs.value, seen_by_global(view))
    _write(flat, tokens, out)


def global_tokens(tiles: Tiles) -> Tensor:
    """[N, S]: the global tokens, numbered through the batch."""
    n, length = tiles.valid.shape
    return tiles.global_rows + torch.arange(n, device=tiles.global_rows.device)[:, None] * length


def seen_by_global(view: TileView) -> Tensor | None:
    """What the global rows see of all keys, or what is added to their scores, [N, 1 or H, S, L]."""
    tiles = view.tiles
    if view.uniform:
        return tiles.valid[:, None, None, :] if tiles.padded else None
    rows = tiles.global_rows
    n, count = rows.shape
    length = tiles.valid.shape[1]
    text = torch.arange(n, device=rows.device)[:, None].expand(n, count)
    bias, visible = view.of_rows(text.flatten(), rows.flatten())
    visible = visible.view(n, 1, count, length)
    if bias is None:
        return visible
    by_row = bias.view(n, count, bias.shape[1], length)
    return by_row.transpose(1, 2).masked_fill(~visible, -torch.inf)


def _groups(tiles: Tiles) -> list[TileGroup]:
    """The tiles in groups of similar length, or in one or two where values may not be looked at."""
    if tiles.valid.device.type != "cpu" or torch.compiler.is_compiling():
        groups = [all_tiles(tiles, tiles.length.shape[1], tiles.size)]
        if tiles.width > tiles.size:
            groups.append(all_tiles(tiles, 1, tiles.width))
        return groups
    if tiles.groups is None:
        tiles.groups = list(_by_length(tiles))
    return tiles.groups


def _by_length(tiles: Tiles) -> Iterator[TileGroup]:
    """Groups of tiles that are padded to the same width."""
    text, number = (tiles.length > 0).nonzero(as_tuple=True)
    length = tiles.length[text, number]
    width = length
    if len(set(length.tolist())) > _LENGTHS:
        rounded = -(-length // _STEP) * _STEP
        width = torch.where(length == tiles.width, length, rounded).clamp(max=tiles.width)
    # Tiles that fill their width need no mask, and are kept apart from those that do not.
    is_full = length == width
    for group_width, full in sorted(set(zip(width.tolist(), is_full.tolist(), strict=True))):
        chosen = (width == group_width) & (is_full == full)
        yield _group(tiles, text[chosen], number[chosen], group_width, exact=True)


def all_tiles(tiles: Tiles, count: int, width: int) -> TileGroup:
    """The first `count` tiles of each text, padded to `width`, without a look at values.

    Longer tiles are left out.
    """
    n = tiles.length.shape[0]
    device = tiles.length.device
    text = torch.arange(n, device=device)[:, None].expand(n, count).flatten()
    number = torch.arange(count, device=device).repeat(n)
    return _group(tiles, text, number, width, exact=False)


def _group(tiles: Tiles, text: Tensor, number: Tensor, width: int, *, exact: bool) -> TileGroup:
    """The tiles `number` [G] of the texts `text` [G]; `exact` if values may be looked at."""
    start = tiles.start[text, number]
    length = tiles.length[text, number]
    length = torch.where(length > width, 0, length)
    row_length = tiles.valid.shape[1]
    base = (text * row_length)[:, None]
    step = torch.arange(width, device=start.device)
    row_ok = step < length[:, None]
    # After the end of a tile its last token is repeated.
    rows = start[:, None] + torch.minimum(step, (length - 1).clamp(min=0)[:, None])
    rows = rows.clamp(max=row_length - 1)
    keys = torch.cat([tiles.global_rows[text], rows], dim=1)
    key_ok = torch.nn.functional.pad(row_ok, (tiles.lead + tiles.trail, 0), value=True)
    if exact:
        complete = bool(key_ok.all())
        return TileGroup(rows + base, None, keys + base, None if complete else key_ok)
    if tiles.lead + tiles.trail == 0:
        key_ok = key_ok | ~key_ok.any(dim=1, keepdim=True)  # a row that sees nothing would be NaN
    return TileGroup(rows + base, row_ok, keys + base, key_ok)
