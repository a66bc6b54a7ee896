"""The arguments that both kernels share, in the form that they take them."""

from torch import Tensor

from fairspan.attention.shares import SpecialShares

# What a special token's own basket receives. The kernels compare with these numbers.
NONE, EQUAL, ORIGINAL, FIXED, RESERVED_EQUAL = 0, 1, 2, 3, 4

# The kernels exponentiate in base 2.
LOG2_E = 1.4426950408889634


def block_of(size: int, *, most: int | None = None) -> int:
    """The next power of 2, at least 16, the smallest side of a matrix product.

    Triton's own function is made for kernels and takes longer than all of this file.
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


def kinds_of(special: SpecialShares) -> tuple[int, int, float, float]:
    """What bos and eos receive, and their fixed shares."""
    kinds, shares = [EQUAL, EQUAL], [0.0, 0.0]
    for slot, share in enumerate((special.bos, special.eos)):
        if share is None:
            kinds[slot] = NONE
        if slot in special.original:
            kinds[slot] = ORIGINAL
        if slot in special.reserved_equal:
            kinds[slot] = RESERVED_EQUAL
        if slot in special.fixed:
            kinds[slot], shares[slot] = FIXED, special.fixed[slot]
    return kinds[0], kinds[1], shares[0], shares[1]
