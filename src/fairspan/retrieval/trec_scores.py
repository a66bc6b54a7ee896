"""What mteb asks of pytrec_eval, which has no wheel for some platforms."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fairspan.retrieval.metrics import discounted

Scores = dict[str, dict[str, float]]


class RelevanceEvaluator:
    """The measures map_cut, ndcg_cut, recall, P and success of trec_eval, as pytrec_eval has them.

    Args:
        relevant: the gain of judged documents by query; they are relevant above 0.
        measures: such as "ndcg_cut.1,10", with the ranks to look at.
    """

    def __init__(self, relevant: Mapping[str, Mapping[str, int]], measures: Iterable[str]) -> None:
        pairs = [measure.split(".") for measure in measures]
        self._cuts = {name: [int(cut) for cut in cuts.split(",")] for name, cuts in pairs}
        self._relevant = relevant

    def evaluate(self, run: Mapping[str, Mapping[str, float]]) -> Scores:
        """The measures of every query that is judged, such as "ndcg_cut_10"."""
        judged = (query for query in run if query in self._relevant)
        return {query: self._query(self._relevant[query], run[query]) for query in judged}

    def _query(self, gains: Mapping[str, int], scores: Mapping[str, float]) -> dict[str, float]:
        """All measures of one query, whose documents have these scores."""
        # trec_eval holds scores in 32 bits, and puts the last of equal ones first, by name.
        ranked = sorted(scores, key=lambda id: (np.float32(scores[id]), id), reverse=True)
        ranking = np.array([max(0, gains.get(id, 0)) for id in ranked], np.float64)
        ideal = np.sort(np.array([gain for gain in gains.values() if gain > 0], np.float64))[::-1]
        hits = ranking > 0
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        count = max(1, len(ideal))
        measures: dict[str, Callable[[int], Any]] = {
            "map_cut": lambda cut: (precisions * hits)[:cut].sum() / count,
            "ndcg_cut": lambda cut: discounted(ranking[:cut]) / (discounted(ideal[:cut]) or 1.0),
            "recall": lambda cut: hits[:cut].sum() / count,
            "P": lambda cut: hits[:cut].sum() / cut,
            "success": lambda cut: float(hits[:cut].any()),
        }
        return {
            f"{name}_{cut}": float(measures[name](cut))
            for name, cuts in self._cuts.items()
            for cut in cuts
        }
