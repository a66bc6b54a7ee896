"""Basket geometry: the basket of each key of each text (IRF §5).

Every text has its baskets in numbered slots: slot 0 is the first token's own basket, slot 1 the
last token's, and content baskets follow from slot 2. Slots may be empty. So all shapes follow from
the batch's shape, and no value is copied back from a GPU.

Where a row does not see all keys of a basket (causal masks, windows), the basket is what it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

BOS = 0
EOS = 1
CONTENT = 2
NO_BASKET = -1


# Where torch is too old to tell, nothing is exported.
_torch_exports: Callable[[], bool] = getattr(torch.compiler, "is_exporting", lambda: False)


def is_exporting() -> bool:
    """Whether a graph is being exported; some versions of torch also say so under Dynamo."""
    return not torch.compiler.is_dynamo_compiling() and _torch_exports()


def is_traced() -> bool:
    """Whether a graph is being traced, which may not depend on lengths or values."""
    return torch.compiler.is_compiling() or is_exporting()


@dataclass(frozen=True, slots=True)
class Baskets:
    """The baskets of a batch of texts.

    Attributes:
        slot: [N, L], the slot of each key, `NO_BASKET` for padding.
        count: M, a number of slots that no text exceeds.
        content: [N], how many keys of each text lie in content baskets.
    """

    slot: Tensor
    count: int
    content: Tensor


def fixed_baskets(valid: Tensor, size: int, *, own_bos: bool, own_eos: bool) -> Baskets:
    """Runs of `size` keys over each text, without special tokens that have their own basket.

    With `own_bos` alone a text of n tokens has ceil((n - 1) / size) + 1 baskets, as in IRF. `valid`
    is [N, L] bool, False for padding on either side.
    """
    rank = valid.cumsum(dim=1) - 1
    slot = CONTENT + (rank - int(own_bos)).clamp(min=0) // size
    count, _ = runs(valid.shape[1], size)
    if own_eos:
        slot = torch.where(rank == valid.sum(dim=1, keepdim=True) - 1, EOS, slot)
    if own_bos:
        slot = torch.where(rank == 0, BOS, slot)
    slot = torch.where(valid, slot, NO_BASKET)
    return Baskets(slot, CONTENT + count, (slot >= CONTENT).sum(dim=1))


def runs(tokens: int, size: int) -> tuple[int, int]:
    """The number of runs of `size` in that many tokens, at least one, and a width none exceeds.

    In a graph that is exported the tokens are a symbol, and nothing may depend on whether there is
    one run or more.
    """
    if is_exporting():
        count: int = torch.sym_max(2, (tokens + size - 1) // size)  # type: ignore[no-untyped-call]
        return count, size
    return max(1, -(-tokens // size)), max(1, min(size, tokens))
