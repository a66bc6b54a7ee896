"""`KeywordIndex`: BM25, which is what most archives search with today; and fused rankings."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.retrieval.words import keywords

NOTHING = -1
"""The document number of a rank without a document."""
_K1 = 1.5
_B = 0.75
FUSED_K = 60
"""Of reciprocal rank fusion, as in databases (Cormack et al. 2009)."""

Numbers = NDArray[np.int64]


class KeywordIndex:
    """BM25 of texts, as Lucene computes it, with k1 = 1.5 and b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        listed = [keywords(text) for text in texts]
        self._known = {word for words in listed for word in words}
        self._size = len(texts)
        if self._known:
            self._index = _library().BM25(k1=_K1, b=_B, method="lucene")
            self._index.index(listed, show_progress=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """[texts], 0 for those that have no word of the query."""
        words = [word for word in keywords(query) if word in self._known]
        if not words:
            return np.zeros(self._size, np.float32)
        return np.asarray(self._index.get_scores(words), np.float32)

    def search(self, queries: Sequence[str], k: int) -> Numbers:
        """Numbers [Q, k] of the best texts, equal scores by number; only texts with a score."""
        best_texts = np.full((len(queries), min(k, self._size)), NOTHING, np.int64)
        for row, query in zip(best_texts, queries, strict=True):
            scores = self.scores(query)
            best = np.argsort(-scores, kind="stable")[: len(row)]
            best = best[scores[best] > 0]
            row[: len(best)] = best
        return best_texts


def _library() -> Any:
    """bm25s, without JAX, which it would start: JAX reserves most of a GPU's memory.

    It is not imported before it is needed, as that takes most of a second.
    """
    name = "jax.lax" if "jax" in sys.modules else "jax"
    before = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        return import_module("bm25s")
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


def fuse(first: Numbers, second: Numbers) -> Numbers:
    """[Q, k], two rankings [Q, k] and [Q, l] fused by the sum of 1 / (60 + rank).

    Of equal sums the smaller number comes first.
    """
    fused = np.full(first.shape, NOTHING, np.int64)
    both = np.hstack([first, second])
    ranks = np.concatenate([np.arange(1, len(side[0]) + 1) for side in (first, second)])
    for row, numbers in zip(fused, both, strict=True):
        held = numbers != NOTHING
        different, place = np.unique(numbers[held], return_inverse=True)
        scores = np.bincount(place, 1 / (FUSED_K + ranks[held]))
        best = different[np.argsort(-scores, kind="stable")][: len(row)]
        row[: len(best)] = best
    return fused
