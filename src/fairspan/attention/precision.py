"""Half-precision inputs are summed in float32, as SDPA's own kernels do."""

import torch
from torch import Tensor


def accumulate(x: Tensor) -> Tensor:
    """`x` in the dtype that its products are summed in."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
