"""What models add to attention scores before the softmax: masks and position biases."""

import torch
from torch import Tensor


def hides_only_padding(mask: Tensor | None) -> bool:
    """Whether a mask is one row with stride 0 along rows, as `interface.mask` hides padding."""
    return mask is not None and mask.stride(2) == 0


def rows_of(x: Tensor | None, block: slice) -> Tensor | None:
    """A block of query rows of a mask or bias [N or 1, H or 1, L or 1, L]."""
    return x if x is None or x.shape[2] == 1 else x[:, :, block]


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
