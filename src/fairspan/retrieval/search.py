"""Exact search by inner product: the best documents for each query, and the ranks of given ones.

A document's score is the float64 inner product of two float32 vectors, added up in one fixed order: the same two
vectors have the same score wherever they lie. Documents are ordered by score, ties by their number. Float32 products
find the candidates; how far these can be off is bounded (Higham 2002, Accuracy and Stability of Numerical Algorithms,
section 3.1), and what the bound leaves open is settled by the scores themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairspan.errors import TaskError

MEMORY = 64 * 2**20
"""Bytes of one block of scores, of which a few are held at once."""

# Queries scored at once: enough for a matrix product at full speed.
BATCH = 1024
# Candidates beyond the k asked for, so that the bound almost always decides.
SLACK = 16
# Neighbouring documents of which at first only the best is looked at.
GROUP = 64
# Queries are scaled to a length just below 2^-16, so that no product with a float32 vector overflows.
EXPONENT = -16
# Half the distance from 1 to the next float32, and the smallest one that no hardware takes for 0.
ROUNDING, SMALLEST = 2.0**-24, 2.0**-126
IMPRECISE = (
    "this device multiplies float32 numbers less exactly than float32 allows: unset DNNL_DEFAULT_FPMATH_MODE, or "
    'search with device="cpu".'
)


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """The documents found for each query, best first.

    Attributes:
        numbers: which documents, [Q, k] int64.
        scores: their scores, [Q, k] float64.
    """

    numbers: np.ndarray
    scores: np.ndarray


def search(
    queries: np.ndarray,
    vectors: np.ndarray,
    k: int,
    *,
    owners: np.ndarray | None = None,
    device: str | torch.device | None = None,
    memory: int = MEMORY,
) -> Hits:
    """The k best documents for each of queries[Q, d] among vectors[V, d]; all of them where there are fewer.

    With owners[V], which count 0, 0, 1, … up, a document has several vectors, and the score of its best. Vectors may
    be a memory map. The device is a GPU where there is one; neither it nor `memory` changes what is found.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise TaskError(f"k must be a whole number of at least 1, got {k!r}.")
    scorer = _scorer(queries, vectors, owners, device, memory)
    k = min(int(k), scorer.index.documents)
    hits = Hits(np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float64))
    with _whole_float32():
        for part in _batches(len(queries), memory, k + SLACK):
            hits.numbers[part], hits.scores[part] = _best(scorer, np.arange(part.start, part.stop), k)
    return hits


def ranks(
    queries: np.ndarray,
    vectors: np.ndarray,
    pairs: np.ndarray,
    *,
    owners: np.ndarray | None = None,
    device: str | torch.device | None = None,
    memory: int = MEMORY,
) -> np.ndarray:
    """The ranks [P], from 1, of documents in the whole order: pairs[P, 2] name a query and a document."""
    scorer = _scorer(queries, vectors, owners, device, memory)
    pairs = _require_pairs(np.asarray(pairs), len(queries), scorer.index.documents)
    order = np.argsort(pairs[:, 0], kind="stable")
    found = np.empty(len(pairs), np.int64)
    with _whole_float32():
        for part in _batches(len(pairs), memory):
            rows, numbers = pairs[order[part]].T
            found[order[part]] = 1 + _count_better(scorer, rows, numbers)
    return found


def _best(scorer: _Scorer, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and scores [Q, k] of the best documents for some queries."""
    count = min(k + SLACK, scorer.index.documents)
    rough, numbers, error = _candidates(scorer, rows, count)
    scores = scorer.exact(np.repeat(rows, count), numbers.ravel()).reshape(numbers.shape)
    scaled = scores * scorer.scales[rows, None]
    if (np.abs(scaled - rough) > error[:, None]).any():
        raise TaskError(IMPRECISE)
    order = np.lexsort((numbers, -scores))[:, :k]
    numbers, scores = np.take_along_axis(numbers, order, 1), np.take_along_axis(scores, order, 1)
    if count < scorer.index.documents:
        last = np.take_along_axis(scaled, order[:, -1:], 1)[:, 0]
        open_ = np.flatnonzero(last <= rough.min(1) + error)
        for part in _batches(len(open_), scorer.memory, k):
            some = open_[part]
            numbers[some], scores[some] = _settle(scorer, rows[some], last[some], k)
    return numbers, scores


def _candidates(scorer: _Scorer, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rough scores and numbers [Q, count] of documents, and by how much any rough score may be off [Q].

    No document left out has a higher rough score than the lowest of these.
    """
    best = torch.full((len(rows), count), -torch.inf, dtype=torch.float32, device=scorer.device)
    numbers = torch.zeros((len(rows), count), dtype=torch.int64, device=scorer.device)
    longest = 0.0
    for block, scores in scorer.blocks(rows):
        active, values, columns = _top(scores, best[:, -1], count)
        best[active], places = torch.cat([best[active], values], 1).topk(count)
        numbers[active] = torch.cat([numbers[active], block.numbers[columns]], 1).gather(1, places)
        longest = max(longest, block.longest)
    return best.cpu().numpy().astype(np.float64), numbers.cpu().numpy(), scorer.error(rows, longest)


def _top(scores: Tensor, floor: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows [A] of scores[Q, D] with anything above floor[Q], and their best values and columns [A, count].

    The `count` best lie in the `count` groups with the highest maxima, or behind the last whole group.
    """
    groups = scores.shape[1] // GROUP
    if groups <= count:
        active = (scores.amax(1) > floor).nonzero()[:, 0]
        values, columns = scores[active].topk(min(count, scores.shape[1]))
        return active, values, columns
    grouped, rest = scores[:, : groups * GROUP].view(-1, groups, GROUP), scores[:, groups * GROUP :]
    maxima = grouped.amax(2)
    above = maxima.amax(1) > floor
    if rest.shape[1]:
        above |= rest.amax(1) > floor
    active = above.nonzero()[:, 0]
    chosen = maxima[active].topk(count, sorted=False).indices
    values, places = torch.cat([grouped[active[:, None], chosen].flatten(1), rest[active]], 1).topk(count)
    chosen = torch.cat([chosen, torch.full_like(chosen[:, :1], groups)], 1)
    return active, values, chosen.gather(1, places // GROUP) * GROUP + places % GROUP


def _settle(scorer: _Scorer, rows: np.ndarray, least: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and scores [Q, k] of the best, from the scores of all documents that may reach least[Q], scaled."""
    places, numbers, scores = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    for block, rough in scorer.blocks(rows):
        low = _below(least - scorer.error(rows, block.longest))
        near = np.flatnonzero(rough.amax(1).cpu().numpy() >= low)
        for where, documents in scorer.between(block, rough, near, low, np.full_like(low, np.inf)):
            places, numbers = np.concatenate([places, where]), np.concatenate([numbers, documents])
            scores = np.concatenate([scores, scorer.exact(rows[where], documents)])
            order = np.lexsort((numbers, -scores, places))
            order = order[np.arange(len(order)) - np.searchsorted(places[order], places[order]) < k]
            places, numbers, scores = places[order], numbers[order], scores[order]
    return numbers.reshape(-1, k), scores.reshape(-1, k)


def _count_better(scorer: _Scorer, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """How many documents come before numbers[P] for queries rows[P]."""
    exact = scorer.exact(rows, numbers)
    wanted = exact * scorer.scales[rows]
    different, inverse = np.unique(rows, return_inverse=True)
    better, met = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for block, scores in scorer.blocks(different):
        rough = scores if len(different) == len(rows) else scores[scorer.put(inverse)]
        error = scorer.error(rows, block.longest)
        low, high = _below(wanted - error), -_below(-wanted - error)
        above = (rough > scorer.put(high)[:, None]).sum(1).cpu().numpy()
        near = np.flatnonzero((rough >= scorer.put(low)[:, None]).sum(1).cpu().numpy() > above)
        better += above
        for where, documents in scorer.between(block, rough, near, low, high):
            found = scorer.exact(rows[where], documents)
            ahead = (found > exact[where]) | ((found == exact[where]) & (documents < numbers[where]))
            better += np.bincount(where[ahead], minlength=len(rows))
            met += np.bincount(where[documents == numbers[where]], minlength=len(rows))
    if (met != 1).any():
        raise TaskError(IMPRECISE)
    return better


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Neighbouring documents, ready to be scored.

    Attributes:
        vectors: [V, d]. Documents with equally many stand together: the first vector of each, then the second, ….
        numbers: which documents, [D].
        runs: how many documents have how many vectors, in the order of `vectors` and `numbers`.
        longest: the length of the longest vector.
    """

    vectors: Tensor
    numbers: Tensor
    runs: list[tuple[int, int]]
    longest: float


@dataclass(frozen=True, slots=True, eq=False)
class _Index:
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

    def block(self, first: int, last: int, device: torch.device) -> _Block:
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
        tensor = _tensor(vectors)
        longest = float(torch.linalg.vector_norm(tensor, dim=1, dtype=torch.float64).max())
        if not math.isfinite(longest):
            bad = start + int(np.flatnonzero(~np.isfinite(self.vectors[start:stop]).all(1))[0])
            raise TaskError(f"vector {bad} holds NaN or infinity: embed its text again, or leave it out.")
        return _Block(tensor.to(device), torch.from_numpy(order + first).to(device), runs, longest)


@dataclass(frozen=True, slots=True, eq=False)
class _Scorer:
    """Scores queries against an index: roughly in float32 by blocks, exactly by pairs.

    Rough scores are those of queries scaled by powers of two, `scales` [Q], to `lengths` [Q] between 2^-17 and 2^-16.
    """

    index: _Index
    queries: np.ndarray
    scales: np.ndarray
    lengths: np.ndarray
    device: torch.device
    memory: int

    def put(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def blocks(self, rows: np.ndarray) -> Iterator[tuple[_Block, Tensor]]:
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
        self, block: _Block, scores: Tensor, rows: np.ndarray, low: np.ndarray, high: np.ndarray
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


def _below(values: np.ndarray) -> np.ndarray:
    """Float32 numbers just below float64 ones."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def _batches(rows: int, memory: int, kept: int = 1) -> Iterator[slice]:
    """Cut rows, each with some candidates, into batches of about the same size."""
    most = max(1, min(BATCH, math.isqrt(memory // 4), memory // (32 * kept)))
    step = math.ceil(rows / max(1, math.ceil(rows / most)))
    for start in range(0, rows, max(1, step)):
        yield slice(start, min(start + step, rows))


def _tensor(array: np.ndarray) -> Tensor:
    """`array` where it lies, or a copy where torch cannot have it: a map that may only be read, or has gaps."""
    usable = array.flags.c_contiguous and array.flags.writeable
    return torch.from_numpy(array if usable else np.array(array, order="C"))


@contextmanager
def _whole_float32() -> Iterator[None]:
    """Multiply float32 as float32, whatever the process allows instead (TF32, bfloat16), and leave that as it was."""
    backends: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    backends = [it for it in backends if hasattr(it, "fp32_precision")]
    before = [it.fp32_precision for it in backends]
    # Torch before 2.9 has one setting for all, which later ones refuse to read beside their own.
    for_all = None if backends else torch.get_float32_matmul_precision()
    try:
        for it in backends:
            it.fp32_precision = "ieee"
        if for_all is not None:
            torch.set_float32_matmul_precision("highest")
        yield
    finally:
        for it, value in zip(backends, before, strict=True):
            it.fp32_precision = value
        if for_all is not None:
            torch.set_float32_matmul_precision(for_all)


def _scorer(
    queries: np.ndarray,
    vectors: np.ndarray,
    owners: np.ndarray | None,
    device: str | torch.device | None,
    memory: int,
) -> _Scorer:
    _require_matrix("queries", queries)
    _require_matrix("vectors", vectors)
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
    return _Scorer(_Index(vectors, starts), queries, scales, lengths * scales, chosen, memory)


def _starts(owners: np.ndarray, vectors: int) -> np.ndarray:
    """Where each document's vectors start, and the last one's end."""
    if owners.shape != (vectors,) or owners.dtype.kind not in "iu":
        raise TaskError(f"owners must be one whole number for each of {vectors} vectors, got {_described(owners)}.")
    steps = np.diff(owners.astype(np.int64), prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > np.minimum(np.arange(vectors), 1)))
    if len(wrong):
        raise TaskError(
            f"owners must count 0, 0, 1, … up without gaps, and number {owners[wrong[0]]} of vector {wrong[0]} does "
            "not: sort the vectors by document and count the documents from 0."
        )
    return np.concatenate([[0], np.flatnonzero(steps), [vectors]])


def _require_matrix(name: str, matrix: np.ndarray) -> None:
    good = isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.shape[1] and matrix.dtype == np.float32
    if not good:
        raise TaskError(f"{name} must be a float32 array [rows, dimensions], got {_described(matrix)}: convert it.")


def _require_pairs(pairs: np.ndarray, queries: int, documents: int) -> np.ndarray:
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise TaskError(f"pairs must be whole numbers [pairs, 2], got {_described(pairs)}.")
    for column, name, most in ((0, "query", queries), (1, "document", documents)):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= most))
        if len(wrong):
            number = pairs[wrong[0], column]
            raise TaskError(f"pair {wrong[0]} names {name} {number}, and the last is {most - 1}: count from 0.")
    return pairs.astype(np.int64)


def _described(given: object) -> str:
    return f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
