"""The fast path for CLS and last-token pooling: one calibrated query row in O(L) time and memory."""

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET, Baskets
from fairspan.attention.shares import SpecialShares, basket_shares, target_shares


def accumulate(x: Tensor) -> Tensor:
    """`x` in the dtype that its products are summed in: float32 for half precision, as in SDPA's own kernels."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def pooled_row(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    visible: Tensor | None,
    scale: float,
    baskets: Baskets,
    special: SpecialShares,
    strength: Tensor | None,
) -> Tensor:
    """IRF §5 for one row per text: Σ_b share_b · softmax(q·K_b) V_b, each softmax closed inside its basket.

    Args:
        query: [N, H, D], the pooled token's. key, value: [N, K, L, D] with K heads, a divisor of H.
        bias: broadcasts to [N, H, L], added to the scores. visible: [N, L] bool, None if the row sees every key.
        strength: [N], or None for 1 throughout.

    Returns:
        [N, H, D] in the dtype of `query`.
    """
    n, heads, dim = query.shape
    kv_heads, length = key.shape[1], key.shape[2]
    grouped = accumulate(query).view(n, kv_heads, heads // kv_heads, dim)
    scores = (grouped * scale @ accumulate(key).transpose(-1, -2)).view(n, heads, length)
    if bias is not None:
        scores = scores + bias
    slot = baskets.slot if visible is None else torch.where(visible, baskets.slot, NO_BASKET)
    p = calibrated_weights(scores, slot, baskets.count, special, strength)
    out = p.view(n, kv_heads, heads // kv_heads, length) @ accumulate(value)
    return out.view(n, heads, dim).to(query.dtype)


def calibrated_weights(
    scores: Tensor, slot: Tensor, count: int, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """p'' of one row per text, [N, H, L].

    Args:
        scores: [N, H, L], what the softmax is taken of.
        slot: [N, L], the basket of each key, `NO_BASKET` for keys that the row does not see.
        count: how many slots there are.
    """
    n, heads, length = scores.shape
    slot = torch.where(slot == NO_BASKET, count, slot)  # one more slot collects what is in no basket
    present = torch.zeros(n, count + 1, dtype=torch.bool, device=slot.device)
    present = present.scatter(1, slot, torch.ones_like(slot, dtype=torch.bool))[:, None, :count]
    slot = slot[:, None, :].expand(n, heads, length)

    floor = torch.finfo(scores.dtype).min
    peak = scores.new_full((n, heads, count + 1), floor).scatter_reduce(2, slot, scores, "amax")
    inside = (scores - peak.gather(2, slot)).exp()
    total = scores.new_zeros(n, heads, count + 1).scatter_add(2, slot, inside)[..., :count]
    total = total.masked_fill(~present, 1)  # 0/0 would be masked out of the result, but not out of its gradient
    log_mass = (peak[..., :count] + total.log()).masked_fill(~present, floor)
    mass = log_mass.softmax(dim=-1) * present
    if strength is None:
        shares = target_shares(mass, present, special)
    else:
        shares = basket_shares(mass, present, special, strength[:, None, None])
    factor = torch.where(present, shares / total, 0)
    return inside * torch.nn.functional.pad(factor, (0, 1)).gather(2, slot)
