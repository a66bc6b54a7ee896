"""The form of a kernel's arguments.

Programs are numbered in one dimension: the others end at 65,535, and a batch may have more heads.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from fairspan.attention.plan import LayerInputs

# The kernels exponentiate in base 2.
LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """How much of the attention matrix one program of a kernel holds at a time."""

    rows: int
    keys: int
    warps: int
    stages: int


def block_of(size: int, *, most: int | None = None) -> int:
    """The next power of 2, at least 16, the smallest side of a matrix product."""
    block = max(16, 1 << (size - 1).bit_length()) if size > 0 else 16
    return block if most is None else min(most, block)


def dense_heads(inputs: LayerInputs) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value with the numbers of a head side by side; other strides are arguments."""

    def dense(x: Tensor) -> Tensor:
        return x if x.stride(-1) == 1 else x.contiguous()

    return dense(inputs.query), dense(inputs.key), dense(inputs.value)


def precision_of(dtype: torch.dtype) -> str:
    """How products of matrices are computed.

    Float32 on tensor cores in three products of parts, as exact as torch's own attention.
    """
    if dtype != torch.float32:
        return "tf32"
    return "tf32x3" if torch.version.hip is None else "ieee"


def device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Kernels launched in this block run on the tensor's device, whichever is the current one."""
    # A compiled graph launches on the device of its tensors by itself.
    return nullcontext() if torch.compiler.is_compiling() else torch.cuda.device_of(tensor)
