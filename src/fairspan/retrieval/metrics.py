"""What a ranking is worth to each query: nDCG, recall and reciprocal rank.

A ranking comes as gains[Q, k]: the gain of the document at each rank, best first, and 0 for one
that is not relevant. Rank at least as many documents as the metric looks at, or the whole index:
ranks that are not there gain nothing. `ideal` has the gains of all documents that answer each
query, all above 0.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairspan.errors import CorpusError

Floats = NDArray[np.float64]
Ideal = Sequence[Sequence[float]]
CHOICES = "ndcg@k, recall@k, mrr, mrr@k, with a whole number k from 1 on, such as ndcg@10"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric such as "ndcg@10", which looks at the ranks up to `at`; None for the whole index."""

    kind: str
    at: int | None

    def __call__(self, gains: Floats, ideal: Ideal) -> Floats:
        """One value per query [Q] of gains[Q, k]."""
        return METRICS[self.kind](gains, ideal, self.at)


def parse_metric(name: str) -> Metric:
    """The metric called "ndcg@10", "recall@1", "mrr", "mrr@10" and the like."""
    match = re.fullmatch(rf"({'|'.join(METRICS)})(?:@([1-9][0-9]*))?", name)
    if match is None or (match[1] != "mrr" and match[2] is None):
        raise CorpusError(f"there is no metric {name!r}: choose from {CHOICES}.")
    return Metric(match[1], None if match[2] is None else int(match[2]))


def gains_of(numbers: NDArray[np.int64], relevant: Sequence[Mapping[int, float]]) -> Floats:
    """Gains [Q, k] of ranked document numbers [Q, k], by the gains of each query's documents."""
    gains = np.zeros(numbers.shape)
    for row, (ranking, wanted) in enumerate(zip(numbers, relevant, strict=True)):
        for number, gain in wanted.items():
            gains[row, ranking == number] = gain
    return gains


def ndcg(gains: Floats, ideal: Ideal, at: int | None = None) -> Floats:
    """Discounted cumulative gain over that of the best ranking, both down to rank `at`; [Q].

    Rank r divides gains by log2(r + 1) (Järvelin and Kekäläinen 2002), as in trec_eval; others take
    2^gain − 1 instead, which is the same for gains of 0 and 1.
    """
    ranked = [np.sort(np.asarray(wanted, np.float64))[::-1] for wanted in ideal]
    best = np.array([discounted(wanted[:at]) for wanted in ranked])
    return np.asarray(discounted(gains[:, :at]) / best)


def recall(gains: Floats, ideal: Ideal, at: int | None = None) -> Floats:
    """The share of a query's relevant documents that are ranked `at` or better; [Q]."""
    counts = np.array([len(wanted) for wanted in ideal], np.float64)
    return np.asarray((gains[:, :at] > 0).sum(1) / counts)


def reciprocal_rank(gains: Floats, _: Ideal, at: int | None = None) -> Floats:
    """1/rank of the first relevant document, 0 where there is none down to rank `at`; [Q]."""
    hits = gains[:, :at] > 0
    return np.asarray(np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0.0))


METRICS = {"ndcg": ndcg, "recall": recall, "mrr": reciprocal_rank}


def discounted(gains: Floats) -> Floats:
    """Σ gain / log2(rank + 1) over gains[..., k]."""
    return np.asarray(gains @ (1 / np.log2(np.arange(2, gains.shape[-1] + 2))))
