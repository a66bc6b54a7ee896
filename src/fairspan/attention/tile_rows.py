"""The portable path for tiles: tile by tile with the shared keys in front, shared rows alone, no L×L tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fairspan.attention.baskets import lasting
from fairspan.attention.bias import modulo
from fairspan.attention.tiles import TileGroup, Tiles, TileView

# Rows that are computed together: enough to keep all threads busy, and few enough to stay in cache.
_ROWS_AT_A_TIME = 1024
# Bounds the mask of a block of rows where one has to be written out.
_MASK_AT_A_TIME = 2**22
# Tiles whose lengths differ by less are padded to the same width, if there are more lengths than these.
_STEP, _LENGTHS = 16, 8


def tile_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    view: TileView,
    *,
    only_shared: bool = False,
) -> Tensor:
    """Attention of one layer as `view` has it.

    Args:
        query: [N, H, L, D]. key, value: [N, K, L, D] with K heads, a divisor of H.
        only_shared: whether nothing reads the rows of content tokens, which are then 0.

    Returns:
        [N, L, H, D] in the dtype of `query`. Rows of padding are 0.
    """
    tiles = view.tiles
    n, heads, length, _ = query.shape
    # One row more takes what is computed for tokens that are not there.
    flat = query.new_zeros(n * length + 1, heads, value.shape[-1])
    if not only_shared:
        for group in _groups(tiles, query):
            _add_group(flat, query, key, value, scale, view, group)
    if tiles.lead + tiles.trail:
        _add_shared(flat, query, key, value, scale, view)
    return flat[:-1].view(n, length, heads, -1)


def _add_group(
    flat: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    view: TileView,
    group: TileGroup,
) -> None:
    length, width = query.shape[2], group.rows.shape[1]
    together = max(1, _ROWS_AT_A_TIME // width)
    # A mask is written out for some rows of a tile at a time.
    heads = 1 if view.bias is None else view.bias.shape[1]
    at_once = width if _alike(view) else _MASK_AT_A_TIME // (together * heads * group.keys.shape[1])
    for block in _blocks(len(group.rows), together):
        keys = group.keys[block]
        its_keys, its_values = take(key, keys), take(value, keys)
        for part in _blocks(width, at_once):
            rows = group.rows[block, part]
            mask = group_mask(view, group, block, rows, keys, length)
            out = _attend(take(query, rows), its_keys, its_values, mask, scale)
            target = (
                rows
                if group.row_ok is None
                else torch.where(group.row_ok[block, part], rows, len(flat) - 1)
            )
            _write(flat, target, out)


def _blocks(count: int, together: int) -> Iterable[slice]:
    together = max(1, together)
    return (slice(first, first + together) for first in range(0, count, together))


def _write(flat: Tensor, tokens: Tensor, out: Tensor) -> None:
    """Write what was computed, [G, H, W, D], for the tokens [G, W], of which one may be repeated at once."""
    if out.requires_grad:
        # The gradient goes to every copy of a token that was written, so all but one go where nothing is read.
        again = torch.nn.functional.pad(tokens[:, 1:] == tokens[:, :-1], (1, 0))
        tokens = torch.where(again, len(flat) - 1, tokens)
    flat[tokens.flatten()] = out.transpose(1, 2).flatten(0, 1)


def take(x: Tensor, tokens: Tensor) -> Tensor:
    """[G, H, W, D], the tokens [G, W] of x [N, H, L, D], counted through the batch."""
    by_token = x.transpose(1, 2)
    flat = tokens.flatten()
    if by_token.is_contiguous():
        taken = by_token.flatten(0, 1).index_select(0, flat)
    else:
        taken = by_token[flat // x.shape[2], modulo(flat, x.shape[2])]
    return taken.view(*tokens.shape, *taken.shape[1:]).transpose(1, 2)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """SDPA, with heads that share keys as further rows of one head, so that no key is copied."""
    (n, heads, rows, _), kv_heads = query.shape, key.shape[1]
    if heads == kv_heads:
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    query = query.reshape(n, kv_heads, -1, query.shape[-1])
    if mask is not None and mask.shape[1:3] != (1, 1):
        mask = mask.expand(-1, heads, rows, -1).reshape(mask.shape[0], kv_heads, -1, mask.shape[-1])
    out = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    return out.reshape(n, heads, rows, -1)


def group_mask(
    view: TileView, group: TileGroup, block: slice, rows: Tensor, keys: Tensor, length: int
) -> Tensor | None:
    """[G, 1 or H, 1 or W, K]: what the rows of a block of tiles see, or what is added to their scores."""
    there = None if group.key_ok is None else group.key_ok[block, None, None, :]
    if _alike(view):
        return there
    position, text = view.tiles.position.flatten(), rows[:, 0] // length
    at, places = position[rows][:, :, None], position[keys][:, None, :]
    seen = there
    if view.mask is not None:
        shown = view.sees(at, places)
        seen = shown[:, None] if there is None else shown[:, None] & there
    if view.bias is None:
        return seen
    bias = view.bias[text % view.bias.shape[0]]  # [G, H, P, P]
    index = at.expand(-1, -1, bias.shape[-1])[:, None].expand(-1, bias.shape[1], -1, -1)
    by_row = bias.gather(2, index)
    added = by_row.gather(3, places[:, None].expand(*by_row.shape[:3], -1))
    return added if seen is None else added.masked_fill(~seen, -torch.inf)


def _alike(view: TileView) -> bool:
    """Whether rows differ in nothing but their tile, so that no mask has to be written out."""
    return view.mask is None and view.bias is None


def _add_shared(
    flat: Tensor, query: Tensor, key: Tensor, value: Tensor, scale: float, view: TileView
) -> None:
    first_token = torch.arange(query.shape[0], device=query.device)[:, None] * query.shape[2]
    tokens = view.tiles.shared + first_token
    _write(flat, tokens, _attend(take(query, tokens), key, value, seen_by_shared(view), scale))


def seen_by_shared(view: TileView) -> Tensor | None:
    """What the shared rows see of all keys, or what is added to their scores, [N, 1 or H, S, L]."""
    valid, rows = view.tiles.valid, view.tiles.shared
    if _alike(view):
        return valid[:, None, None, :] if view.tiles.padded else None
    (n, count), length = rows.shape, valid.shape[1]
    text = torch.arange(n, device=rows.device)[:, None].expand(n, count)
    bias, visible = view.of_rows(text.flatten(), rows.flatten())
    visible = visible.view(n, 1, count, length)
    if bias is None:
        return visible
    return bias.view(n, count, -1, length).transpose(1, 2).masked_fill(~visible, -torch.inf)


def _groups(tiles: Tiles, query: Tensor) -> list[TileGroup]:
    """The tiles in groups of similar length, or all in one where values may not be looked at."""
    if query.device.type != "cpu" or torch.compiler.is_compiling():
        return [all_tiles(tiles)]
    if tiles.groups is None:
        with lasting():
            tiles.groups = list(_by_length(tiles))
    return tiles.groups


def _by_length(tiles: Tiles) -> Iterator[TileGroup]:
    text, number = (tiles.length > 0).nonzero(as_tuple=True)
    length = tiles.length[text, number]
    width = length
    if len(set(length.tolist())) > _LENGTHS:
        width = torch.where(length == tiles.width, length, -(-length // _STEP) * _STEP).clamp(
            max=tiles.width
        )
    # Tiles that fill their width need no mask, and are kept apart from those that do not.
    for one, full in sorted(set(zip(width.tolist(), (length == width).tolist(), strict=True))):
        chosen = (width == one) & ((length == width) == full)
        yield _group(tiles, text[chosen], number[chosen], one, exact=True)


def all_tiles(tiles: Tiles, count: int | None = None, width: int | None = None) -> TileGroup:
    """All tiles that texts of this batch may have, or the first `count`, in one group, without looking at values."""
    n, device = tiles.length.shape[0], tiles.length.device
    count, width = (
        tiles.length.shape[1] if count is None else count,
        tiles.width if width is None else width,
    )
    text = torch.arange(n, device=device)[:, None].expand(n, count).flatten()
    number = torch.arange(count, device=device).repeat(n)
    return _group(tiles, text, number, width, exact=False)


def _group(tiles: Tiles, text: Tensor, number: Tensor, width: int, *, exact: bool) -> TileGroup:
    """The tiles `number` of the texts `text`, padded to one width; `exact` if values may be looked at."""
    start, length, row_length = (
        tiles.start[text, number],
        tiles.length[text, number],
        tiles.valid.shape[1],
    )
    base = (text * row_length)[:, None]
    step = torch.arange(width, device=start.device)
    row_ok = step < length[:, None]
    # After the end of a tile its last token is repeated.
    rows = start[:, None] + torch.minimum(step, (length - 1).clamp(min=0)[:, None])
    rows = rows.clamp(max=row_length - 1)
    keys = torch.cat([tiles.shared[text], rows], dim=1)
    key_ok = torch.nn.functional.pad(row_ok, (tiles.lead + tiles.trail, 0), value=True)
    if exact:
        whole = bool(key_ok.all())
        return TileGroup(rows + base, None, keys + base, None if whole else key_ok)
    if tiles.lead + tiles.trail == 0:
        key_ok = key_ok | ~key_ok.any(dim=1, keepdim=True)  # a row that sees nothing would be NaN
    return TileGroup(rows + base, row_ok, keys + base, key_ok)
