"""Rows of a search: every metric of every query, with where its evidence lies."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import gains_of, parse_metric
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.rows import SCHEMA, as_rows

DEPTH = 1000
"""Ranks that a metric without a cutoff looks at."""


def search_rows(
    measured: MeasuredTask,
    numbers: np.ndarray,
    documents: Sequence[str],
    metrics: Sequence[str],
    clusters: Mapping[str, int],
    *,
    run: str,
    model: str,
    treatment: str,
    index: str,
) -> pl.DataFrame:
    """One row for each query and metric.

    Args:
        numbers: [Q, k], what was found for each query, best first, as numbers of `documents`.
        documents: the ids of the index in its order.
        clusters: the number of every cluster of queries.
    """
    task = measured.task
    place_of = {name: number for number, name in enumerate(documents)}
    relevant = [
        {place_of[document]: gain for document, gain in task.relevant[query.id].items() if gain > 0}
        for query in task.queries
    ]
    gains = gains_of(numbers, relevant)
    ideal = [list(found.values()) for found in relevant]
    wanted = [_wanted(task.relevant[query.id]) for query in task.queries]
    places = [measured.places.get(query.id) for query in task.queries]
    names = [query.id for query in task.queries]
    segments = [query.id.rsplit("/", 1)[0] if task.lead else None for query in task.queries]
    constant = {
        "run": run,
        "model": model,
        "treatment": treatment,
        "set": [clusters[query.cluster or query.id] for query in task.queries],
        "order": task.edition,
        "document": wanted,
        "position": [None if place is None else place.position for place in places],
        "segment": segments,
        "language": [query.language or None for query in task.queries],
        "lead": task.lead or None,
        "later": task.later or None,
        "n": [None if place is None else place.groups for place in places],
        "tokens": [measured.lengths[document] for document in wanted],
        "part": index,
        "query": names,
        "query_tokens": [measured.query_lengths[name] for name in names],
        "offset": [None if place is None else place.offset for place in places],
    }
    return pl.concat(
        [as_rows({**constant, "measure": metric, "value": _values(metric, gains, ideal)}) for metric in metrics]
    )


def relevant_pairs(task: RetrievalTask, documents: Sequence[str]) -> np.ndarray:
    """[P, 2], the number of each query with that of every document that answers it."""
    place_of = {name: number for number, name in enumerate(documents)}
    pairs = [
        (number, place_of[document])
        for number, query in enumerate(task.queries)
        for document, gain in sorted(task.relevant[query.id].items())
        if gain > 0
    ]
    return np.array(pairs, dtype=np.int64)


def rank_rows(
    measured: MeasuredTask, pairs: np.ndarray, ranks: np.ndarray, documents: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """One row for each of `relevant_pairs`: the rank of the document among all, beside the query's other rows."""
    queries = [measured.task.queries[number].id for number in pairs[:, 0].tolist()]
    wanted = [documents[number] for number in pairs[:, 1].tolist()]
    found = pl.DataFrame(
        {
            "query": queries,
            "document": wanted,
            "tokens": [measured.lengths[document] for document in wanted],
            "value": ranks.astype(np.float64),
        }
    )
    of_query = rows.filter(pl.col("measure") == rows["measure"][0]).drop("document", "tokens", "value", "measure")
    joined = found.join(of_query, on="query", maintain_order="left").with_columns(measure=pl.lit("rank"))
    return joined.select([pl.col(column).cast(kind) for column, kind in SCHEMA.items()])


def ranking_rows(
    rankings: Mapping[str, Sequence[str]],
    relevant: Mapping[str, Mapping[str, float]],
    metrics: Sequence[str],
    *,
    first: int,
    run: str,
    model: str,
    treatment: str,
    language: str | None = None,
) -> pl.DataFrame:
    """One row for each query and metric of rankings that somebody else made; no more is known of them.

    Args:
        rankings: for each query the documents that were found, best first.
        first: the number of the first query's cluster; every query is one.
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
    known = [gains for gains in ideal if gains]

    def values(metric: str) -> list[float]:
        found = np.zeros(len(names))
        if answered.any():
            found[answered] = parse_metric(metric)(gains[answered], known)
        return list(found.tolist())

    constant = {
        "run": run,
        "model": model,
        "treatment": treatment,
        "set": list(range(first, first + len(names))),
        "order": 0,
        "document": [_wanted(relevant[name]) if relevant[name] else "" for name in names],
        "language": language,
        "part": "whole",
        "query": names,
    }
    return pl.concat([as_rows({**constant, "measure": metric, "value": values(metric)}) for metric in metrics])


def score_rows(
    name: str, measure: str, value: float, *, number: int, run: str, model: str, treatment: str
) -> pl.DataFrame:
    """One row: a score that is not a mean over queries."""
    return as_rows(
        {
            "run": run,
            "model": model,
            "treatment": treatment,
            "measure": measure,
            "set": [number],
            "order": 0,
            "part": "whole",
            "query": name,
            "value": [value],
        }
    )


def _values(metric: str, gains: np.ndarray, ideal: Sequence[Sequence[float]]) -> list[float]:
    chosen = parse_metric(metric)
    found = chosen(gains if chosen.at is not None else gains[:, :DEPTH], ideal)
    return list(found.tolist())


def _wanted(gains: Mapping[str, float]) -> str:
    """The document that answers a query best; the first by name of several."""
    return min(gains, key=lambda document: (-gains[document], document))
