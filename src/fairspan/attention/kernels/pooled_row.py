"""`attention.pooled_row` in one launch: a program per basket of a head; the last one mixes them."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.kernels.arguments import (
    LOG2_E,
    block_of,
    dense_heads,
    device_of,
    mask_strides,
    needed_mask,
)
from fairspan.attention.kernels.softmax import add_keys_to_row, finite, load_rows, log_total
from fairspan.attention.plan import BasketRule, LayerInputs


@triton.jit
def _load_fresh(at, ok, other):
    """What other programs have written, not from a processor's own cache."""
    return tl.load(at, mask=ok, other=other, cache_modifier=".cg")


@triton.jit
def _mix(
    pieces, log_mass, slots, strength, d, BOS: tl.constexpr, EOS: tl.constexpr,
    FULL: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """[D]: the pooled row of one head, put together from its pieces by the shares of baskets.

    BOS and EOS are the shares of the special baskets, as `_SHARE_CODES` numbers them.
    """
    column = tl.arange(0, SLOTS)

    peak = float("-inf")
    total = 0.0
    sharers = 0.0
    for offset in range(0, slots, SLOTS):
        slot = offset + column
        lse = _load_fresh(log_mass + slot, slot < slots, float("-inf"))
        higher = tl.maximum(peak, tl.max(lse, 0))
        base = finite(higher)
        total = total * tl.exp2(peak - base) + tl.sum(tl.exp2(lse - base), 0)
        peak = higher
        sharers += tl.sum(tl.where((lse > float("-inf")) & (slot > 1), 1.0, 0.0), 0)
    base = finite(peak)
    normal = 1 / tl.maximum(total, 1e-30)

    bos_lse = tl.load(log_mass, cache_modifier=".cg")
    eos_lse = tl.load(log_mass + 1, cache_modifier=".cg")
    bos_mass = tl.exp2(bos_lse - base) * normal
    eos_mass = tl.exp2(eos_lse - base) * normal
    bos_there = tl.where(bos_lse > float("-inf"), 1.0, 0.0)
    eos_there = tl.where(eos_lse > float("-inf"), 1.0, 0.0)
    equal = 1 / tl.maximum(sharers + bos_there + eos_there, 1.0)
    bos_share = 0.0
    if BOS == 1:
        bos_share = equal * bos_there
    if BOS == 2:
        bos_share = bos_mass
    eos_share = 0.0
    if EOS == 1:
        eos_share = equal * eos_there
    if EOS == 2:
        eos_share = eos_mass
    rest = tl.maximum(1 - bos_share - eos_share, 0.0)
    all_shares = bos_share + eos_share + tl.where(sharers > 0, rest, 0.0)
    to_one = 1 / tl.maximum(all_shares, 1e-30)
    content_share = to_one * rest / tl.maximum(sharers, 1.0)
    amount = 1.0
    if not FULL:
        amount = tl.load(strength)
    # A row without reserved or shared mass is not changed.
    amount = tl.where(all_shares <= 0, 0.0, amount)

    result = tl.zeros([BLOCK_D], dtype=tl.float32)
    for offset in range(0, slots, SLOTS):
        slot = offset + column
        lse = _load_fresh(log_mass + slot, slot < slots, float("-inf"))
        present = lse > float("-inf")
        mass = tl.exp2(lse - base) * normal
        share = tl.where(present, content_share, 0.0)
        share = tl.where(slot == 0, bos_share * to_one, share)
        share = tl.where(slot == 1, eos_share * to_one, share)
        weight = amount * share + (1 - amount) * mass
        cell = (slot < slots)[:, None] & (d < DIM)[None, :]
        o = _load_fresh(pieces + slot[:, None] * DIM + d[None, :], cell, 0.0)
        result += tl.sum(weight[:, None] * o, 0)
    return result


@triton.jit(do_not_specialize=["slots", "mask_n", "mask_l"])
def _pooled_row(
    query, key, value, out, pooled, pieces, log_mass, done, start, length, mask, strength,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, o_n, o_h, o_l, mask_n, mask_l, mask_k,
    heads, groups, slots, scale, BOS: tl.constexpr, EOS: tl.constexpr, FULL: tl.constexpr,
    HAS_MASK: tl.constexpr, CAUSAL: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    KEYS: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Attention of the pooled row restricted to one basket: output [D] and base-2 log-sum-exp.

    The last program of a head to be done puts the row together.
    """
    # Compiled graphs hand numbers over in double precision.
    scale = tl.cast(scale, tl.float32)
    slot = tl.program_id(0) % slots
    head = tl.program_id(0) // slots
    n = (head // heads).to(tl.int64)
    h = head % heads
    kv = h // groups
    query += n * q_n + h * q_h
    key += n * k_n + kv * k_h
    value += n * v_n + kv * v_h
    row = tl.load(pooled + n)
    begin = tl.load(start + n * slots + slot)
    width = tl.load(length + n * slots + slot)
    d = tl.arange(0, BLOCK_D)
    d_ok = d < DIM
    column = tl.arange(0, KEYS)
    q = tl.load(query + row * q_l + d, mask=d_ok, other=0.0).to(tl.float32) * scale
    peak = float("-inf")
    total = 0.0
    sums = tl.zeros([BLOCK_D], dtype=tl.float32)
    for offset in range(0, width, KEYS):
        inside = offset + column < width
        where = begin + offset + column
        k = load_rows(key, where, k_l, d, inside, d_ok).to(tl.float32)
        s = tl.sum(k * q[None, :], 1)
        seen = inside
        if HAS_MASK:
            at = mask + n * mask_n + row * mask_l + where * mask_k
            seen = seen & (tl.load(at, mask=inside, other=0) != 0)
        if CAUSAL:
            seen = seen & (where <= row)
        s = tl.where(seen, s, float("-inf"))
        v = load_rows(value, where, v_l, d, inside, d_ok).to(tl.float32)
        peak, total, sums = add_keys_to_row(s, v, peak, total, sums)
    pieces += head.to(tl.int64) * slots * DIM
    log_mass += head.to(tl.int64) * slots
    tl.store(pieces + slot * DIM + d, sums / tl.maximum(total, 1e-30), mask=d_ok)
    tl.store(log_mass + slot, log_total(peak, total))
    tl.debug_barrier()
    if tl.atomic_add(done + head, 1, sem="acq_rel", scope="gpu") == slots - 1:
        tl.debug_barrier()
        result = _mix(pieces, log_mass, slots, strength + n, d, BOS, EOS, FULL, DIM, BLOCK_D, SLOTS)
        tl.store(out + n * o_n + h * o_h + row * o_l + d, result, mask=d_ok)


_SLOTS = 64
_SHARE_CODES = {None: 0, "equal": 1, "original": 2}


def pooled_row_kernel(out: Tensor, inputs: LayerInputs, rule: BasketRule) -> None:
    """Write `pooled_row.pooled_row` into `out` [N, L, H, D], for boolean masks and no bias."""
    query, key, value = dense_heads(inputs)
    n, heads, _, dim = query.shape
    baskets = rule.baskets
    strength = rule.strength
    mask = needed_mask(inputs)
    slots = baskets.count
    block_d = block_of(dim)
    pieces = torch.empty(n * heads, slots, dim, dtype=torch.float32, device=query.device)
    log_mass = torch.empty(n * heads, slots, dtype=torch.float32, device=query.device)
    done = torch.zeros(n * heads, dtype=torch.int32, device=query.device)
    with device_of(query):
        _pooled_row[(slots * n * heads,)](
            query, key, value, out, rule.pooled, pieces, log_mass, done,
            baskets.start.contiguous(), baskets.length.contiguous(),
            query if mask is None else mask, query if strength is None else strength,
            *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
            out.stride(0), out.stride(2), out.stride(1), *mask_strides(mask),
            heads, heads // key.shape[1], slots, inputs.scale * LOG2_E,
            BOS=_SHARE_CODES[rule.special.bos], EOS=_SHARE_CODES[rule.special.eos],
            FULL=strength is None, HAS_MASK=mask is not None, CAUSAL=inputs.causal,
            DIM=dim, BLOCK_D=block_d, KEYS=block_of(baskets.width, most=128), SLOTS=_SLOTS,
            num_warps=4,
        )  # fmt: skip
