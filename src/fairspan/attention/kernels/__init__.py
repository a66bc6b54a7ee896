"""The GPU kernel (Triton) of attention in tiles: two launches where torch needs many."""

from fairspan.attention.kernels.tile_rows import tile_rows_kernel

__all__ = ["tile_rows_kernel"]
