"""The readable definition: calibrated attention by whole L×L matrices.

Every fast path is tested against this one. It is meant to be checked by eye against the formulas, costs quadratic
memory, and is never used to embed anything.
"""

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET, Baskets
from fairspan.attention.shares import SpecialShares, basket_shares


def attention_weights(query: Tensor, key: Tensor, bias: Tensor, scale: float, temperature: Tensor) -> Tensor:
    """LC §3, equation 5: softmax(Q Kᵀ · scale / temperature + bias), with -inf in `bias` where a key is hidden.

    Args:
        query, key: [N, H, L, D]. temperature: [N]. bias: broadcasts to [N, H, L, L].
    """
    scores = query @ key.transpose(-1, -2) * scale / temperature[:, None, None, None]
    return torch.softmax(scores + bias, dim=-1)


def calibrate_weights(p: Tensor, baskets: Baskets, special: SpecialShares, strength: Tensor) -> Tensor:
    """IRF §5: give every basket its share and keep the proportions inside each.

        p'_j = share(basket of j) · p_j / Σ_{k in basket of j} p_k

    Args:
        p: [N, H, R, L] attention of R query rows. strength: [N].
    """
    member = baskets.slot[:, None, :] == torch.arange(baskets.count, device=p.device)[:, None]
    member = member.to(p.dtype)[:, None]  # [N, 1, M, L]
    mass = p @ member.transpose(-1, -2)  # [N, H, R, M]
    shares = basket_shares(mass, mass > 0, special, strength[:, None, None, None])
    factor = torch.where(mass > 0, shares / mass, 0)
    padding = (baskets.slot == NO_BASKET)[:, None, None, :]
    return torch.where(padding, 0, p * (factor @ member))
