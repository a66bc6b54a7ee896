"""How much of a row's attention each basket receives (IRF §5, and its `original` and fixed-share variants)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fairspan.attention.baskets import BOS, EOS

Share = Literal["equal", "original"] | float


@dataclass(frozen=True, slots=True)
class SpecialShares:
    """What the first and last token's own baskets receive; None where the token has no basket of its own."""

    bos: Share | None = None
    eos: Share | None = None

    def slots(self, kind: type | str) -> list[tuple[int, float]]:
        """The slots that are "original", or, for `float`, fixed, each with its share."""
        pairs = ((BOS, self.bos), (EOS, self.eos))
        if kind is float:
            return [(slot, float(share)) for slot, share in pairs if isinstance(share, (int, float))]
        return [(slot, 0.0) for slot, share in pairs if share == kind]

    @property
    def need_mass(self) -> bool:
        """Whether the shares depend on the masses that the baskets had."""
        return bool(self.slots("original"))


def target_shares(mass: Tensor, present: Tensor, special: SpecialShares) -> Tensor:
    """The share of each basket at full strength.

    Fixed shares come first, then baskets that keep their original mass, and all others divide the rest equally.

    Args:
        mass: [..., M], what each basket had; sums to 1 over the baskets present.
        present: [..., M] bool, the baskets that hold at least one key the row sees.
    """
    fixed = torch.zeros_like(mass)
    kept = torch.zeros_like(mass)
    equal = present.expand_as(mass).clone()
    for slot, share in special.slots(float):
        fixed[..., slot] = share * present[..., slot]
        equal[..., slot] = False
    for slot, _ in special.slots("original"):
        kept[..., slot] = mass[..., slot]
        equal[..., slot] = False
    room = 1 - fixed.sum(dim=-1, keepdim=True)
    kept = kept * kept_scale(kept.sum(dim=-1, keepdim=True), room)
    reserved = fixed + kept
    sharers = equal.sum(dim=-1, keepdim=True)
    rest = 1 - reserved.sum(dim=-1, keepdim=True)
    shares = reserved + torch.where(equal, rest / sharers.clamp(min=1), 0)
    # With nobody to take the rest, the reserved baskets take it in proportion, or, reserving nothing, as they had.
    alone = reserved.sum(dim=-1, keepdim=True)
    without_sharers = torch.where(alone > 0, reserved / alone.clamp(min=torch.finfo(mass.dtype).tiny), mass)
    return torch.where(sharers > 0, shares, without_sharers)


def kept_scale(kept: Tensor, room: Tensor) -> Tensor:
    """The factor that lets original masses fit with the fixed shares; 1 unless both are in use."""
    return (room / kept.clamp(min=torch.finfo(kept.dtype).tiny)).clamp(max=1)


def basket_shares(mass: Tensor, present: Tensor, special: SpecialShares, strength: Tensor) -> Tensor:
    """The share of each basket: `strength` of the way from what it had to its target."""
    return strength * target_shares(mass, present, special) + (1 - strength) * mass
