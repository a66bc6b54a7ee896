"""What the kernels share: the form of their arguments, and launching one again without asking Triton which it is.

Triton looks at every argument at every launch to find the kernel that was compiled for its kind. For a short text
that takes longer than the kernel. Here a launch with the same numbers, dtypes and alignments goes to the kernel that
the first one found.
"""

import os
from typing import Any

import torch
from torch import Tensor

# The kernels exponentiate in base 2.
LOG2_E = 1.4426950408889634
_MOST = 4096
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Launcher:
    """A Triton kernel whose arguments are tensors, then numbers, then constants.

    Its programs are numbered in one dimension: the others end at 65,535, fewer than a large batch has heads.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._found: dict[Any, Any] = {}

    def __call__(
        self,
        programs: int,
        tensors: tuple[Tensor, ...],
        numbers: tuple[Any, ...],
        constants: tuple[Any, ...],
        *,
        num_warps: int,
        num_stages: int = 3,
    ) -> None:
        options = {"num_warps": num_warps, "num_stages": num_stages}
        if torch.compiler.is_compiling() or _INTERPRETED:
            self._kernel[(programs,)](*tensors, *numbers, *constants, **options)
            return
        kinds = [(x.dtype, x.data_ptr() % 16 == 0) for x in tensors]
        key = (tensors[0].device.index, numbers, constants, num_warps, num_stages, *kinds)
        found = self._found.get(key)
        if found is not None:
            found[(programs, 1, 1)](*tensors, *numbers, *constants)
            return
        if len(self._found) >= _MOST:
            self._found.clear()
        self._found[key] = self._kernel[(programs,)](*tensors, *numbers, *constants, **options)


def block_of(size: int, *, most: int | None = None) -> int:
    """The next power of 2, at least 16, the smallest side of a matrix product.

    Triton's own function is made for kernels and takes longer than all of the rest.
    """
    block = max(16, 1 << (size - 1).bit_length()) if size > 0 else 16
    return block if most is None else min(most, block)


def dense_heads(x: Tensor) -> Tensor:
    """The kernels step over positions and heads by their strides, but read a head's numbers side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()


def mask_strides(mask: Tensor | None) -> tuple[int, int, int]:
    if mask is None:
        return 0, 0, 0
    n, _, rows, _ = mask.shape
    return mask.stride(0) if n > 1 else 0, mask.stride(2) if rows > 1 else 0, mask.stride(3)
