"""`Scorer`: inner products of queries with an index, roughly in float32 by blocks and exactly by pairs.

A document's score is the float64 inner product of two float32 vectors, added up in one fixed order: the same two
vectors have the same score wherever they are. How far a float32 product can be off is bounded (Higham 2002, Accuracy
and Stability of Numerical Algorithms, section 3.1).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fairspan.errors import TaskError

# Neighbouring documents of which at first only the best is looked at.
GROUP = 64
# Queries are scaled to a length just below 2^-16, so that no product with a float32 vector overflows.
EXPONENT = -16
# Half the distance from 1 to the next float32, and the smallest one that no hardware takes for 0.
ROUNDING, SMALLEST = 2.0**-24, 2.0**-126


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Neighbouring documents numbers[D] with vectors[V, d], of which the longest has the length `longest`.

    `runs` says how many documents have how many vectors; a run has all first vectors, then all second ones, ….
    """

    vectors: Tensor
    numbers: Tensor
    runs: list[tuple[int, int]]
    longest: float


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Vectors [V, d] by document: those of document i are starts[i] to starts[i + 1]."""

    vectors: np.ndarray
    starts: np.ndarray

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def borders(self, size: int) -> list[int]:
        """Cut the documents into blocks of at most `size` vectors, or of one document with more."""
        found = [0]
        while found[-1] < self.documents:
            reach = np.searchsorted(self.starts, self.starts[found[-1]] + size, side="right") - 1
            found.append(max(int(reach), found[-1] + 1))
        return found

    def block(self, first: int, last: int, device: torch.device) -> Block:
        """The documents from `first` to before `last`."""
        start, stop, documents = int(self.starts[first]), int(self.starts[last]), last - first
        vectors, order, runs = self.vectors[start:stop], np.arange(documents), [(documents, 1)]
        if stop - start > documents:
            sizes = np.diff(self.starts[first : last + 1])
            order = np.argsort(sizes, kind="stable")
            runs = [(int(n), int(size)) for size, n in zip(*np.unique(sizes, return_counts=True), strict=True)]
            begins = np.split(self.starts[first:last][order], np.cumsum([n for n, _ in runs])[:-1])
            rows = [(part + np.arange(size)[:, None]).ravel() for part, (_, size) in zip(begins, runs, strict=True)]
            vectors = self.vectors[np.concatenate(rows)]
        # Torch takes no map that may only be read, and none with gaps.
        usable = vectors.flags.c_contiguous and vectors.flags.writeable
        tensor = torch.from_numpy(vectors if usable else np.array(vectors, order="C"))
        longest = float(torch.linalg.vector_norm(tensor, dim=1, dtype=torch.float64).max())
        if not math.isfinite(longest):
            bad = start + int(np.flatnonzero(~np.isfinite(self.vectors[start:stop]).all(1))[0])
            raise TaskError(f"vector {bad} holds NaN or infinity: embed its text again, or leave it out.")
        return Block(tensor.to(device), torch.from_numpy(order + first).to(device), runs, longest)


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Scores queries against an index: roughly in float32 by blocks, exactly by pairs.

    Rough scores are those of queries scaled by powers of two, `scales` [Q], to `lengths` [Q] between 2^-17 and 2^-16.
    """

    index: Index
    queries: np.ndarray
    scales: np.ndarray
    lengths: np.ndarray
    device: torch.device
    memory: int

    def put(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def blocks(self, rows: np.ndarray) -> Iterator[tuple[Block, Tensor]]:
        """Every block with its rough scores [Q, D], which the next block overwrites."""
        scaled = self.put((self.queries[rows] * self.scales[rows, None]).astype(np.float32))
        most = max(1, self.memory // 4 // max(len(rows), self.index.dimension))
        borders = self.index.borders(most // GROUP * GROUP or most)
        widest = int(np.diff(self.index.starts[borders]).max())
        buffer = torch.empty(len(rows) * widest, dtype=torch.float32, device=self.device)
        for first, last in pairwise(borders):
            block = self.index.block(first, last, self.device)
            out = buffer[: len(rows) * len(block.vectors)].view(len(rows), -1)
            yield block, _by_document(torch.mm(scaled, block.vectors.T, out=out), block.runs)

    def error(self, rows: np.ndarray, longest: float) -> np.ndarray:
        """By how much rough scores [Q] with vectors up to some length may be off.

        A sum of d products has at most d float32 roundings behind each; four more cover the float64 roundings of
        exact scores and of lengths. The second part is what numbers too small for float32 can add up to.
        """
        d, lengths = self.index.dimension, self.lengths[rows]
        bound: np.ndarray = math.expm1((d + 4) * ROUNDING) * longest * lengths
        bound += 2 * d * SMALLEST * (lengths + longest + 1)
        return bound

    def between(
        self, block: Block, scores: Tensor, rows: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and documents with low[Q] ≤ score ≤ high[Q], of some rows of scores[Q, D], a few rows at a time."""
        step = max(1, self.memory // (64 * len(block.vectors)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            part = scores[self.put(some)]
            inside = (part >= self.put(low[some])[:, None]) & (part <= self.put(high[some])[:, None])
            where, columns = inside.nonzero(as_tuple=True)
            yield some[where.cpu().numpy()], block.numbers[columns].cpu().numpy()

    def exact(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The scores [P] of documents numbers[P] for queries rows[P]."""
        begins, sizes = self.index.starts[numbers], self.index.starts[numbers + 1] - self.index.starts[numbers]
        step = max(1, self.memory // (16 * self.index.dimension))
        ends = np.cumsum(sizes)
        cuts = np.searchsorted(ends, np.arange(step, ends[-1] if len(ends) else 0, step), side="right")
        found = np.empty(len(rows))
        for first, last in pairwise(np.unique([0, *cuts, len(rows)])):
            size = sizes[first:last]
            before = np.cumsum(size) - size
            vectors = np.repeat(begins[first:last] - before, size) + np.arange(size.sum())
            scores = _inner(self.queries[np.repeat(rows[first:last], size)], self.index.vectors[vectors])
            found[first:last] = np.maximum.reduceat(scores, before)
        return found


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products [P] of the rows of a[P, d] and b[P, d]: right halves are added to left ones until one is left.

    Float64 holds products of float32 numbers without rounding, so that this order alone decides the last digit.
    """
    terms: np.ndarray = np.multiply(a, b, dtype=np.float64)
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0]


def _by_document(scores: Tensor, runs: list[tuple[int, int]]) -> Tensor:
    """The best score of each document [Q, D] from those of its vectors [Q, V]."""
    if all(size == 1 for _, size in runs):
        return scores
    parts = torch.split(scores, [n * size for n, size in runs], dim=1)
    return torch.cat([part.view(-1, size, n).amax(1) for part, (n, size) in zip(parts, runs, strict=True)], 1)


def make_scorer(
    queries: np.ndarray,
    vectors: np.ndarray,
    owners: np.ndarray | None,
    device: str | torch.device | None,
    memory: int,
) -> Scorer:
    for name, matrix in (("queries", queries), ("vectors", vectors)):
        if (
            not isinstance(matrix, np.ndarray)
            or matrix.ndim != 2
            or not matrix.shape[1]
            or matrix.dtype != np.float32
        ):
            raise TaskError(
                f"{name} must be a float32 array [rows, dimensions], got {described(matrix)}: convert it."
            )
    if not len(vectors):
        raise TaskError("there are no vectors to search: give at least one.")
    if queries.shape[1] != vectors.shape[1]:
        raise TaskError(
            f"queries have {queries.shape[1]} dimensions and vectors {vectors.shape[1]}: embed both with one model."
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
    bad = np.flatnonzero(~np.isfinite(lengths))
    if len(bad):
        raise TaskError(f"query {bad[0]} holds NaN or infinity: embed its text again, or leave it out.")
    scales = np.ldexp(1.0, EXPONENT - np.frexp(lengths)[1])
    starts = np.arange(len(vectors) + 1) if owners is None else _starts(np.asarray(owners), len(vectors))
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return Scorer(Index(vectors, starts), queries, scales, lengths * scales, chosen, memory)


def _starts(owners: np.ndarray, vectors: int) -> np.ndarray:
    """Where each document's vectors start, and the last one's end."""
    if owners.shape != (vectors,) or owners.dtype.kind not in "iu":
        raise TaskError(f"owners must be one whole number for each of {vectors} vectors, got {described(owners)}.")
    steps = np.diff(owners.astype(np.int64), prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > np.minimum(np.arange(vectors), 1)))
    if len(wrong):
        raise TaskError(
            f"owners must count 0, 0, 1, … up without gaps, and number {owners[wrong[0]]} of vector {wrong[0]} does "
            "not: sort the vectors by document and count the documents from 0."
        )
    return np.concatenate([[0], np.flatnonzero(steps), [vectors]])


def described(given: object) -> str:
    return f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
