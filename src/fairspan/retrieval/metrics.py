"""What a ranking is worth to each query: nDCG, recall and reciprocal rank.

A ranking comes as gains[Q, k]: the gain of the document at each rank, best first, and 0 for one that is not relevant.
Rank at least as many documents as the metric looks at, or the whole index: ranks that are not there gain nothing.
Whoever sorts settles ties: of documents with the same score the one with the lower number comes first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import TaskError

Floats = NDArray[np.float64]
# The gains of all documents that answer each query, a row per query; zeros among them are no matter.
Ideal = Sequence[ArrayLike] | Floats
CHOICES = "ndcg@k, recall@k, mrr, mrr@k, with a whole number k from 1 on, such as ndcg@10"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric such as "ndcg@10", which looks at the ranks up to `at`; None for a ranking of the whole index."""

    kind: str
    at: int | None

    def __call__(self, gains: ArrayLike, ideal: Ideal) -> Floats:
        """One value per query [Q] of gains[Q, k]."""
        return METRICS[self.kind](gains, ideal, self.at)


def parse_metric(name: str) -> Metric:
    """The metric called "ndcg@10", "recall@1", "mrr", "mrr@10" and the like."""
    found = re.fullmatch(r"(ndcg|recall|mrr)(?:@([1-9][0-9]*))?", name)
    if found is None or (found[1] != "mrr" and found[2] is None):
        raise TaskError(f"there is no metric {name!r}: choose from {CHOICES}.")
    return Metric(found[1], None if found[2] is None else int(found[2]))


def gains_of(numbers: ArrayLike, relevant: Sequence[Mapping[int, float]]) -> Floats:
    """Gains [Q, k] of rankings given as document numbers [Q, k]; a gain below 0 counts as none."""
    ranked = np.asarray(numbers)
    _require_table(ranked, "numbers")
    if len(ranked) != len(relevant):
        raise TaskError(f"there are rankings for {len(ranked)} queries, but relevant documents for {len(relevant)}.")
    gains = np.zeros(ranked.shape)
    for row, (ranking, wanted) in enumerate(zip(ranked, relevant, strict=True)):
        for number, gain in wanted.items():
            places = np.flatnonzero(ranking == number)
            if len(places) > 1:
                raise TaskError(f"the ranking of query {row} holds document {number} {len(places)} times.")
            gains[row, places] = max(gain, 0.0)
    return gains


def ndcg(gains: ArrayLike, ideal: Ideal, at: int | None = None) -> Floats:
    """Discounted cumulative gain over that of the best ranking possible, both down to rank `at`; [Q].

    Gains count as they are and rank r divides them by log2(r + 1) (Järvelin and Kekäläinen 2002), as in trec_eval,
    pytrec_eval and ranx's "ndcg"; others take 2^gain − 1, which is the same for gains of 0 and 1.
    """
    table, answers = _checked(gains, ideal, at)
    best = np.array([_discounted(np.sort(one)[::-1][:at]) for one in answers])
    return _share(_discounted(table), best)


def recall(gains: ArrayLike, ideal: Ideal, at: int | None = None) -> Floats:
    """The share of a query's relevant documents that are ranked `at` or better; [Q]."""
    table, answers = _checked(gains, ideal, at)
    return _share((table > 0).sum(1).astype(np.float64), np.array([float(len(one)) for one in answers]))


def reciprocal_rank(gains: ArrayLike, at: int | None = None) -> Floats:
    """1/rank of the first relevant document, 0 where there is none down to rank `at`; [Q]."""
    hits = _first(gains, at) > 0
    rank = hits.argmax(1) + 1 if hits.shape[1] else np.ones(len(hits))
    return np.asarray(np.where(hits.any(1), 1 / rank, 0.0))


METRICS: Mapping[str, Callable[[ArrayLike, Ideal, int | None], Floats]] = {
    "ndcg": ndcg,
    "recall": recall,
    "mrr": lambda gains, _, at: reciprocal_rank(gains, at),
}


def _discounted(gains: Floats) -> Floats:
    """Σ gain / log2(rank + 1) over gains[..., k]."""
    return np.asarray(gains @ (1 / np.log2(np.arange(2, gains.shape[-1] + 2))))


def _share(found: Floats, most: Floats) -> Floats:
    over = np.flatnonzero(found > most * (1 + 1e-9))
    if len(over):
        raise TaskError(
            f"the ranking of query {over[0]} gains more than all its relevant documents would: gains and ideal are "
            "not of the same query."
        )
    return found / most


def _checked(gains: ArrayLike, ideal: Ideal, at: int | None) -> tuple[Floats, list[Floats]]:
    """The first `at` ranks, and each query's gains above 0."""
    table = _first(gains, at)
    if len(table) != len(ideal):
        raise TaskError(f"there are gains for {len(table)} queries, but ideal gains for {len(ideal)}.")
    answers = [np.asarray(one, np.float64) for one in ideal]
    if not all(np.isfinite(one).all() for one in answers):
        raise TaskError("ideal gains must be finite.")
    answers = [one[one > 0] for one in answers]
    empty = next((row for row, one in enumerate(answers) if not len(one)), None)
    if empty is not None:
        raise TaskError(f"query {empty} has no relevant document, so that no ranking of it is good or bad.")
    return table, answers


def _first(gains: ArrayLike, at: int | None) -> Floats:
    if at is not None and at < 1:
        raise TaskError(f"ranks are counted from 1, got a cutoff of {at}.")
    table = np.asarray(gains, np.float64)
    _require_table(table, "gains")
    if not (np.isfinite(table) & (table >= 0)).all():
        raise TaskError("gains must be finite and not below 0.")
    return table[:, :at]


def _require_table(table: NDArray[np.generic], name: str) -> None:
    if table.ndim != 2:
        raise TaskError(f"{name} must be a table of queries by ranks, got shape {table.shape}.")
