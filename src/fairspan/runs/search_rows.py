"""Rows of a search: every metric of every query, with the position of its evidence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.retrieval.languages import MIXED
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import gains_of, parse_metric
from fairspan.runs.rows import SCHEMA, as_rows

DEPTH = 1000
"""Ranks that a metric without a cutoff looks at."""


def search_rows(
    measured: MeasuredTask,
    numbers: np.ndarray,
    documents: Sequence[str],
    metrics: Sequence[str],
    clusters: Mapping[str, int],
    label: Mapping[str, str],
) -> pl.DataFrame:
    """One row for each query and metric, with the columns of `label` in all of them.

    Numbers [Q, k] say what was found for each query, best first, among the ids `documents`.
    """
    task, queries = measured.task, measured.task.queries
    number_of = {name: number for number, name in enumerate(documents)}
    relevant = [
        {number_of[document]: gain for document, gain in task.relevant[query.id].items() if gain > 0}
        for query in queries
    ]
    gains = gains_of(numbers, relevant)
    ideal = [list(found.values()) for found in relevant]
    constant = query_columns(measured, clusters, label)
    tables = []
    for name in metrics:
        metric = parse_metric(name)
        values = metric(gains if metric.at is not None else gains[:, :DEPTH], ideal)
        tables.append(as_rows({**constant, "measure": name, "value": values.tolist()}))
    return pl.concat(tables)


def query_columns(measured: MeasuredTask, clusters: Mapping[str, int], label: Mapping[str, str]) -> dict[str, Any]:
    """The columns of every query that do not depend on what was found."""
    task, queries = measured.task, measured.task.queries
    wanted = [_wanted(task.relevant[query.id]) for query in queries]
    positions = [measured.positions.get(query.id) for query in queries]
    numbered = bool(task.lead or task.across)
    spoken = {document.id: document.language for document in task.documents} if task.across == MIXED else {}
    return {
        **label,
        "set": [clusters[query.cluster or query.id] for query in queries],
        "order": task.edition,
        "document": wanted,
        "position": [None if one is None else one.group for one in positions],
        "segment": [query.id.rsplit("/", 1)[0] if numbered else None for query in queries],
        "language": [query.language or None for query in queries],
        "lead": task.lead or None,
        "later": task.later or None,
        "n": [None if one is None else one.groups for one in positions],
        "tokens": [measured.lengths[document] for document in wanted],
        "query": [query.id for query in queries],
        "query_tokens": [measured.query_lengths[query.id] for query in queries],
        "document_language": [spoken.get(document) for document in wanted],
    }


def relevant_pairs(measured: MeasuredTask, documents: Sequence[str]) -> np.ndarray:
    """[P, 2], the number of each query with that of every document that answers it."""
    number_of = {name: number for number, name in enumerate(documents)}
    pairs = [
        (number, number_of[document])
        for number, query in enumerate(measured.task.queries)
        for document, gain in sorted(measured.task.relevant[query.id].items())
        if gain > 0
    ]
    return np.array(pairs, dtype=np.int64)


def rank_rows(
    measured: MeasuredTask, pairs: np.ndarray, ranks: np.ndarray, documents: Sequence[str], of_queries: pl.DataFrame
) -> pl.DataFrame:
    """One row for each of `relevant_pairs`: the rank of the document, and what the row of its query has."""
    names = [documents[number] for number in pairs[:, 1]]
    found: dict[str, Any] = {
        "measure": ["rank"] * len(names),
        "document": names,
        "tokens": [measured.lengths[name] for name in names],
        "value": ranks.astype(np.float64),
    }
    own = of_queries[pairs[:, 0]].with_columns([pl.Series(name, values) for name, values in found.items()])
    return own.select([pl.col(column).cast(kind) for column, kind in SCHEMA.items()])


def _wanted(gains: Mapping[str, float]) -> str:
    """The document that answers a query best; the first by name of several."""
    return min(gains, key=lambda document: (-gains[document], document))
