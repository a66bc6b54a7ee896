"""GPU kernels (Triton): one or two launches where the portable fast paths need many."""

from fairspan.attention.kernels.all_rows import all_rows_kernel
from fairspan.attention.kernels.even_vectors import even_vectors_kernel
from fairspan.attention.kernels.pooled_row import pooled_row_kernel
from fairspan.attention.kernels.tile_rows import tile_rows_kernel

__all__ = ["all_rows_kernel", "even_vectors_kernel", "pooled_row_kernel", "tile_rows_kernel"]
