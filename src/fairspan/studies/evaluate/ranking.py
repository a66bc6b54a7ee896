"""`Answers`: what should be found for every query, and the rows that a ranking makes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from fairspan.retrieval.keywords import NOTHING
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import gains_of, parse_metric

DEPTH = 1000
"""The number of ranks that a metric without a cut-off uses."""
SCHEMA: dict[str, pl.DataType] = {
    "treatment": pl.String(),
    "index": pl.String(),
    "measure": pl.String(),
    "query": pl.String(),
    "query_tokens": pl.Int32(),
    # The document that answers, and the fifth and the tokens before the evidence in it.
    "document": pl.String(),
    "tokens": pl.Int32(),
    "language": pl.String(),
    "fifth": pl.Int16(),
    "depth": pl.Int32(),
    "cluster": pl.Int32(),
    "value": pl.Float64(),
}
RANK = "rank"
"""The measure of the exact rank of every document that answers a query."""


@dataclass(frozen=True)
class Answers:
    """Which documents answer the queries of a task, in numbers of documents.

    Attributes:
        names: ids of documents in the order of their numbers.
        clusters: a number for every cluster of queries.
    """

    measured: MeasuredTask
    names: tuple[str, ...]
    clusters: Mapping[str, int]

    @classmethod
    def of(cls, measured: MeasuredTask) -> "Answers":
        # Of equal scores the later id comes first, as in trec_eval.
        names = sorted((document.id for document in measured.task.documents), reverse=True)
        clusters = dict.fromkeys(query.cluster or query.id for query in measured.task.queries)
        return cls(measured, tuple(names), {name: n for n, name in enumerate(clusters)})

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def relevant(self) -> list[dict[int, float]]:
        """By query the gain of every document that answers it."""
        task = self.measured.task
        gains = [sorted(task.relevant[query.id].items()) for query in task.queries]
        return [{self._number_of[name]: gain for name, gain in row if gain > 0} for row in gains]

    @cached_property
    def left_out(self) -> list[list[int]]:
        """By query the documents that do not count."""
        task = self.measured.task
        return [
            sorted(self._number_of[name] for name in task.left_out.get(query.id, ()))
            for query in task.queries
        ]

    @property
    def deepest(self) -> int:
        """How many ranks to search, so that enough are left."""
        return DEPTH + max(map(len, self.left_out))

    def counted(self, numbers: np.ndarray) -> np.ndarray:
        """Rankings [Q, k] without what is left out, and `NOTHING` at their ends instead."""
        if not any(self.left_out):
            return numbers
        kept = np.full_like(numbers, NOTHING)
        for row, ranking, omitted in zip(kept, numbers, self.left_out, strict=True):
            rest = ranking[~np.isin(ranking, omitted)]
            row[: len(rest)] = rest
        return kept

    @cached_property
    def pairs(self) -> np.ndarray:
        """[P, 2], the number of each query with that of every document that answers it."""
        pairs = [(query, number) for query, gains in enumerate(self.relevant) for number in gains]
        return np.array(pairs, dtype=np.int64)

    @cached_property
    def omitted_pairs(self) -> np.ndarray:
        """[O, 2], the number of each query with that of every document left out of its ranking."""
        pairs = [(query, number) for query, row in enumerate(self.left_out) for number in row]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def counted_ranks(self, ranks: np.ndarray, omitted: np.ndarray) -> np.ndarray:
        """The ranks [P] of `pairs` if those at the ranks [O] of `omitted_pairs` did not exist."""
        ahead = np.zeros(len(ranks), np.int64)
        by_query: dict[int, list[int]] = {}
        for (query, _), rank in zip(self.omitted_pairs.tolist(), omitted.tolist(), strict=True):
            by_query.setdefault(query, []).append(rank)
        for place, query in enumerate(self.pairs[:, 0].tolist()):
            ahead[place] = sum(rank < ranks[place] for rank in by_query.get(query, ()))
        return ranks - ahead

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """The columns of every query that do not depend on what was found."""
        measured = self.measured
        task = measured.task
        queries = task.queries
        languages = {document.id: document.language for document in task.documents}
        wanted = [_best(task.relevant[query.id]) for query in queries]
        spoken = [
            languages[name] or query.language for name, query in zip(wanted, queries, strict=True)
        ]
        positions = [measured.positions.get(query.id) for query in queries]
        return {
            "cluster": [self.clusters[query.cluster or query.id] for query in queries],
            "document": wanted,
            "fifth": [place and place.fifth for place in positions],
            "language": [language or None for language in spoken],
            "tokens": [measured.lengths[document] for document in wanted],
            "query": [query.id for query in queries],
            "query_tokens": [measured.query_lengths[query.id] for query in queries],
            "depth": [place and place.depth for place in positions],
        }

    def metric_rows(
        self, numbers: np.ndarray, metrics: tuple[str, ...], label: Mapping[str, str]
    ) -> pl.DataFrame:
        """One row for each query and metric of rankings [Q, k]."""
        gains = gains_of(self.counted(numbers), self.relevant)
        ideal = [list(relevant.values()) for relevant in self.relevant]
        tables = []
        for name in metrics:
            metric = parse_metric(name)
            values = metric(gains if metric.at is not None else gains[:, :DEPTH], ideal)
            columns = {**label, **self._columns, "measure": name, "value": values.tolist()}
            tables.append(_table(columns))
        return pl.concat(tables)

    def rank_rows(self, ranks: np.ndarray, label: Mapping[str, str]) -> pl.DataFrame:
        """One row for each of `pairs`, given their [P] ranks, with the columns of its query."""
        names = [self.names[number] for number in self.pairs[:, 1]]
        of_query = _table({**label, **self._columns})[self.pairs[:, 0]]
        return of_query.with_columns(
            pl.Series("document", names),
            pl.Series("tokens", [self.measured.lengths[name] for name in names], pl.Int32),
            pl.Series("value", ranks, pl.Float64),
            measure=pl.lit(RANK),
        )


def _table(columns: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({**dict.fromkeys(SCHEMA), **columns}, schema=SCHEMA)


def _best(gains: Mapping[str, float]) -> str:
    """The document that answers a query best; the first by name of several."""
    return min(gains, key=lambda document: (-gains[document], document))
