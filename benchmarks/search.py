"""Exact search against nothing but the matrix product that it cannot do without.

    python -m benchmarks.search [--vectors 1000000] [--queries 1000] [--dim 384] [--repeat 5] [--record]

Both sides multiply every query with every vector in float32, in the same blocks, into a buffer that is used again.
Search does all the rest as well: looking for NaN, lengths, candidates, scores in float64 and proving that nothing is
missing. They run in turn; the figures are medians over rounds. Before anything is timed, the hits of some queries are
compared with all scores in float64, sorted.

The vectors are of length 1 and resemble embeddings: a direction common to all, one of 1,000 topics, and as much
noise again, weaker from dimension to dimension. Queries are new vectors of the same topics. One vector in 1,000 is a
copy of another.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import resource
import sys

import numpy as np
import torch

from benchmarks.measure import Timing, time_side_by_side
from fairspan.retrieval.search import MEMORY, Hits, search

K = 10
TOPICS = 1000
CHECKED = 8
# Rows made or checked at once.
AT_ONCE = 50_000
HEAD = """| vectors × queries × dim | product, s | search, s | share of speed | lowest–highest | peak, GiB |
|---|---|---|---|---|---|"""


def make_vectors(rng: np.random.Generator, rows: int, topics: np.ndarray) -> np.ndarray:
    """Vectors [rows, d] of length 1 around topics[T, d]."""
    dim = topics.shape[1]
    spectrum = np.arange(1, dim + 1, dtype=np.float32) ** -0.5
    spectrum /= np.linalg.norm(spectrum)
    made = np.empty((rows, dim), np.float32)
    for start in range(0, rows, AT_ONCE):
        part = made[start : start + AT_ONCE]
        rng.standard_normal(dtype=np.float32, out=part)
        part *= spectrum
        part += topics[rng.integers(0, len(topics), len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return made


def make_topics(rng: np.random.Generator, dim: int) -> np.ndarray:
    common = rng.standard_normal((1, dim), dtype=np.float32)
    topics = common + rng.standard_normal((TOPICS, dim), dtype=np.float32)
    return topics / np.linalg.norm(topics, axis=1, keepdims=True)


def multiply(queries: np.ndarray, vectors: np.ndarray) -> None:
    """Every float32 product, block by block, kept nowhere."""
    block = max(1, MEMORY // 4 // max(queries.shape))
    buffer = torch.empty(len(queries) * block, dtype=torch.float32)
    for start in range(0, len(vectors), block):
        part = torch.from_numpy(vectors[start : start + block])
        torch.mm(torch.from_numpy(queries), part.T, out=buffer[: len(queries) * len(part)].view(len(queries), -1))


def check(hits: Hits, queries: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> None:
    """Compare the hits of some queries with all their scores."""
    asked = queries[rows].astype(np.float64)
    scores = np.concatenate(
        [asked @ vectors[start : start + AT_ONCE].astype(np.float64).T for start in range(0, len(vectors), AT_ONCE)],
        1,
    )
    found = np.take_along_axis(scores, hits.numbers[rows], 1)
    # A whole product adds up in an order of its own: copies of a vector may differ in the last digit.
    error = float(np.abs(found - hits.scores[rows]).max())
    best = -np.sort(-np.partition(scores, -K)[:, -K:])
    missed = float(np.abs(best - hits.scores[rows]).max())
    if max(error, missed) > 1e-13 or any(len(set(row)) < K for row in hits.numbers[rows].tolist()):
        raise SystemExit(f"search is wrong: scores differ by {error:.1e}, from the best by {missed:.1e}")
    print(
        f"{len(rows)} queries against all scores in float64: largest difference {max(error, missed):.1e}", flush=True
    )


def peak_gib() -> float:
    """The most memory that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**30 if sys.platform == "darwin" else 2**20)


def row(shape: str, timings: dict[str, Timing], peak: float) -> str:
    shares = sorted(1 / ratio for ratio in timings["search"].ratios)
    return (
        f"| {shape} | {timings['product'].median:.2f} | {timings['search'].median:.2f} "
        f"| {1 / timings['search'].ratio:.3f} | {shares[0]:.2f}–{shares[-1]:.2f} | {peak:.2f} |"
    )


def record(line: str) -> None:
    """Append the table to benchmarks/RESULTS.md."""
    # Loading these takes memory that the peak above is not to hold.
    from benchmarks.cpu import RESULTS, _cpu, commit

    described = (
        f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, commit {commit()}, `python -m benchmarks.search`, "
        f"{_cpu()} ({platform.machine()}), {torch.get_num_threads()} threads, float32, torch {torch.__version__}. "
        f"The {K} best documents, exactly; share of speed is that of the bare float32 product of the same matrices."
    )
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"\n## Search\n\n{described}\n\n{HEAD}\n{line}\n")
    print(f"appended to {RESULTS}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="append the table to benchmarks/RESULTS.md")
    given = parser.parse_args()

    rng = np.random.default_rng(0)
    topics = make_topics(rng, given.dim)
    vectors, queries = make_vectors(rng, given.vectors, topics), make_vectors(rng, given.queries, topics)
    copies = rng.integers(0, given.vectors, (2, given.vectors // 1000))
    vectors[copies[0]] = vectors[copies[1]]
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)

    check(
        search(queries, vectors, K, device="cpu"), queries, vectors, rng.choice(given.queries, CHECKED, replace=False)
    )
    calls = {
        "product": lambda: multiply(queries, vectors),
        "search": lambda: search(queries, vectors, K, device="cpu"),
    }
    timings = time_side_by_side(calls, "product", given.repeat)
    line = row(f"{given.vectors:,} × {given.queries:,} × {given.dim}", timings, peak_gib())
    print(f"{HEAD}\n{line}\ntargets: a share of at least 0.70, a peak below 4 GiB", flush=True)
    if given.record:
        record(line)


if __name__ == "__main__":
    main()
