"""How much of a row's attention each basket receives (IRF §5, and the variant that keeps a token's own mass)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairspan.attention.baskets import BOS, CONTENT, EOS

Share = Literal["equal", "original"]


@dataclass(frozen=True, slots=True)
class SpecialShares:
    """What the first and last token's own baskets receive; None where the token has no basket of its own."""

    bos: Share | None = None
    eos: Share | None = None

    def slots(self, share: Share) -> list[int]:
        """The slots that receive such a share."""
        return [slot for slot, own in ((BOS, self.bos), (EOS, self.eos)) if own == share]


def target_shares(mass: Tensor, present: Tensor, special: SpecialShares) -> Tensor:
    """The share of each basket at full strength.

    A special basket with an equal share holds 1/m of m baskets, one that keeps its original mass this, as far as it
    fits beside the other. Content baskets divide the rest equally.

    Args:
        mass: [..., M], what each basket had; sums to 1 over the baskets present.
        present: [..., M] bool, the baskets that hold at least one key the row sees.
    """
    one = present / present.sum(dim=-1, keepdim=True).clamp(min=1).to(mass.dtype)
    if not special.slots("original"):
        return one.expand_as(mass)
    tiny = torch.finfo(mass.dtype).tiny
    equal, kept = torch.zeros_like(mass), torch.zeros_like(mass)
    for slot in special.slots("equal"):
        equal[..., slot] = one[..., slot]
    for slot in special.slots("original"):
        kept[..., slot] = mass[..., slot]
    room = 1 - equal.sum(dim=-1, keepdim=True)
    reserved = equal + kept * (room / kept.sum(dim=-1, keepdim=True).clamp(min=tiny)).clamp(max=1)
    total = reserved.sum(dim=-1, keepdim=True)
    sharing = present & (torch.arange(mass.shape[-1], device=mass.device) >= CONTENT)
    sharers = sharing.sum(dim=-1, keepdim=True)
    shares = reserved + sharing * (1 - total) / sharers.clamp(min=1)
    # With nobody to take the rest, the special baskets take it in proportion, or, reserving nothing, as they had.
    alone = torch.where(total > 0, reserved / total.clamp(min=tiny), mass)
    return torch.where(sharers > 0, shares, alone)


def basket_shares(mass: Tensor, present: Tensor, special: SpecialShares, strength: Tensor | None) -> Tensor:
    """The share of each basket: `strength` of the way from what it had to its target, all of it for None."""
    target = target_shares(mass, present, special)
    return target if strength is None else strength * target + (1 - strength) * mass
