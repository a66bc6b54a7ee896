"""Exact search by inner product: the best documents for each query, and the ranks of given ones.

A score is the inner product of two float32 vectors in float64, rounded to float32. This removes the last digits,
which depend on the order in which a matrix product adds up, so that copies of a vector have the same score.
Documents are ordered by score, ties by their number.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fairspan.errors import CorpusError

MEMORY = 64 * 2**20
"""Bytes of one block of products, of which a few are held at once."""

# Queries scored at once: enough for a matrix product at full speed.
BATCH = 1024


def search(
    queries: np.ndarray, vectors: np.ndarray, k: int, *, owners: np.ndarray | None = None
) -> np.ndarray:
    """Numbers [Q, k] of the best documents for queries[Q, d] among vectors[V, d]; of all where there are fewer.

    With owners[V], which count 0, 0, 1, … up, a document has several vectors, and the score of its best. Vectors may
    be a memory map. Products are computed on a GPU where there is one.
    """
    starts, found = _starts(vectors, owners), []
    for start in range(0, len(queries), BATCH):
        best: tuple[Tensor, Tensor] | None = None
        for first, scores in _scores(queries[start : start + BATCH], vectors, starts):
            numbers = torch.arange(first, first + scores.shape[1], device=scores.device).expand_as(
                scores
            )
            own = _best(scores, numbers, k)
            best = (
                own
                if best is None
                else _best(torch.cat([best[0], own[0]], 1), torch.cat([best[1], own[1]], 1), k)
            )
        assert best is not None
        found.append(best[1].cpu().numpy())
    return np.concatenate(found)


def ranks(
    queries: np.ndarray, vectors: np.ndarray, pairs: np.ndarray, *, owners: np.ndarray | None = None
) -> np.ndarray:
    """The ranks [P], from 1, of documents in the whole order: pairs[P, 2] name a query and a document."""
    starts, found = _starts(vectors, owners), np.empty(len(pairs), np.int64)
    order = np.argsort(pairs[:, 0], kind="stable")
    for start in range(0, len(pairs), BATCH):
        some = order[start : start + BATCH]
        different, rows = np.unique(pairs[some, 0], return_inverse=True)
        found[some] = 1 + _count_better(
            partial(_scores, queries[different], vectors, starts), rows, pairs[some, 1]
        )
    return found


def _scores(
    queries: np.ndarray, vectors: np.ndarray, starts: np.ndarray
) -> Iterator[tuple[int, Tensor]]:
    """The scores [Q, D] of neighbouring documents, block by block, with the number of the first one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    asked = torch.from_numpy(queries).to(device, torch.float64)
    if not asked.isfinite().all():
        raise CorpusError(
            "the vector of a query holds NaN or infinity: the model cannot embed its text."
        )
    most = max(1, MEMORY // 8 // max(queries.shape))
    first = 0
    while first + 1 < len(starts):
        # As many documents as have `most` vectors, or one with more.
        last = max(int(np.searchsorted(starts, starts[first] + most, side="right")) - 1, first + 1)
        # Torch takes no map that may only be read.
        block = torch.from_numpy(np.array(vectors[starts[first] : starts[last]]))
        products = (asked @ block.to(device, torch.float64).T).float()
        if not products.isfinite().all():
            raise CorpusError(
                "the vector of a document holds NaN or infinity: the model cannot embed its text."
            )
        yield first, _by_document(products, np.diff(starts[first : last + 1]))
        first = last


def _starts(vectors: np.ndarray, owners: np.ndarray | None) -> np.ndarray:
    """Where each document's vectors start, and the last one's end: those of document i are starts[i:i + 1]."""
    if owners is None:
        return np.arange(len(vectors) + 1)
    return np.append(np.flatnonzero(np.diff(owners, prepend=-1)), len(vectors))


def _by_document(scores: Tensor, sizes: np.ndarray) -> Tensor:
    """The best score of each document [Q, D] from those of its vectors [Q, V], of which it has sizes[D]."""
    if scores.shape[1] == len(sizes):
        return scores
    owners = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(scores.device)
    best = scores.new_full((len(scores), len(sizes)), -torch.inf)
    return best.scatter_reduce(1, owners.expand_as(scores), scores, "amax")


def _best(scores: Tensor, numbers: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores and numbers [Q, k] of the best documents among [Q, n], in order."""
    k = min(k, scores.shape[1])
    least = scores.topk(k, 1).values[:, -1:]
    # Of documents with the same score `topk` takes any, so all of them are looked at.
    rows, columns = (scores >= least).nonzero(as_tuple=True)
    where = rows.cpu().numpy()
    own_scores, own_numbers = (
        scores[rows, columns].cpu().numpy(),
        numbers[rows, columns].cpu().numpy(),
    )
    order = np.lexsort((own_numbers, -own_scores, where))
    kept = torch.from_numpy(order[np.arange(len(order)) - np.searchsorted(where, where) < k]).to(
        scores.device
    )
    rows, columns = rows[kept].view(-1, k), columns[kept].view(-1, k)
    return scores[rows, columns], numbers[rows, columns]


def _count_better(
    blocks: Callable[[], Iterator[tuple[int, Tensor]]], rows: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """How many documents come before numbers[P] for the queries rows[P], given what scores them block by block."""
    wanted = np.empty(len(rows), np.float32)
    for first, scores in blocks():
        here = np.flatnonzero((first <= numbers) & (numbers < first + scores.shape[1]))
        wanted[here] = scores[rows[here], numbers[here] - first].cpu().numpy()
    better = np.zeros(len(rows), np.int64)
    for first, scores in blocks():
        own, own_wanted, own_numbers = (
            torch.from_numpy(one).to(scores.device)
            for one in (rows, wanted[:, None], numbers[:, None])
        )
        there, each = (
            scores[own],
            torch.arange(first, first + scores.shape[1], device=scores.device),
        )
        ahead = (there > own_wanted) | ((there == own_wanted) & (each < own_numbers))
        better += ahead.sum(1).cpu().numpy()
    return better
