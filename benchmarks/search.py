"""Exact search against the float32 matrix product of the same matrices, which no search can do without.

    python -m benchmarks.search [--vectors 1000000] [--queries 1000] [--dim 384] [--repeat 5]

Both run in turn; the figures are medians over rounds. The vectors are of length 1, and one in 1,000 is a copy of
another.
"""

from __future__ import annotations

import argparse
import resource
import sys

import numpy as np
import torch

from benchmarks.measure import time_side_by_side
from fairspan.retrieval.search import MEMORY, search

K = 10


def make_vectors(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    made = rng.standard_normal((rows, dim), dtype=np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def multiply(queries: np.ndarray, vectors: np.ndarray) -> None:
    """Every float32 product, block by block, kept nowhere."""
    block = max(1, MEMORY // 4 // max(queries.shape))
    for start in range(0, len(vectors), block):
        torch.mm(torch.from_numpy(queries), torch.from_numpy(vectors[start : start + block]).T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    vectors, queries = (make_vectors(rng, rows, given.dim) for rows in (given.vectors, given.queries))
    copies = rng.integers(0, given.vectors, (2, given.vectors // 1000))
    vectors[copies[0]] = vectors[copies[1]]
    calls = {"product": lambda: multiply(queries, vectors), "search": lambda: search(queries, vectors, K)}
    timings = time_side_by_side(calls, "product", given.repeat)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    print("| vectors × queries × dim | product, s | search, s | share of speed | peak, GiB |\n|---|---|---|---|---|")
    print(
        f"| {given.vectors:,} × {given.queries:,} × {given.dim} | {timings['product'].median:.2f} "
        f"| {timings['search'].median:.2f} | {1 / timings['search'].ratio:.2f} | {peak:.2f} |"
    )


if __name__ == "__main__":
    main()
