"""`attention.tile_rows` in two launches: one program for each block of a tile, then one for each shared row.

A block of a tile is needed twice while it is at hand: its tokens attend to their tile, and the shared rows attend to
it. What the shared rows find in each block is put together by the second launch. Nothing is copied or reshaped.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.kernels.launch import LOG2_E, Launcher, block_of, dense_heads
from fairspan.attention.tiles import TileView

_MOST_ROWS = 64


@triton.jit
def _scores(  # type: ignore[no-untyped-def]
    q, k, row_place, key_place, row_ok, key_ok, table, table_q, table_k, scale,
    TABLE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Scores of rows for keys, in base 2, -inf where a key is not seen; k is [D, keys]."""
    s = tl.dot(q, k, input_precision=PRECISION) * scale
    if TABLE:
        cell = table + row_place[:, None] * table_q + key_place[None, :] * table_k
        s += tl.load(cell, mask=row_ok[:, None] & key_ok[None, :], other=0.0)
    return tl.where(key_ok[None, :], s, float("-inf"))


@triton.jit
def _add(s, v, peak, total, sums, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """The running softmax of scores, with further keys added."""
    higher = tl.maximum(peak, tl.max(s, 1))
    base = tl.where(higher == float("-inf"), 0.0, higher)
    p = tl.exp2(s - base[:, None])
    old = tl.exp2(peak - base)
    total = total * old + tl.sum(p, 1)
    sums = tl.dot(p.to(v.dtype), v, sums * old[:, None], input_precision=PRECISION)
    return higher, total, sums


@triton.jit
def _tile_blocks(  # type: ignore[no-untyped-def]
    query, key, value, out, pieces, log_mass, start, length, shared, position, table,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l, table_n, table_h, table_q, table_k,
    heads, groups, tokens, count, blocks, shared_count, scale,
    SHARED: tl.constexpr, TABLE: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, HAS_SHARED: tl.constexpr,
    ONLY_SHARED: tl.constexpr, PER_TILE: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of up to ROWS tokens of one tile, for one head of one text.

    SHARED is a size for the shared tokens, PER_TILE how many blocks a tile has.
    """
    scale = tl.cast(scale, tl.float32)
    block = tl.program_id(0) % blocks
    head = tl.program_id(0) // blocks
    n = head // heads
    h = head % heads
    kv = h // groups
    query += n.to(tl.int64) * q_n + h * q_h
    key += n.to(tl.int64) * k_n + kv * k_h
    value += n.to(tl.int64) * v_n + kv * v_h
    out += n.to(tl.int64) * o_n + h * o_h
    table += n * table_n + h * table_h
    position += n.to(tl.int64) * tokens
    start += n * count
    length += n * count
    tile = block // PER_TILE
    offset = (block % PER_TILE) * ROWS
    begin = tl.load(start + tile)
    width = tl.load(length + tile)

    d = tl.arange(0, BLOCK_D)
    in_d = d < DIM
    column = tl.arange(0, ROWS)
    row = begin + offset + column
    row_ok = offset + column < width
    s_column = tl.arange(0, SHARED)
    s_ok = s_column < shared_count
    s_row = tl.load(shared + n * shared_count + s_column, mask=s_ok, other=0)
    row_place = row
    s_place = s_row
    if TABLE:
        row_place = tl.load(position + row, mask=row_ok, other=0)
        s_place = tl.load(position + s_row, mask=s_ok, other=0)

    own_k = tl.load(
        key + row[None, :] * k_l + d[:, None], mask=row_ok[None, :] & in_d[:, None], other=0.0
    )
    own_v = tl.load(
        value + row[:, None] * v_l + d[None, :], mask=row_ok[:, None] & in_d[None, :], other=0.0
    )
    if not ONLY_SHARED:
        q = tl.load(
            query + row[:, None] * q_l + d[None, :], mask=row_ok[:, None] & in_d[None, :], other=0.0
        )
        peak = tl.full([ROWS], float("-inf"), dtype=tl.float32)
        total = tl.zeros([ROWS], dtype=tl.float32)
        sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
        if HAS_SHARED:
            s_k = tl.load(
                key + s_row[None, :] * k_l + d[:, None],
                mask=s_ok[None, :] & in_d[:, None],
                other=0.0,
            )
            s_s = _scores(
                q,
                s_k,
                row_place,
                s_place,
                row_ok,
                s_ok,
                table,
                table_q,
                table_k,
                scale,
                TABLE,
                PRECISION,
            )
            peak = tl.max(s_s, 1)
            s_base = tl.where(peak == float("-inf"), 0.0, peak)
            s_p = tl.exp2(s_s - s_base[:, None])
            total = tl.sum(s_p, 1)
            s_v = tl.load(
                value + s_row[:, None] * v_l + d[None, :],
                mask=s_ok[:, None] & in_d[None, :],
                other=0.0,
            )
            sums = tl.dot(s_p.to(s_v.dtype), s_v, input_precision=PRECISION)
        if PER_TILE == 1:
            s = _scores(
                q,
                own_k,
                row_place,
                row_place,
                row_ok,
                row_ok,
                table,
                table_q,
                table_k,
                scale,
                TABLE,
                PRECISION,
            )
            peak, total, sums = _add(s, own_v, peak, total, sums, PRECISION)
        else:
            for part in range(PER_TILE):
                where = begin + part * ROWS + column
                key_ok = part * ROWS + column < width
                key_place = where
                if TABLE:
                    key_place = tl.load(position + where, mask=key_ok, other=0)
                cells = key_ok[:, None] & in_d[None, :]
                k = tl.load(
                    key + where[None, :] * k_l + d[:, None], mask=tl.trans(cells), other=0.0
                )
                s = _scores(
                    q,
                    k,
                    row_place,
                    key_place,
                    row_ok,
                    key_ok,
                    table,
                    table_q,
                    table_k,
                    scale,
                    TABLE,
                    PRECISION,
                )
                v = tl.load(value + where[:, None] * v_l + d[None, :], mask=cells, other=0.0)
                peak, total, sums = _add(s, v, peak, total, sums, PRECISION)
        result = sums * (1 / tl.maximum(total, 1e-30))[:, None]
        tl.store(
            out + row[:, None] * o_l + d[None, :], result, mask=row_ok[:, None] & in_d[None, :]
        )

    if HAS_SHARED:
        s_q = tl.load(
            query + s_row[:, None] * q_l + d[None, :], mask=s_ok[:, None] & in_d[None, :], other=0.0
        )
        own_s = _scores(
            s_q,
            own_k,
            s_place,
            row_place,
            s_ok,
            row_ok,
            table,
            table_q,
            table_k,
            scale,
            TABLE,
            PRECISION,
        )
        own_peak = tl.max(own_s, 1)
        own_base = tl.where(own_peak == float("-inf"), 0.0, own_peak)
        own_p = tl.exp2(own_s - own_base[:, None])
        own_total = tl.sum(own_p, 1)
        own_o = tl.dot(own_p.to(own_v.dtype), own_v, input_precision=PRECISION)
        own_o *= (1 / tl.maximum(own_total, 1e-30))[:, None]
        own_lse = tl.where(
            own_total > 0, own_base + tl.log2(tl.maximum(own_total, 1e-30)), float("-inf")
        )
        at = (head.to(tl.int64) * shared_count + s_column) * blocks + block
        tl.store(pieces + at[:, None] * DIM + d[None, :], own_o, mask=s_ok[:, None] & in_d[None, :])
        tl.store(log_mass + at, own_lse, mask=s_ok)


@triton.jit
def _shared_rows(  # type: ignore[no-untyped-def]
    query, key, value, out, pieces, log_mass, shared, position, table,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l, table_n, table_h, table_q, table_k,
    heads, groups, tokens, blocks, shared_count, scale,
    SHARED: tl.constexpr, TABLE: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """One shared row of one head of one text: what it finds in each block, and in the shared tokens."""
    scale = tl.cast(scale, tl.float32)
    number = tl.program_id(0) % shared_count
    head = tl.program_id(0) // shared_count
    n = head // heads
    h = head % heads
    kv = h // groups
    key += n.to(tl.int64) * k_n + kv * k_h
    value += n.to(tl.int64) * v_n + kv * v_h
    table += n * table_n + h * table_h
    position += n.to(tl.int64) * tokens
    shared += n * shared_count
    d = tl.arange(0, BLOCK_D)
    in_d = d < DIM
    row = tl.load(shared + number)
    q = tl.load(query + n.to(tl.int64) * q_n + h * q_h + row * q_l + d, mask=in_d, other=0.0).to(
        tl.float32
    )

    # A text of fewer tokens than are shared has some of them twice; each counts once.
    column = tl.arange(0, SHARED)
    where = tl.load(shared + column, mask=column < shared_count, other=0)
    before = tl.load(shared + column - 1, mask=(column > 0) & (column < shared_count), other=-1)
    ok = (column < shared_count) & ((column == 0) | (where > before))
    cells = ok[:, None] & in_d[None, :]
    k = tl.load(key + where[:, None] * k_l + d[None, :], mask=cells, other=0.0).to(tl.float32)
    s = tl.sum(k * q[None, :], 1) * scale
    if TABLE:
        place = tl.load(position + row)
        places = tl.load(position + where, mask=ok, other=0)
        s += tl.load(table + place * table_q + places * table_k, mask=ok, other=0.0)
    s = tl.where(ok, s, float("-inf"))
    peak = tl.max(s, 0)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    p = tl.exp2(s - base)
    total = tl.sum(p, 0)
    v = tl.load(value + where[:, None] * v_l + d[None, :], mask=cells, other=0.0).to(tl.float32)
    result = tl.sum(v * p[:, None], 0)

    at = (head.to(tl.int64) * shared_count + number) * blocks
    column = tl.arange(0, BLOCKS)
    for offset in range(0, blocks, BLOCKS):
        block = offset + column
        lse = tl.load(log_mass + at + block, mask=block < blocks, other=float("-inf"))
        higher = tl.maximum(peak, tl.max(lse, 0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(lse - base)
        old = tl.exp2(peak - base)
        there = (block < blocks)[:, None] & in_d[None, :]
        o = tl.load(pieces + (at + block)[:, None] * DIM + d[None, :], mask=there, other=0.0)
        result = result * old + tl.sum(o * weight[:, None], 0)
        total = total * old + tl.sum(weight, 0)
        peak = higher
    tl.store(
        out + n.to(tl.int64) * o_n + h * o_h + row * o_l + d,
        result / tl.maximum(total, 1e-30),
        mask=in_d,
    )


_launch_blocks, _launch_shared = Launcher(_tile_blocks), Launcher(_shared_rows)


def tile_rows_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    view: TileView,
    *,
    only_shared: bool = False,
) -> Tensor:
    """`tile_rows.tile_rows` of a tiled layer in two launches."""
    tiles = view.tiles
    n, heads, tokens, dim = query.shape
    query, key, value = dense_heads(query), dense_heads(key), dense_heads(value)
    empty = torch.zeros if only_shared or tiles.padded else torch.empty
    out = empty(n, tokens, heads, dim, dtype=query.dtype, device=query.device)
    rows = block_of(tiles.width, most=_MOST_ROWS)
    per_tile, count = -(-tiles.width // rows), tiles.start.shape[1]
    blocks, shared = count * per_tile, tiles.lead + tiles.trail
    pieces = torch.empty(n * heads * shared * blocks, dim, dtype=torch.float32, device=query.device)
    log_mass = torch.empty(n * heads * shared * blocks, dtype=torch.float32, device=query.device)
    table, table_strides = _table(view, query)
    strides = (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3])
    strides += (tokens * heads * dim, dim, heads * dim, *table_strides)
    groups, scale = heads // key.shape[1], scale * LOG2_E
    sizes = (block_of(shared), table is not query, dim, block_of(dim))
    precision = "ieee" if query.dtype == torch.float32 else "tf32"
    _launch_blocks(
        blocks * n * heads,
        (
            query,
            key,
            value,
            out,
            pieces,
            log_mass,
            tiles.start,
            tiles.length,
            tiles.shared,
            tiles.position,
            table,
        ),
        (*strides, heads, groups, tokens, count, blocks, shared, scale),
        (*sizes, shared > 0, only_shared, per_tile, rows, precision),
        num_warps=4,
    )
    if shared:
        _launch_shared(
            shared * n * heads,
            (query, key, value, out, pieces, log_mass, tiles.shared, tiles.position, table),
            (*strides, heads, groups, tokens, blocks, shared, scale),
            (*sizes, block_of(blocks, most=64)),
            num_warps=2,
        )
    return out


def _table(view: TileView, query: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """What is added to the scores, in base 2, -inf where a row does not see a key; `query` if nothing is.

    With it its strides: from text to text, head to head, and along the positions of rows and of keys.
    """
    if view.bias is None:
        if view.mask is None:
            return query, (0, 0, 0, 0)
        # By distance, from the entry of distance 0 on.
        return torch.where(view.mask, 0.0, -torch.inf)[view.tiles.positions - 1 :], (0, 0, 1, -1)
    table = view.bias.float() * LOG2_E
    if view.mask is not None:
        place = torch.arange(view.tiles.positions, device=query.device)
        table = torch.where(view.sees(place[:, None], place), table, -torch.inf)
    table = table.contiguous()
    per_text, per_head, per_row, per_key = table.stride()
    return table, (
        per_text if table.shape[0] > 1 else 0,
        per_head if table.shape[1] > 1 else 0,
        per_row,
        per_key,
    )
