"""How much of a row's attention each basket receives (IRF §5).

Beside it the variant in which a special token keeps its own mass.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairspan.attention.baskets import BOS, CONTENT, EOS

Share = Literal["equal", "original"]


@dataclass(frozen=True, slots=True)
class SpecialShares:
    """What the first and last token's own baskets receive; None where it has no own basket."""

    bos: Share | None = None
    eos: Share | None = None

    def slots(self, share: Share) -> list[int]:
        """The slots that receive such a share."""
        return [slot for slot, kind in ((BOS, self.bos), (EOS, self.eos)) if kind == share]


def target_shares(mass: Tensor, present: Tensor, special: SpecialShares) -> Tensor:
    """The share of each basket at full strength.

    A special basket with an equal share holds 1/m of m baskets, one that keeps its original mass
    just that. Content baskets divide the rest equally. If special shares leave no rest, or the text
    has no content, they are scaled to 1.

    Args:
        mass: [..., M], what each basket had; sums to 1 over the baskets present.
        present: [..., M] bool, the baskets that hold at least one key the row sees.
    """
    equal = present / present.sum(dim=-1, keepdim=True).clamp(min=1).to(mass.dtype)
    if not special.slots("original"):
        return equal.expand_as(mass)
    shares = torch.zeros_like(mass)
    for slot in special.slots("equal"):
        shares[..., slot] = equal[..., slot]
    for slot in special.slots("original"):
        shares[..., slot] = mass[..., slot]
    sharing = present & (torch.arange(mass.shape[-1], device=mass.device) >= CONTENT)
    rest = (1 - shares.sum(dim=-1, keepdim=True)).clamp(min=0)
    shares = shares + sharing * rest / sharing.sum(dim=-1, keepdim=True).clamp(min=1)
    total = shares.sum(dim=-1, keepdim=True)
    # A row in which no basket has a share is not changed.
    return torch.where(total > 0, shares / total.clamp(min=torch.finfo(mass.dtype).tiny), mass)


def basket_shares(
    mass: Tensor, present: Tensor, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """[..., M]: `strength` · target + (1 − strength) · mass; the target itself for None."""
    target = target_shares(mass, present, special)
    return target if strength is None else strength * target + (1 - strength) * mass
