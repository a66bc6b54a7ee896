"""Whether a call can take the GPU kernels."""

from types import ModuleType

import torch
from torch import Tensor

kernels: ModuleType | None
try:
    from fairspan.attention import kernels
except ImportError:  # Triton comes with GPU builds of torch only
    kernels = None


def gpu_kernels(query: Tensor, mask: Tensor | None, position_bias: Tensor | None) -> ModuleType | None:
    """The kernels, or None where plain torch has to do: no GPU, no Triton, gradients, additive masks or biases."""
    if not query.is_cuda or query.requires_grad or position_bias is not None:
        return None
    if query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return None
    if mask is not None and mask.dtype != torch.bool:
        return None
    return kernels
