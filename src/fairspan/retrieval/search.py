"""Exact search by inner product: the best documents for each query, and the ranks of given ones.

A score is the inner product of two float32 vectors in float64, rounded to float32: the last digits
depend on the order in which a matrix product adds up, and copies of a vector must have the same
score. Documents are ordered by score, ties by their number.
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

Blocks = Iterator[tuple[int, Tensor]]
"""Scores [Q, D] of neighbouring documents, block by block, and the number of the first one."""


def search(
    queries: np.ndarray, vectors: np.ndarray, k: int, *, owners: np.ndarray | None = None
) -> np.ndarray:
    """Numbers [Q, k] of the best documents for queries[Q, d] among vectors[V, d]; fewer of a few.

    With owners[V], which count 0, 0, 1, … up, a document has several vectors, and the score of its
    best. Vectors may be a memory map.
    """
    starts = _starts(vectors, owners)
    rankings = []
    for start in range(0, len(queries), BATCH):
        blocks = _scores(queries[start : start + BATCH], vectors, starts)
        _, scores = next(blocks)
        best = _best(scores, _numbers(0, scores), k)
        for first, scores in blocks:
            more = _best(scores, _numbers(first, scores), k)
            best = _best(torch.cat([best[0], more[0]], 1), torch.cat([best[1], more[1]], 1), k)
        rankings.append(best[1].cpu().numpy())
    return np.concatenate(rankings)


def ranks(
    queries: np.ndarray, vectors: np.ndarray, pairs: np.ndarray, *, owners: np.ndarray | None = None
) -> np.ndarray:
    """The ranks [P], from 1, of documents in the whole order: pairs[P, 2] of query and document."""
    starts = _starts(vectors, owners)
    ranked = np.empty(len(pairs), np.int64)
    order = np.argsort(pairs[:, 0], kind="stable")
    for start in range(0, len(pairs), BATCH):
        batch = order[start : start + BATCH]
        different, rows = np.unique(pairs[batch, 0], return_inverse=True)
        blocks = partial(_scores, queries[different], vectors, starts)
        ranked[batch] = 1 + _count_better(blocks, rows, pairs[batch, 1])
    return ranked


def _scores(queries: np.ndarray, vectors: np.ndarray, starts: np.ndarray) -> Blocks:
    """The scores of all documents, whose vectors begin at starts[D + 1]."""
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
        # A copy, since torch takes no read-only memory map.
        block = torch.from_numpy(np.array(vectors[starts[first] : starts[last]]))
        products = (asked @ block.to(device, torch.float64).T).float()
        if not products.isfinite().all():
            raise CorpusError(
                "the vector of a document holds NaN or infinity: the model cannot embed its text."
            )
        yield first, _by_document(products, np.diff(starts[first : last + 1]))
        first = last


def _starts(vectors: np.ndarray, owners: np.ndarray | None) -> np.ndarray:
    """[D + 1], where each document's vectors start, and the end of the last one's."""
    if owners is None:
        return np.arange(len(vectors) + 1)
    return np.append(np.flatnonzero(np.diff(owners, prepend=-1)), len(vectors))


def _by_document(scores: Tensor, sizes: np.ndarray) -> Tensor:
    """The best score of each document [Q, D] from those of its sizes[D] vectors [Q, V]."""
    if scores.shape[1] == len(sizes):
        return scores
    owners = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(scores.device)
    best = scores.new_full((len(scores), len(sizes)), -torch.inf)
    return best.scatter_reduce(1, owners.expand_as(scores), scores, "amax")


def _numbers(first: int, scores: Tensor) -> Tensor:
    """The numbers [Q, D] of a block's documents."""
    numbers = torch.arange(first, first + scores.shape[1], device=scores.device)
    return numbers.expand_as(scores)


def _best(scores: Tensor, numbers: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Scores and numbers [Q, k] of the best documents among [Q, n], in order.

    Numbers of documents with the same score have to rise.
    """
    # Not `topk`, which takes any of those with the same score.
    order = scores.sort(dim=1, descending=True, stable=True).indices[:, :k]
    return scores.gather(1, order), numbers.gather(1, order)


def _count_better(
    blocks: Callable[[], Blocks], rows: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """How many documents come before numbers[P] for the queries rows[P]."""
    wanted = np.empty(len(rows), np.float32)
    for first, scores in blocks():
        here = np.flatnonzero((first <= numbers) & (numbers < first + scores.shape[1]))
        wanted[here] = scores[rows[here], numbers[here] - first].cpu().numpy()
    better = np.zeros(len(rows), np.int64)
    for first, scores in blocks():
        of_query = scores[torch.from_numpy(rows).to(scores.device)]
        wanted_score = torch.from_numpy(wanted[:, None]).to(scores.device)
        wanted_number = torch.from_numpy(numbers[:, None]).to(scores.device)
        is_earlier = _numbers(first, of_query) < wanted_number
        ahead = (of_query > wanted_score) | ((of_query == wanted_score) & is_earlier)
        better += ahead.sum(1).cpu().numpy()
    return better
