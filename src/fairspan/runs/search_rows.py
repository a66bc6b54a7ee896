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
    place_of = {name: number for number, name in enumerate(documents)}
    relevant = [
        {place_of[document]: gain for document, gain in task.relevant[query.id].items() if gain > 0}
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
    places = [measured.places.get(query.id) for query in queries]
    numbered = bool(task.lead or task.across)
    spoken = {document.id: document.language for document in task.documents} if task.across == MIXED else {}
    return {
        **label,
        "set": [clusters[query.cluster or query.id] for query in queries],
        "order": task.edition,
        "document": wanted,
        "position": [None if place is None else place.position for place in places],
        "segment": [query.id.rsplit("/", 1)[0] if numbered else None for query in queries],
        "language": [query.language or None for query in queries],
        "lead": task.lead or None,
        "later": task.later or None,
        "n": [None if place is None else place.groups for place in places],
        "tokens": [measured.lengths[document] for document in wanted],
        "query": [query.id for query in queries],
        "query_tokens": [measured.query_lengths[query.id] for query in queries],
        "offset": [None if place is None else place.offset for place in places],
        "document_language": [spoken.get(document) for document in wanted],
    }


def relevant_pairs(measured: MeasuredTask, documents: Sequence[str]) -> np.ndarray:
    """[P, 2], the number of each query with that of every document that answers it."""
    place_of = {name: number for number, name in enumerate(documents)}
    pairs = [
        (number, place_of[document])
        for number, query in enumerate(measured.task.queries)
        for document, gain in sorted(measured.task.relevant[query.id].items())
        if gain > 0
    ]
    return np.array(pairs, dtype=np.int64)


def rank_rows(
    measured: MeasuredTask, pairs: np.ndarray, ranks: np.ndarray, documents: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """One row for each of `relevant_pairs`: the rank of the document, and what the query's `rows` have."""
    wanted = [documents[number] for number in pairs[:, 1]]
    found = pl.DataFrame(
        {
            "query": [measured.task.queries[number].id for number in pairs[:, 0]],
            "document": wanted,
            "tokens": [measured.lengths[document] for document in wanted],
            "value": ranks.astype(np.float64),
        }
    )
    of_query = rows.filter(measure=rows["measure"][0]).drop("document", "tokens", "value", "measure")
    joined = found.join(of_query, on="query", maintain_order="left").with_columns(measure=pl.lit("rank"))
    return joined.select([pl.col(column).cast(kind) for column, kind in SCHEMA.items()])


def ranking_rows(
    rankings: Mapping[str, Sequence[str]],
    relevant: Mapping[str, Mapping[str, float]],
    metrics: Sequence[str],
    first: int,
    label: Mapping[str, str | None],
) -> pl.DataFrame:
    """One row for each query and metric of rankings that another program made, with the columns of `label` in all.

    Every query is a cluster, numbered from `first`.
    """
    names = list(rankings)
    width = max(1, *(len(ranking) for ranking in rankings.values()))
    gains = np.zeros((len(names), width))
    for row, name in enumerate(names):
        found = [max(0.0, relevant[name].get(document, 0.0)) for document in rankings[name]]
        gains[row, : len(found)] = found
    ideal = [[gain for gain in relevant[name].values() if gain > 0] for name in names]
    # A query that nothing answers counts as 0, as in mteb.
    answered = np.array([bool(gains) for gains in ideal])
    constant = {
        **label,
        "set": list(range(first, first + len(names))),
        "order": 0,
        "document": [_wanted(relevant[name]) if relevant[name] else "" for name in names],
        "query": names,
    }
    tables = []
    for metric in metrics:
        values = np.zeros(len(names))
        if answered.any():
            values[answered] = parse_metric(metric)(gains[answered], [gains for gains in ideal if gains])
        tables.append(as_rows({**constant, "measure": metric, "value": values.tolist()}))
    return pl.concat(tables)


def _wanted(gains: Mapping[str, float]) -> str:
    """The document that answers a query best; the first by name of several."""
    return min(gains, key=lambda document: (-gains[document], document))
