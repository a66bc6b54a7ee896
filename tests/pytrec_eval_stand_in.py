"""A stand-in for pytrec_eval, which mteb imports and which has no wheel for some platforms (Linux on ARM).

It covers the five measures that mteb asks for, after trec_eval's definitions: a document is relevant from 1 upwards,
its gain is its relevance, and equal scores are ranked by document id, descending.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import log2

Relevance = Mapping[str, int]


@contextmanager
def stand_in_if_missing() -> Iterator[None]:
    """Let `import pytrec_eval` find this module, inside the block, only where the real one is not installed."""
    if find_spec("pytrec_eval") is not None:
        yield
        return
    sys.modules["pytrec_eval"] = sys.modules[__name__]
    try:
        yield
    finally:
        del sys.modules["pytrec_eval"]


class RelevanceEvaluator:
    """What pytrec_eval's class of that name is to mteb."""

    def __init__(self, query_relevance: Mapping[str, Relevance], measures: set[str]) -> None:
        for relevance in query_relevance.values():
            if not all(isinstance(level, int) for level in relevance.values()):
                raise TypeError("Expected relevance to be integer.")
        self._relevance = query_relevance
        self._measures = [(name, [int(k) for k in cuts.split(",")]) for name, _, cuts in map(_parts, measures)]

    def evaluate(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """The measures of every query that is judged."""
        return {
            query: self._evaluate_query(self._relevance[query], found)
            for query, found in scores.items()
            if query in self._relevance
        }

    def _evaluate_query(self, relevance: Relevance, found: Mapping[str, float]) -> dict[str, float]:
        ranked = sorted(found, key=lambda document: (found[document], document), reverse=True)
        levels = [max(relevance.get(document, 0), 0) for document in ranked]
        best = sorted((level for level in relevance.values() if level > 0), reverse=True)
        return {f"{name}_{k}": MEASURES[name](levels, best, k) for name, cuts in self._measures for k in cuts}


def _parts(measure: str) -> tuple[str, str, str]:
    parts = measure.partition(".")
    if parts[0] not in MEASURES or not parts[2]:
        raise TypeError("Unable to resolve all measures.")
    return parts


def _dcg(levels: Sequence[int]) -> float:
    return sum(level / log2(rank + 1) for rank, level in enumerate(levels, start=1))


def _ndcg(levels: Sequence[int], best: Sequence[int], k: int) -> float:
    return _dcg(levels[:k]) / _dcg(best[:k]) if best else 0.0


def _average_precision(levels: Sequence[int], best: Sequence[int], k: int) -> float:
    hits = [rank for rank, level in enumerate(levels[:k], start=1) if level]
    return sum(number / rank for number, rank in enumerate(hits, start=1)) / len(best) if best else 0.0


def _recall(levels: Sequence[int], best: Sequence[int], k: int) -> float:
    return sum(level > 0 for level in levels[:k]) / len(best) if best else 0.0


def _precision(levels: Sequence[int], best: Sequence[int], k: int) -> float:
    return sum(level > 0 for level in levels[:k]) / k


def _success(levels: Sequence[int], best: Sequence[int], k: int) -> float:
    return float(any(levels[:k]))


MEASURES: dict[str, Callable[[Sequence[int], Sequence[int], int], float]] = {
    "ndcg_cut": _ndcg,
    "map_cut": _average_precision,
    "recall": _recall,
    "P": _precision,
    "success": _success,
}
