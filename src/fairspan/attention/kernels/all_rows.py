"""`attention.all_rows` in one launch: flash-style, with the softmax closed at the end of every basket."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.baskets import Baskets
from fairspan.attention.kernels.launch import LOG2_E, block_of, dense_heads, mask_strides


@triton.jit
def _all_rows(  # type: ignore[no-untyped-def]
    query, key, value, out, start, length, content, mask, strength,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l, mask_n, mask_l, mask_k,
    heads, groups, tokens, slots, scale,
    FULL: tl.constexpr, HAS_MASK: tl.constexpr, CAUSAL: tl.constexpr, SIZE: tl.constexpr, SINGLE: tl.constexpr,
    DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PRECISION: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """One block of query rows of one head of one text: every basket in turn, its softmax closed before the next.

    SIZE is the basket size of fixed baskets, whose borders are computed, or 0 for segments, whose borders are read.
    SINGLE says that no basket is longer than one block of KEYS, WHOLE that a full basket fills it and is seen by
    every row. FULL is strength 1, which needs no plain attention. Scores are in base 2.
    """
    # Compiled graphs hand numbers over in double precision.
    scale = tl.cast(scale, tl.float32)
    block = tl.program_id(0) % tl.cdiv(tokens, ROWS)
    head = tl.program_id(0) // tl.cdiv(tokens, ROWS)
    n = head // heads
    h = head % heads
    kv = h // groups
    query += n.to(tl.int64) * q_n + h * q_h
    key += n.to(tl.int64) * k_n + kv * k_h
    value += n.to(tl.int64) * v_n + kv * v_h
    out += n.to(tl.int64) * o_n + h * o_h
    mask += n.to(tl.int64) * mask_n
    start += n * slots
    length += n * slots

    row = block * ROWS + tl.arange(0, ROWS)
    real = row < tokens
    d = tl.arange(0, BLOCK_D)
    q = tl.load(
        query + row[:, None] * q_l + d[None, :], mask=real[:, None] & (d < DIM)[None, :], other=0.0
    )
    column = tl.arange(0, KEYS)

    equal = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    sharers = tl.zeros([ROWS], dtype=tl.float32)
    plain = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    peak = tl.full([ROWS], float("-inf"), dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)

    first_start = tl.load(start + 2)
    all_content = tl.load(content + n)
    count = slots - 2
    if SIZE > 0:
        count = tl.cdiv(all_content, SIZE)
    full = 0
    if WHOLE:
        # Baskets that fill the block and are seen whole by every row need no masks at all.
        full = all_content // SIZE
        for basket in range(full):
            where = first_start + basket * SIZE + column
            k = tl.load(key + where[None, :] * k_l + d[:, None])
            s = tl.dot(q, k, input_precision=PRECISION)
            top = tl.max(s, 1) * scale
            p = tl.exp2(s * scale - top[:, None])
            mass = tl.sum(p, 1)
            v = tl.load(value + where[:, None] * v_l + d[None, :])
            if not FULL:
                o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
                equal += o * (1 / mass)[:, None]
                higher = tl.maximum(peak, top)
                old = tl.exp2(peak - higher)
                new = tl.exp2(top - higher)
                plain = plain * old[:, None] + o * new[:, None]
                total = total * old + mass * new
                peak = higher
            else:
                equal += tl.dot(p.to(v.dtype), v, input_precision=PRECISION) * (1 / mass)[:, None]
        sharers += full
    for basket in range(full, count):
        if SIZE > 0:
            begin = first_start + basket * SIZE
            width = tl.minimum(all_content - basket * SIZE, SIZE)
        else:
            begin = tl.load(start + 2 + basket)
            width = tl.load(length + 2 + basket)
        if SINGLE:
            inside = column < width
            where = begin + column
            k = tl.load(
                key + where[None, :] * k_l + d[:, None],
                mask=inside[None, :] & (d < DIM)[:, None],
                other=0.0,
            )
            s = tl.dot(q, k, input_precision=PRECISION) * scale
            seen = inside[None, :]
            if HAS_MASK:
                at = mask + row[:, None] * mask_l + where[None, :] * mask_k
                seen = seen & (tl.load(at, mask=inside[None, :] & real[:, None], other=0) != 0)
            if CAUSAL:
                seen = seen & (where[None, :] <= row[:, None])
            s = tl.where(seen, s, float("-inf"))
            top = tl.max(s, 1)
            base = tl.where(top == float("-inf"), 0.0, top)
            p = tl.exp2(s - base[:, None])
            mass = tl.sum(p, 1)
            v = tl.load(
                value + where[:, None] * v_l + d[None, :],
                mask=inside[:, None] & (d < DIM)[None, :],
                other=0.0,
            )
            if not FULL:
                o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
                equal += o * tl.where(mass > 0, 1 / tl.maximum(mass, 1e-30), 0.0)[:, None]
                higher = tl.maximum(peak, top)
                safe = tl.where(higher == float("-inf"), 0.0, higher)
                old = tl.exp2(peak - safe)
                new = tl.exp2(top - safe)
                plain = plain * old[:, None] + o * new[:, None]
                total = total * old + mass * new
                peak = higher
            else:
                # Normalised before the product, this takes no registers from the loop above.
                p = p * tl.where(mass > 0, 1 / tl.maximum(mass, 1e-30), 0.0)[:, None]
                equal = tl.dot(p.to(v.dtype), v, equal, input_precision=PRECISION)
            sharers += tl.where(mass > 0, 1.0, 0.0)
        else:
            top = tl.full([ROWS], float("-inf"), dtype=tl.float32)
            mass = tl.zeros([ROWS], dtype=tl.float32)
            o = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
            for offset in range(0, width, KEYS):
                inside = offset + column < width
                where = begin + offset + column
                k = tl.load(
                    key + where[None, :] * k_l + d[:, None],
                    mask=inside[None, :] & (d < DIM)[:, None],
                    other=0.0,
                )
                s = tl.dot(q, k, input_precision=PRECISION) * scale
                seen = inside[None, :]
                if HAS_MASK:
                    at = mask + row[:, None] * mask_l + where[None, :] * mask_k
                    seen = seen & (tl.load(at, mask=inside[None, :] & real[:, None], other=0) != 0)
                if CAUSAL:
                    seen = seen & (where[None, :] <= row[:, None])
                s = tl.where(seen, s, float("-inf"))
                higher = tl.maximum(top, tl.max(s, 1))
                base = tl.where(higher == float("-inf"), 0.0, higher)
                p = tl.exp2(s - base[:, None])
                old = tl.exp2(top - base)
                mass = mass * old + tl.sum(p, 1)
                v = tl.load(
                    value + where[:, None] * v_l + d[None, :],
                    mask=inside[:, None] & (d < DIM)[None, :],
                    other=0.0,
                )
                o = tl.dot(p.to(v.dtype), v, o * old[:, None], input_precision=PRECISION)
                top = higher
            equal += o * tl.where(mass > 0, 1 / tl.maximum(mass, 1e-30), 0.0)[:, None]
            sharers += tl.where(mass > 0, 1.0, 0.0)
            if not FULL:
                higher = tl.maximum(peak, top)
                safe = tl.where(higher == float("-inf"), 0.0, higher)
                old = tl.exp2(peak - safe)
                new = tl.exp2(top - safe)
                plain = plain * old[:, None] + o * new[:, None]
                total = total * old + mass * new
                peak = higher

    result = equal * (1 / tl.maximum(sharers, 1.0))[:, None]
    if not FULL:
        amount = tl.load(strength + n)
        result = amount * result + (1 - amount) * plain * (1 / tl.maximum(total, 1e-30))[:, None]
    tl.store(out + row[:, None] * o_l + d[None, :], result, mask=real[:, None] & (d < DIM)[None, :])


@dataclass(frozen=True, slots=True)
class Tile:
    """How much of the attention matrix one program of `_all_rows` holds at a time."""

    rows: int
    keys: int
    warps: int
    stages: int


def _tile(block_d: int, dtype: torch.dtype, *, full: bool) -> Tile:
    """Sizes that were fastest on an H200 and fit its shared memory."""
    if dtype == torch.float32:
        return Tile(64, 64, 4, 2) if block_d <= 64 else Tile(32, 32, 4, 2)
    if block_d > 64:
        return Tile(128, 64, 8, 2)
    return Tile(128, 128, 4, 3) if full else Tile(64, 128, 4, 3)


def all_rows_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    baskets: Baskets,
    strength: Tensor | None,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """`all_rows.all_rows` in one launch, for boolean masks and no position bias."""
    n, heads, tokens, dim = query.shape
    query, key, value = dense_heads(query), dense_heads(key), dense_heads(value)
    out = torch.empty(n, tokens, heads, dim, dtype=query.dtype, device=query.device).transpose(1, 2)
    start, length = baskets.start.contiguous(), baskets.length.contiguous()
    longest = max(baskets.widths)
    block_d = block_of(dim)
    tile = _tile(block_d, query.dtype, full=strength is None)
    keys = block_of(longest, most=tile.keys)
    shown = mask if mask is not None else query
    _all_rows[(triton.cdiv(tokens, tile.rows) * n * heads,)](
        query, key, value, out, start, length, baskets.content, shown, strength if strength is not None else query,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *out.stride()[:3], *mask_strides(mask),
        heads, heads // key.shape[1], tokens, start.shape[1], scale * LOG2_E,
        FULL=strength is None, HAS_MASK=mask is not None, CAUSAL=causal,
        SIZE=baskets.size or 0, SINGLE=longest <= keys, DIM=dim, BLOCK_D=block_d, ROWS=tile.rows, KEYS=keys,
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        WHOLE=baskets.size == keys and mask is None and not causal and dim == block_d,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out
