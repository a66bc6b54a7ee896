"""`attention.tile_rows` in two launches: a program per block of a tile, then one per global row.

The tokens of a block attend to their tile, and the global rows to the block. The second launch
joins what the global rows found in all blocks. Nothing is copied or reshaped.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.kernels.arguments import (
    LOG2_E,
    KeyBlock,
    block_of,
    dense_heads,
    device_of,
    precision_of,
)
from fairspan.attention.kernels.softmax import (
    add_keys,
    add_keys_to_row,
    load_columns,
    load_rows,
    log_total,
)
from fairspan.attention.plan import LayerInputs
from fairspan.attention.tiles import FAR, TileView


@triton.jit
def _scores(
    q, k, row_place, key_place, row_ok, key_ok, table, table_q, table_k, nearest, farthest, scale,
    TABLE: tl.constexpr, BAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Scores [R, K] of rows for keys `k` [D, K], -inf where a row does not see a key.

    They still have to be multiplied by the scale, unless a table of what is added to them has
    entries for places [R] and [K]. With a BAND, a row sees keys `nearest` to `farthest` behind it.
    """
    s = tl.dot(q, k, input_precision=PRECISION)
    seen = key_ok[None, :]
    if TABLE:
        cells = table + row_place[:, None] * table_q + key_place[None, :] * table_k
        s = s * scale + tl.load(cells, mask=row_ok[:, None] & seen, other=0.0)
    if BAND:
        behind = row_place[:, None] - key_place[None, :]
        seen = seen & (behind >= nearest) & (behind <= farthest)
    return tl.where(seen, s, float("-inf"))


_LENGTHS = [
    "start_n", "global_n", "position_n", "table_n", "table_h", "table_q", "table_k",
    "count", "blocks", "per_tile", "nearest", "farthest",
]  # fmt: skip
"""Arguments that differ between lengths of texts, for which nothing is compiled anew."""
_BLOCKS = 64
"""Blocks of a text that a global row looks at together."""


@triton.jit(do_not_specialize=_LENGTHS)
def _tile_blocks(
    query, key, value, out, partial, log_mass, start, length, global_rows, position, table,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l,
    start_n, global_n, position_n, table_n, table_h, table_q, table_k,
    heads, groups, blocks, per_tile, global_count, nearest, farthest, scale,
    GLOBAL: tl.constexpr, TABLE: tl.constexpr, BAND: tl.constexpr, DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, HAS_GLOBAL: tl.constexpr, SINGLE: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of up to ROWS tokens of one tile, for one head of one text.

    GLOBAL is a size for the global tokens. A tile has `per_tile` blocks, one if SINGLE. Names that
    begin with `g_` are of the global tokens.
    """
    scale = tl.cast(scale, tl.float32)
    block = tl.program_id(0) % blocks
    head = tl.program_id(0) // blocks
    n = (head // heads).to(tl.int64)
    h = head % heads
    kv = h // groups
    query += n * q_n + h * q_h
    key += n * k_n + kv * k_h
    value += n * v_n + kv * v_h
    out += n * o_n + h * o_h
    table += n * table_n + h * table_h
    position += n * position_n
    start += n * start_n
    length += n * start_n
    tile = block // per_tile
    offset = (block % per_tile) * ROWS
    begin = tl.load(start + tile)
    width = tl.load(length + tile).to(tl.int32)

    d = tl.arange(0, BLOCK_D)
    d_ok = d < DIM
    column = tl.arange(0, ROWS)
    row = begin + offset + column
    row_ok = offset + column < width
    g_column = tl.arange(0, GLOBAL)
    g_ok = g_column < global_count
    g_row = tl.load(global_rows + n * global_n + g_column, mask=g_ok, other=0)
    row_place = row
    g_place = g_row
    if TABLE or BAND:
        row_place = tl.load(position + row, mask=row_ok, other=0).to(tl.int32)
        g_place = tl.load(position + g_row, mask=g_ok, other=0).to(tl.int32)
    # A table is added to scores that are scaled already.
    factor = scale
    if TABLE:
        factor = 1.0

    if SINGLE:
        block_k = load_columns(key, row, k_l, d, row_ok, d_ok)
        block_v = load_rows(value, row, v_l, d, row_ok, d_ok)
    q = load_rows(query, row, q_l, d, row_ok, d_ok)
    peak = tl.full([ROWS], float("-inf"), dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    if HAS_GLOBAL:
        # Names of their own: a variable keeps its shape when the loop below assigns to it.
        g_k = load_columns(key, g_row, k_l, d, g_ok, d_ok)
        g_scores = _scores(
            q, g_k, row_place, g_place, row_ok, g_ok, table, table_q, table_k,
            nearest, farthest, scale, TABLE, BAND, PRECISION,
        )  # fmt: skip
        g_v = load_rows(value, g_row, v_l, d, g_ok, d_ok)
        peak, total, sums = add_keys(g_scores, g_v, peak, total, sums, factor, PRECISION)
    if SINGLE:
        s = _scores(
            q, block_k, row_place, row_place, row_ok, row_ok, table, table_q, table_k,
            nearest, farthest, scale, TABLE, BAND, PRECISION,
        )  # fmt: skip
        peak, total, sums = add_keys(s, block_v, peak, total, sums, factor, PRECISION)
    else:
        key_column = tl.arange(0, KEYS)
        # Keys of the tile that some rows see, and in whole blocks those that all rows see.
        low = tl.maximum(offset - farthest, 0) // KEYS * KEYS
        high = tl.minimum(width, offset + ROWS - nearest)
        all_low = low
        all_high = low
        if DIM == BLOCK_D and not TABLE:
            all_low = tl.cdiv(tl.maximum(offset + ROWS - 1 - farthest, 0), KEYS) * KEYS
            all_high = tl.minimum(width, offset - nearest + 1) // KEYS * KEYS
            none = all_high <= all_low
            all_low = tl.where(none, low, all_low)
            all_high = tl.where(none, low, all_high)
        for first in range(all_low, all_high, KEYS):
            # Steps within a block fit into 32 bits, which those within a text may not.
            k_block = key + (begin + first) * k_l
            k = tl.load(k_block + key_column[None, :] * k_l + d[:, None])
            s = tl.dot(q, k, input_precision=PRECISION)
            v_block = value + (begin + first) * v_l
            v = tl.load(v_block + key_column[:, None] * v_l + d[None, :])
            peak, total, sums = add_keys(s, v, peak, total, sums, factor, PRECISION)
        before = (all_low - low) // KEYS
        for number in range(before + tl.cdiv(tl.maximum(high - all_high, 0), KEYS)):
            behind_all = all_high + (number - before) * KEYS
            first = tl.where(number < before, low + number * KEYS, behind_all)
            where = begin + first + key_column
            key_ok = first + key_column < width
            key_place = where
            if TABLE or BAND:
                key_place = tl.load(position + where, mask=key_ok, other=0).to(tl.int32)
            k = load_columns(key, where, k_l, d, key_ok, d_ok)
            s = _scores(
                q, k, row_place, key_place, row_ok, key_ok, table, table_q, table_k,
                nearest, farthest, scale, TABLE, BAND, PRECISION,
            )  # fmt: skip
            v = load_rows(value, where, v_l, d, key_ok, d_ok)
            peak, total, sums = add_keys(s, v, peak, total, sums, factor, PRECISION)
    result = sums * (1 / tl.maximum(total, 1e-30))[:, None]
    out_at = out + row[:, None] * o_l + d[None, :]
    tl.store(out_at, result, mask=row_ok[:, None] & d_ok[None, :])

    if HAS_GLOBAL:
        if not SINGLE:
            block_k = load_columns(key, row, k_l, d, row_ok, d_ok)
            block_v = load_rows(value, row, v_l, d, row_ok, d_ok)
        g_q = load_rows(query, g_row, q_l, d, g_ok, d_ok)
        to_block = _scores(
            g_q, block_k, g_place, row_place, g_ok, row_ok, table, table_q, table_k,
            nearest, farthest, scale, TABLE, BAND, PRECISION,
        )  # fmt: skip
        g_peak = tl.full([GLOBAL], float("-inf"), dtype=tl.float32)
        g_total = tl.zeros([GLOBAL], dtype=tl.float32)
        g_sums = tl.zeros([GLOBAL, BLOCK_D], dtype=tl.float32)
        g_peak, g_total, g_sums = add_keys(
            to_block, block_v, g_peak, g_total, g_sums, factor, PRECISION
        )
        part = g_sums * (1 / tl.maximum(g_total, 1e-30))[:, None]
        at = (head.to(tl.int64) * global_count + g_column) * blocks + block
        partial_at = partial + at[:, None] * DIM + d[None, :]
        tl.store(partial_at, part, mask=g_ok[:, None] & d_ok[None, :])
        tl.store(log_mass + at, log_total(g_peak, g_total), mask=g_ok)


@triton.jit(do_not_specialize=[name for name in _LENGTHS if name not in ("start_n", "per_tile")])
def _global_rows(
    query, key, value, out, partial, log_mass, global_rows, position, table,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l,
    global_n, position_n, table_n, table_h, table_q, table_k,
    heads, groups, blocks, global_count, nearest, farthest, scale,
    GLOBAL: tl.constexpr, TABLE: tl.constexpr, BAND: tl.constexpr, DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """One global row of one head of one text: what it finds in each block and the global tokens."""
    scale = tl.cast(scale, tl.float32)
    number = tl.program_id(0) % global_count
    head = tl.program_id(0) // global_count
    n = (head // heads).to(tl.int64)
    h = head % heads
    kv = h // groups
    query += n * q_n + h * q_h
    key += n * k_n + kv * k_h
    value += n * v_n + kv * v_h
    out += n * o_n + h * o_h
    table += n * table_n + h * table_h
    position += n * position_n
    global_rows += n * global_n
    d = tl.arange(0, BLOCK_D)
    d_ok = d < DIM
    row = tl.load(global_rows + number)
    q = tl.load(query + row * q_l + d, mask=d_ok, other=0.0).to(tl.float32)

    # A text of fewer tokens than are global has some of them twice; each counts once.
    column = tl.arange(0, GLOBAL)
    where = tl.load(global_rows + column, mask=column < global_count, other=0)
    before = tl.load(
        global_rows + column - 1, mask=(column > 0) & (column < global_count), other=-1
    )
    ok = (column < global_count) & ((column == 0) | (where > before))
    k = load_rows(key, where, k_l, d, ok, d_ok).to(tl.float32)
    s = tl.sum(k * q[None, :], 1) * scale
    if TABLE or BAND:
        row_place = tl.load(position + row)
        place = tl.load(position + where, mask=ok, other=0)
    if TABLE:
        s += tl.load(table + row_place * table_q + place * table_k, mask=ok, other=0.0)
    if BAND:
        ok = ok & (row_place - place >= nearest) & (row_place - place <= farthest)
    s = tl.where(ok, s, float("-inf"))
    v = load_rows(value, where, v_l, d, ok, d_ok).to(tl.float32)
    peak = float("-inf")
    total = 0.0
    sums = tl.zeros([BLOCK_D], dtype=tl.float32)
    peak, total, sums = add_keys_to_row(s, v, peak, total, sums)

    at = (head.to(tl.int64) * global_count + number) * blocks
    column = tl.arange(0, BLOCKS)
    for offset in range(0, blocks, BLOCKS):
        block = offset + column
        block_ok = block < blocks
        lse = tl.load(log_mass + at + block, mask=block_ok, other=float("-inf"))
        part = load_rows(partial, at + block, DIM, d, block_ok, d_ok)
        peak, total, sums = add_keys_to_row(lse, part, peak, total, sums)
    tl.store(out + row * o_l + d, sums / tl.maximum(total, 1e-30), mask=d_ok)


def tile_rows_kernel(inputs: LayerInputs, view: TileView) -> Tensor:
    """`tile_rows.tile_rows`, [N, L, H, D]."""
    tiles = view.tiles
    query, key, value = dense_heads(inputs)
    n, heads, tokens, dim = query.shape
    empty = torch.zeros if tiles.padded else torch.empty
    out = empty(n, tokens, heads, dim, dtype=query.dtype, device=query.device)
    block_d = block_of(dim)
    block = _tile_block(tiles.width, block_d, query.dtype)
    per_tile = -(-tiles.width // block.rows)
    blocks = tiles.start.shape[1] * per_tile
    global_count = tiles.lead + tiles.trail
    partial = torch.empty(
        n * heads * global_count * blocks, dim, dtype=torch.float32, device=query.device
    )
    log_mass = torch.empty(
        n * heads * global_count * blocks, dtype=torch.float32, device=query.device
    )
    table, table_strides = _table(view, query)
    strides = (
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
        *(tokens * heads * dim, dim, heads * dim),
    )  # fmt: skip
    places = (tiles.global_rows.stride(0), tiles.position.stride(0), *table_strides)
    groups = heads // key.shape[1]
    scale = inputs.scale * LOG2_E
    band = (-FAR, FAR) if view.band is None else view.band
    sizes = {
        "GLOBAL": block_of(global_count),
        "TABLE": table is not query,
        "BAND": table is query and view.band is not None,
        "DIM": dim,
        "BLOCK_D": block_d,
    }
    with device_of(query):
        _tile_blocks[(blocks * n * heads,)](
            query, key, value, out, partial, log_mass,
            tiles.start, tiles.length, tiles.global_rows, tiles.position, table,
            *strides, tiles.start.stride(0), *places,
            heads, groups, blocks, per_tile, global_count, *band, scale, **sizes,
            HAS_GLOBAL=global_count > 0, SINGLE=per_tile == 1,
            ROWS=block.rows, KEYS=block.keys,
            PRECISION=precision_of(query.dtype), num_warps=block.warps, num_stages=block.stages,
        )  # fmt: skip
        if global_count:
            _global_rows[(global_count * n * heads,)](
                query, key, value, out, partial, log_mass, tiles.global_rows, tiles.position, table,
                *strides, *places, heads, groups, blocks, global_count, *band, scale, **sizes,
                BLOCKS=_BLOCKS, num_warps=2,
            )  # fmt: skip
    return out


def _tile_block(width: int, block_d: int, dtype: torch.dtype) -> KeyBlock:
    """Sizes that were fastest on an H200 and fit the shared memory of smaller GPUs."""
    rows = block_of(width, most=64)
    if dtype != torch.float32:
        if width <= 256 or block_d > 64:
            return KeyBlock(rows, 32, 4, 3)
        return KeyBlock(128 if block_d == 64 else 64, 64, 4, 3)
    if block_d <= 64:
        return KeyBlock(rows, 64, 4, 2)
    return KeyBlock(rows, 32, 4, 2) if width <= 128 else KeyBlock(128, 32, 8, 2)


def _table(view: TileView, query: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """What is added to the scores, -inf at hidden keys, or `query` if nothing is; and its strides
    along texts, heads, and positions of rows and keys.
    """
    if view.bias is None:
        if view.mask is None or view.band is not None:
            return query, (0, 0, 0, 0)
        # By distance, from the entry of distance 0 on.
        return torch.where(view.mask, 0.0, -torch.inf)[view.tiles.positions - 1 :], (0, 0, 1, -1)
    table = view.bias.float() * LOG2_E
    if view.mask is not None:
        place = torch.arange(view.tiles.positions, device=query.device)
        table = torch.where(view.sees(place[:, None], place), table, -torch.inf)
    table = table.contiguous()
    per_text = table.stride(0) if table.shape[0] > 1 else 0
    per_head = table.stride(1) if table.shape[1] > 1 else 0
    return table, (per_text, per_head, table.stride(2), table.stride(3))
