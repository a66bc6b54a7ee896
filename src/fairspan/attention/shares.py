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

    @property
    def fixed(self) -> dict[int, float]:
        """The slots with a fixed share."""
        return {slot: float(share) for slot, share in self._pairs if isinstance(share, (int, float))}

    @property
    def original(self) -> tuple[int, ...]:
        """The slots that keep their mass."""
        return tuple(slot for slot, share in self._pairs if share == "original")

    @property
    def reserved_equal(self) -> tuple[int, ...]:
        """The slots that hold 1/m while content baskets do not, since the other special token holds another share."""
        return tuple(slot for slot, share in self._pairs if share == "equal") if self.fixed or self.original else ()

    @property
    def _pairs(self) -> tuple[tuple[int, Share | None], ...]:
        return (BOS, self.bos), (EOS, self.eos)


def target_shares(mass: Tensor, present: Tensor, special: SpecialShares) -> Tensor:
    """The share of each basket at full strength.

    Fixed shares come first, then special baskets with an equal share, which is 1/m of m baskets, then those that keep
    their original mass, each as far as it fits. Content baskets divide the rest equally.

    Args:
        mass: [..., M], what each basket had; sums to 1 over the baskets present.
        present: [..., M] bool, the baskets that hold at least one key the row sees.
    """
    reserved = torch.zeros_like(mass)
    kept = torch.zeros_like(mass)
    equal = present.expand_as(mass).clone()
    for slot, share in special.fixed.items():
        reserved[..., slot] = share * present[..., slot].to(mass.dtype)
        equal[..., slot] = False
    for slot in special.reserved_equal:
        reserved[..., slot] = one_of(present.sum(dim=-1), 1 - reserved.sum(dim=-1)) * present[..., slot]
        equal[..., slot] = False
    for slot in special.original:
        kept[..., slot] = mass[..., slot]
        equal[..., slot] = False
    room = 1 - reserved.sum(dim=-1, keepdim=True)
    reserved = reserved + kept * kept_scale(kept.sum(dim=-1, keepdim=True), room)
    sharers = equal.sum(dim=-1, keepdim=True)
    rest = 1 - reserved.sum(dim=-1, keepdim=True)
    shares = reserved + torch.where(equal, rest / sharers.clamp(min=1), 0)
    # With nobody to take the rest, the reserved baskets take it in proportion, or, reserving nothing, as they had.
    alone = reserved.sum(dim=-1, keepdim=True)
    without_sharers = torch.where(alone > 0, reserved / alone.clamp(min=torch.finfo(mass.dtype).tiny), mass)
    return torch.where(sharers > 0, shares, without_sharers)


def one_of(baskets: Tensor, room: Tensor) -> Tensor:
    """1/m, or what a fixed share left of it."""
    return torch.minimum(1 / baskets.to(room.dtype).clamp(min=1), room)


def kept_scale(kept: Tensor, room: Tensor) -> Tensor:
    """The factor that lets original masses fit with the shares before them; 1 where they do."""
    return (room / kept.clamp(min=torch.finfo(kept.dtype).tiny)).clamp(max=1)


def basket_shares(mass: Tensor, present: Tensor, special: SpecialShares, strength: Tensor) -> Tensor:
    """The share of each basket: `strength` of the way from what it had to its target."""
    return strength * target_shares(mass, present, special) + (1 - strength) * mass
