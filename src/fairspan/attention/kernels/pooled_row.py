"""`attention.pooled_row` in two launches: one program for each basket of each head, then one to mix them."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.baskets import Baskets
from fairspan.attention.kernels.launch import LOG2_E, Launcher, block_of, dense_heads, mask_strides
from fairspan.attention.shares import SpecialShares


@triton.jit
def _row_pieces(  # type: ignore[no-untyped-def]
    query, key, value, pooled, pieces, log_mass, start, length, mask,
    q_n, q_h, q_l, k_n, k_h, k_l, v_n, v_h, v_l, mask_n, mask_l, mask_k,
    heads, groups, slots, scale, HAS_MASK: tl.constexpr, CAUSAL: tl.constexpr, DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Attention of the pooled row restricted to one basket: its output [D] and the base-2 log of its normaliser."""
    # Compiled graphs hand numbers over in double precision.
    scale = tl.cast(scale, tl.float32)
    slot = tl.program_id(0) % slots
    head = tl.program_id(0) // slots
    n = head // heads
    h = head % heads
    kv = h // groups
    key += n.to(tl.int64) * k_n + kv * k_h
    value += n.to(tl.int64) * v_n + kv * v_h
    row = tl.load(pooled + n)
    begin = tl.load(start + n * slots + slot)
    width = tl.load(length + n * slots + slot)
    d = tl.arange(0, BLOCK_D)
    column = tl.arange(0, KEYS)
    q = (
        tl.load(query + n.to(tl.int64) * q_n + h * q_h + row * q_l + d, mask=d < DIM, other=0.0).to(
            tl.float32
        )
        * scale
    )
    top = float("-inf")
    total = 0.0
    o = tl.zeros([BLOCK_D], dtype=tl.float32)
    for offset in range(0, width, KEYS):
        inside = offset + column < width
        where = begin + offset + column
        cell = inside[:, None] & (d < DIM)[None, :]
        k = tl.load(key + where[:, None] * k_l + d[None, :], mask=cell, other=0.0).to(tl.float32)
        s = tl.sum(k * q[None, :], 1)
        seen = inside
        if HAS_MASK:
            at = mask + n.to(tl.int64) * mask_n + row * mask_l + where * mask_k
            seen = seen & (tl.load(at, mask=inside, other=0) != 0)
        if CAUSAL:
            seen = seen & (where <= row)
        s = tl.where(seen, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(s - base)
        old = tl.exp2(top - base)
        total = total * old + tl.sum(p, 0)
        v = tl.load(value + where[:, None] * v_l + d[None, :], mask=cell, other=0.0).to(tl.float32)
        o = o * old + tl.sum(p[:, None] * v, 0)
        top = higher
    at = head.to(tl.int64) * slots + slot
    safe = tl.maximum(total, 1e-30)
    tl.store(pieces + at * DIM + d, o / safe, mask=d < DIM)
    tl.store(log_mass + at, tl.where(total > 0, top + tl.log2(safe), float("-inf")))


@triton.jit
def _row_mix(  # type: ignore[no-untyped-def]
    pieces, log_mass, pooled, strength, out, o_n, o_h, o_l, heads, slots,
    BOS: tl.constexpr, EOS: tl.constexpr, FULL: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    SLOTS: tl.constexpr,
):  # fmt: skip
    """The shares of one head's baskets, and the pooled row put together from its pieces."""
    n = tl.program_id(0) // heads
    h = tl.program_id(0) % heads
    pieces += tl.program_id(0).to(tl.int64) * slots * DIM
    log_mass += tl.program_id(0).to(tl.int64) * slots
    d = tl.arange(0, BLOCK_D)
    column = tl.arange(0, SLOTS)

    peak = float("-inf")
    total = 0.0
    sharers = 0.0
    for offset in range(0, slots, SLOTS):
        slot = offset + column
        lse = tl.load(log_mass + slot, mask=slot < slots, other=float("-inf"))
        higher = tl.maximum(peak, tl.max(lse, 0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(peak - base) + tl.sum(tl.exp2(lse - base), 0)
        peak = higher
        sharers += tl.sum(tl.where((lse > float("-inf")) & (slot > 1), 1.0, 0.0), 0)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    normal = 1 / tl.maximum(total, 1e-30)

    bos_lse = tl.load(log_mass)
    eos_lse = tl.load(log_mass + 1)
    bos_mass = tl.exp2(bos_lse - base) * normal
    eos_mass = tl.exp2(eos_lse - base) * normal
    bos_there = tl.where(bos_lse > float("-inf"), 1.0, 0.0)
    eos_there = tl.where(eos_lse > float("-inf"), 1.0, 0.0)
    one = 1 / tl.maximum(sharers + bos_there + eos_there, 1.0)
    bos_share = one * bos_there if BOS == 1 else (bos_mass if BOS == 2 else 0.0)
    eos_share = one * eos_there if EOS == 1 else (eos_mass if EOS == 2 else 0.0)
    rest = tl.maximum(1 - bos_share - eos_share, 0.0)
    all_shares = bos_share + eos_share + tl.where(sharers > 0, rest, 0.0)
    to_one = 1 / tl.maximum(all_shares, 1e-30)
    each = to_one * rest / tl.maximum(sharers, 1.0)
    amount = 1.0
    if not FULL:
        amount = tl.load(strength + n)
    # A row without reserved or shared mass is not changed.
    amount = tl.where(all_shares <= 0, 0.0, amount)

    result = tl.zeros([BLOCK_D], dtype=tl.float32)
    for offset in range(0, slots, SLOTS):
        slot = offset + column
        lse = tl.load(log_mass + slot, mask=slot < slots, other=float("-inf"))
        present = lse > float("-inf")
        mass = tl.exp2(lse - base) * normal
        share = tl.where(present, each, 0.0)
        share = tl.where(slot == 0, bos_share * to_one, share)
        share = tl.where(slot == 1, eos_share * to_one, share)
        weight = amount * share + (1 - amount) * mass
        cell = (slot < slots)[:, None] & (d < DIM)[None, :]
        o = tl.load(pieces + slot[:, None] * DIM + d[None, :], mask=cell, other=0.0)
        result += tl.sum(weight[:, None] * o, 0)
    row = tl.load(pooled + n)
    tl.store(out + n.to(tl.int64) * o_n + h * o_h + row * o_l + d, result, mask=d < DIM)


# What a special token's own basket receives, as `_row_mix` compares it.
_OWN = {None: 0, "equal": 1, "original": 2}

_launch_pieces, _launch_mix = Launcher(_row_pieces), Launcher(_row_mix)


def pooled_row_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    pooled: Tensor,
    scale: float,
    baskets: Baskets,
    special: SpecialShares,
    strength: Tensor | None,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
) -> None:
    """`pooled_row.pooled_row` in two launches, written into `out` [N, L, H, D], for boolean masks and no bias."""
    n, heads, _, dim = query.shape
    query, key, value = dense_heads(query), dense_heads(key), dense_heads(value)
    start, length = baskets.start.contiguous(), baskets.length.contiguous()
    slots = start.shape[1]
    block_d = block_of(dim)
    pieces = torch.empty(n * heads, slots, dim, dtype=torch.float32, device=query.device)
    log_mass = torch.empty(n * heads, slots, dtype=torch.float32, device=query.device)
    shown = mask if mask is not None else query
    keys = block_of(max(baskets.widths), most=128)
    _launch_pieces(
        slots * n * heads,
        (query, key, value, pooled, pieces, log_mass, start, length, shown),
        (*query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *mask_strides(mask),
         heads, heads // key.shape[1], slots, scale * LOG2_E),
        (mask is not None, causal, dim, block_d, keys),
        num_warps=4,
    )  # fmt: skip
    _launch_mix(
        n * heads,
        (pieces, log_mass, pooled, strength if strength is not None else query, out),
        (out.stride(0), out.stride(2), out.stride(1), heads, slots),
        (
            _OWN[special.bos],
            _OWN[special.eos],
            strength is None,
            dim,
            block_d,
            block_of(slots, most=64),
        ),
        num_warps=2,
    )
