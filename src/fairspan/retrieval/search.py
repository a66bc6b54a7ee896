"""Exact search by inner product: the best documents for each query, and the ranks of given ones.

Documents are ordered by score, ties by their number. Float32 products find the candidates; how far these can be off
is bounded, and what the bound leaves open is settled by the scores themselves.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairspan.errors import TaskError
from fairspan.retrieval.scoring import GROUP, Scorer, described, make_scorer

MEMORY = 64 * 2**20
"""Bytes of one block of scores, of which a few are held at once."""

# Queries scored at once: enough for a matrix product at full speed.
BATCH = 1024
# Candidates beyond the k asked for, so that the bound almost always decides.
SLACK = 16
IMPRECISE = (
    "this device multiplies float32 numbers less exactly than float32 allows: unset DNNL_DEFAULT_FPMATH_MODE, or "
    'search with device="cpu".'
)


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Numbers and scores [Q, k] of the documents found for each query, best first."""

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
    scorer = make_scorer(queries, vectors, owners, device, memory)
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
    scorer = make_scorer(queries, vectors, owners, device, memory)
    pairs = _require_pairs(np.asarray(pairs), len(queries), scorer.index.documents)
    order = np.argsort(pairs[:, 0], kind="stable")
    found = np.empty(len(pairs), np.int64)
    with _whole_float32():
        for part in _batches(len(pairs), memory):
            rows, numbers = pairs[order[part]].T
            found[order[part]] = 1 + _count_better(scorer, rows, numbers)
    return found


def _best(scorer: Scorer, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
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


def _candidates(scorer: Scorer, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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

    The `count` best are in the `count` groups with the highest maxima, or behind the last whole group.
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


def _settle(scorer: Scorer, rows: np.ndarray, least: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
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


def _count_better(scorer: Scorer, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
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


def _below(values: np.ndarray) -> np.ndarray:
    """Float32 numbers just below float64 ones."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def _batches(rows: int, memory: int, kept: int = 1) -> Iterator[slice]:
    """Cut rows, each with some candidates, into batches of about the same size."""
    most = max(1, min(BATCH, math.isqrt(memory // 4), memory // (32 * kept)))
    step = math.ceil(rows / max(1, math.ceil(rows / most)))
    for start in range(0, rows, max(1, step)):
        yield slice(start, min(start + step, rows))


@contextmanager
def _whole_float32() -> Iterator[None]:
    """Multiply float32 as float32, whatever the process allows instead (TF32, bfloat16), and leave that as it was."""
    backends: list[Any] = [torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)]
    backends = [it for it in backends if hasattr(it, "fp32_precision")]
    before = [it.fp32_precision for it in backends]
    # Torch before 2.9 has one setting for all, which later ones refuse to read next to their own.
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


def _require_pairs(pairs: np.ndarray, queries: int, documents: int) -> np.ndarray:
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise TaskError(f"pairs must be whole numbers [pairs, 2], got {described(pairs)}.")
    for column, name, most in ((0, "query", queries), (1, "document", documents)):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= most))
        if len(wrong):
            number = pairs[wrong[0], column]
            raise TaskError(f"pair {wrong[0]} names {name} {number}, and the last is {most - 1}: count from 0.")
    return pairs.astype(np.int64)
