"""`attention.all_rows` in one launch: flash-style, with the softmax closed after every basket."""

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
    mask_strides,
    needed_mask,
    precision_of,
)
from fairspan.attention.kernels.softmax import (
    add_keys,
    finite,
    inverse,
    join,
    load_columns,
    load_rows,
)
from fairspan.attention.plan import BasketRule, LayerInputs


@triton.jit
def _seen_scores(
    q, key, where, inside, row, real, d, d_ok, k_l, mask, mask_l, mask_k,
    HAS_MASK: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Scores [ROWS, KEYS] of the rows for the keys `where`, -inf where a row does not see one."""
    k = load_columns(key, where, k_l, d, inside, d_ok)
    s = tl.dot(q, k, input_precision=PRECISION)
    seen = inside[None, :]
    if HAS_MASK:
        at = mask + row[:, None] * mask_l + where[None, :] * mask_k
        seen = seen & (tl.load(at, mask=inside[None, :] & real[:, None], other=0) != 0)
    if CAUSAL:
        seen = seen & (where[None, :] <= row[:, None])
    return tl.where(seen, s, float("-inf"))


@triton.jit(do_not_specialize=["tokens", "slots", "mask_n", "mask_l"])
def _all_rows(
    query, key, value, out, start, length, content, mask, strength,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l, mask_n, mask_l, mask_k,
    heads, groups, tokens, slots, scale,
    FULL: tl.constexpr, HAS_MASK: tl.constexpr, CAUSAL: tl.constexpr, SIZE: tl.constexpr,
    SINGLE: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, PRECISION: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """One block of query rows of one head of one text: basket after basket.

    (`top`, `mass`, `o`) is the softmax of a basket, (`peak`, `total`, `plain`) that of all keys.
    SIZE is the size of fixed baskets, 0 for segments, whose borders are read. SINGLE: no basket is
    longer than one block of KEYS. WHOLE: a full basket fills a block and is seen by every row.
    FULL: strength 1, which needs no plain attention.
    """
    # Compiled graphs hand numbers over in double precision.
    scale = tl.cast(scale, tl.float32)
    block = tl.program_id(0) % tl.cdiv(tokens, ROWS)
    head = tl.program_id(0) // tl.cdiv(tokens, ROWS)
    n = (head // heads).to(tl.int64)
    h = head % heads
    kv = h // groups
    query += n * q_n + h * q_h
    key += n * k_n + kv * k_h
    value += n * v_n + kv * v_h
    out += n * o_n + h * o_h
    mask += n * mask_n
    start += n * slots
    length += n * slots

    row = block * ROWS + tl.arange(0, ROWS)
    real = row < tokens
    d = tl.arange(0, BLOCK_D)
    d_ok = d < DIM
    q = load_rows(query, row, q_l, d, real, d_ok)
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
            o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
            equal += o * (1 / mass)[:, None]
            if not FULL:
                peak, total, plain = join(peak, total, plain, top, mass, o)
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
            s = _seen_scores(
                q, key, where, inside, row, real, d, d_ok, k_l, mask, mask_l, mask_k,
                HAS_MASK, CAUSAL, PRECISION,
            )  # fmt: skip
            v = load_rows(value, where, v_l, d, inside, d_ok)
            top = tl.max(s, 1) * scale
            p = tl.exp2(s * scale - finite(top)[:, None])
            mass = tl.sum(p, 1)
            if FULL:
                # Normalised before the product, this takes no registers from the loop above.
                p = p * inverse(mass)[:, None]
                equal = tl.dot(p.to(v.dtype), v, equal, input_precision=PRECISION)
            else:
                o = tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
                equal += o * inverse(mass)[:, None]
                peak, total, plain = join(peak, total, plain, top, mass, o)
        else:
            top = tl.full([ROWS], float("-inf"), dtype=tl.float32)
            mass = tl.zeros([ROWS], dtype=tl.float32)
            o = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
            for offset in range(0, width, KEYS):
                inside = offset + column < width
                where = begin + offset + column
                s = _seen_scores(
                    q, key, where, inside, row, real, d, d_ok, k_l, mask, mask_l, mask_k,
                    HAS_MASK, CAUSAL, PRECISION,
                )  # fmt: skip
                v = load_rows(value, where, v_l, d, inside, d_ok)
                top, mass, o = add_keys(s, v, top, mass, o, scale, PRECISION)
            equal += o * inverse(mass)[:, None]
            if not FULL:
                peak, total, plain = join(peak, total, plain, top, mass, o)
        sharers += tl.where(mass > 0, 1.0, 0.0)

    result = equal * (1 / tl.maximum(sharers, 1.0))[:, None]
    if not FULL:
        amount = tl.load(strength + n)
        result = amount * result + (1 - amount) * plain * (1 / tl.maximum(total, 1e-30))[:, None]
    tl.store(out + row[:, None] * o_l + d[None, :], result, mask=real[:, None] & d_ok[None, :])


def _key_block(block_d: int, dtype: torch.dtype, *, full: bool) -> KeyBlock:
    """Sizes that were fastest on an H200 and fit its shared memory."""
    if dtype == torch.float32:
        return KeyBlock(64, 128, 4, 1) if block_d <= 64 else KeyBlock(32, 32, 4, 2)
    if block_d > 64:
        return KeyBlock(128, 64, 8, 2)
    return KeyBlock(128, 128, 4, 3) if full else KeyBlock(64, 128, 4, 3)


def all_rows_kernel(inputs: LayerInputs, rule: BasketRule) -> Tensor:
    """`all_rows.all_rows`, [N, L, H, D], for boolean masks and no position bias."""
    query, key, value = dense_heads(inputs)
    n, heads, tokens, dim = query.shape
    baskets = rule.baskets
    strength = rule.strength
    mask = needed_mask(inputs)
    out = torch.empty(n, tokens, heads, dim, dtype=query.dtype, device=query.device)
    longest = baskets.width
    block_d = block_of(dim)
    block = _key_block(block_d, query.dtype, full=strength is None)
    keys = block_of(longest, most=block.keys)
    with device_of(query):
        _all_rows[(triton.cdiv(tokens, block.rows) * n * heads,)](
            query, key, value, out, baskets.start.contiguous(), baskets.length.contiguous(),
            baskets.content,
            query if mask is None else mask, query if strength is None else strength,
            *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
            out.stride(0), out.stride(2), out.stride(1), *mask_strides(mask),
            heads, heads // key.shape[1], tokens, baskets.count, inputs.scale * LOG2_E,
            FULL=strength is None, HAS_MASK=mask is not None, CAUSAL=inputs.causal,
            SIZE=baskets.size or 0, SINGLE=longest <= keys, DIM=dim, BLOCK_D=block_d,
            ROWS=block.rows, KEYS=keys,
            PRECISION=precision_of(query.dtype),
            WHOLE=baskets.size == keys and mask is None and not inputs.causal and dim == block_d,
            num_warps=block.warps, num_stages=block.stages,
        )  # fmt: skip
    return out
