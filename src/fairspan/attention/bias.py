"""What models add to attention scores before the softmax: masks and position biases."""

import torch
from torch import Tensor


def additive(
    mask: Tensor | None, position_bias: Tensor | None, dtype: torch.dtype
) -> Tensor | None:
    """Mask and position bias as one tensor to add to the scores, -inf where a key is hidden."""
    if mask is None:
        return position_bias
    shown = torch.zeros((), dtype=dtype, device=mask.device)
    if position_bias is not None:
        shown = position_bias
    if mask.dtype == torch.bool:
        return torch.where(mask, shown, -torch.inf)
    return (mask + shown).masked_fill(hidden(mask), -torch.inf)


def modulo(x: Tensor, n: int) -> Tensor:
    """x % n of whole numbers, in a form that can be exported if n is a symbol."""
    return x - x // n * n


def hidden(mask: Tensor) -> Tensor:
    """Where a bool mask is False, or an additive one -inf or the lowest finite number."""
    return ~mask if mask.dtype == torch.bool else mask <= torch.finfo(mask.dtype).min
