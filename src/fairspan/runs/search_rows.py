"""`Ranking`: what a search found for every query of a task, and the rows that are made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from fairspan.retrieval.languages import MIXED
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import gains_of, parse_metric
from fairspan.runs.rows import as_rows
from fairspan.stats.language_grid import peer

DEPTH = 1000
"""Ranks that a metric without a cutoff looks at."""
TOP = 10
SHARE = f"share@{TOP}"
"""The measure of a document language's share in the first ranks."""
PEER = "PEER"


@dataclass(frozen=True)
class Ranking:
    """What was found.

    Attributes:
        documents: the ids of everything that was searched.
        numbers: [Q, k], the documents that were found for each query, best first.
        label: columns that are the same in all rows.
    """

    measured: MeasuredTask
    documents: Sequence[str]
    numbers: np.ndarray
    clusters: Mapping[str, int]
    label: Mapping[str, str]

    @cached_property
    def _relevant(self) -> list[dict[int, float]]:
        """The gain of every document that answers a query, by its number."""
        task = self.measured.task
        number_of = {name: number for number, name in enumerate(self.documents)}
        gains = [sorted(task.relevant[query.id].items()) for query in task.queries]
        return [{number_of[name]: gain for name, gain in row if gain > 0} for row in gains]

    @cached_property
    def pairs(self) -> np.ndarray:
        """[P, 2], the number of each query with that of every document that answers it."""
        pairs = [(query, number) for query, gains in enumerate(self._relevant) for number in gains]
        return np.array(pairs, dtype=np.int64)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """The columns of every query that do not depend on what was found."""
        measured = self.measured
        task = measured.task
        queries = task.queries
        wanted = [_best(task.relevant[query.id]) for query in queries]
        positions = [measured.positions.get(query.id) for query in queries]
        numbered = bool(task.lead or task.across)
        spoken: dict[str, str] = {}
        if task.across == MIXED:
            spoken = {document.id: document.language for document in task.documents}
        return {
            **self.label,
            "set": [self.clusters[query.cluster or query.id] for query in queries],
            "order": task.edition,
            "document": wanted,
            "position": [place and place.group for place in positions],
            "segment": [query.id.rsplit("/", 1)[0] if numbered else None for query in queries],
            "language": [query.language or None for query in queries],
            "lead": task.lead or None,
            "later": task.later or None,
            "n": [place and place.groups for place in positions],
            "tokens": [measured.lengths[document] for document in wanted],
            "query": [query.id for query in queries],
            "query_tokens": [measured.query_lengths[query.id] for query in queries],
            "depth": [place and place.depth for place in positions],
            "document_language": [spoken.get(document) for document in wanted],
        }

    def metric_rows(self, metrics: Sequence[str]) -> pl.DataFrame:
        """One row for each query and metric."""
        gains = gains_of(self.numbers, self._relevant)
        ideal = [list(relevant.values()) for relevant in self._relevant]
        tables = []
        for name in metrics:
            metric = parse_metric(name)
            values = metric(gains if metric.at is not None else gains[:, :DEPTH], ideal)
            tables.append(as_rows({**self._columns, "measure": name, "value": values.tolist()}))
        return pl.concat(tables)

    def rank_rows(self, ranks: np.ndarray) -> pl.DataFrame:
        """One row for each of `pairs`, given their [P] ranks, with the columns of its query."""
        names = [self.documents[number] for number in self.pairs[:, 1]]
        of_query = as_rows(self._columns)[self.pairs[:, 0]]
        return of_query.with_columns(
            pl.Series("document", names),
            pl.Series("tokens", [self.measured.lengths[name] for name in names], pl.Int32),
            pl.Series("value", ranks, pl.Float64),
            measure=pl.lit("rank"),
        )

    def language_rows(self) -> pl.DataFrame:
        """Which languages are in the first ranks of a search among all translations.

        One row per query for PEER of the documents that do not answer it, and one for each query
        and document language for their shares.
        """
        task = self.measured.task
        spoken = list(dict.fromkeys(query.language for query in task.queries))
        language_of = {document.id: document.language for document in task.documents}
        codes = np.array([spoken.index(language_of[name]) for name in self.documents])
        shares = (codes[self.numbers][:, :TOP, None] == np.arange(len(spoken))).mean(1)
        peers = []
        for numbers, relevant in zip(self.numbers, self._relevant, strict=True):
            # Those that answer the query, one per language, have the same p value in any order.
            others = np.flatnonzero(~np.isin(numbers, list(relevant)))
            peers.append(peer((others + 1).astype(np.float64), codes[numbers[others]]))
        tables = [as_rows({**self._columns, "measure": PEER, "value": peers})]
        for number, language in enumerate(spoken):
            of_language = {"document_language": language, "value": shares[:, number]}
            tables.append(as_rows({**self._columns, "measure": SHARE, **of_language}))
        return pl.concat(tables)


def _best(gains: Mapping[str, float]) -> str:
    """The document that answers a query best; the first by name of several."""
    return min(gains, key=lambda document: (-gains[document], document))
