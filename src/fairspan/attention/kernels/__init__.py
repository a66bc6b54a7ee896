"""GPU kernels (Triton) of attention in tiles and of even pooling."""

from fairspan.attention.kernels.even_vectors import even_vectors_kernel
from fairspan.attention.kernels.tile_rows import tile_rows_kernel

__all__ = ["even_vectors_kernel", "tile_rows_kernel"]
