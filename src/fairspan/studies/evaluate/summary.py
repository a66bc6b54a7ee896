"""`frames_of` an evaluation's log: verdicts, quality overall and by group, by length, costs and temperatures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.frames import columns_of, frame_of
from fairspan.runs.log import RunLog
from fairspan.stats.intervals import Interval
from fairspan.studies.evaluate.languages import language_records
from fairspan.studies.evaluate.measures import (
    RANK,
    Arm,
    Record,
    Result,
    arms_of,
    change_columns,
    change_of,
    effects_of,
    languages_of,
    metrics_of,
    pair_name,
    results_of,
    sorted_rows,
)
from fairspan.studies.evaluate.options import at_temperatures
from fairspan.studies.evaluate.verdicts import verdicts_of

SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics of a log by name, without empty frames except for the verdicts."""
    results, across = results_of(log), languages_of(log)
    groups = [one for result in results for one in _groups(result, across)]
    records: dict[str, Sequence[Mapping[str, Any]]] = {
        "quality": [_quality(result) for result in results],
        "language_pairs" if across else "positions": groups,
        "languages": language_records(log, metrics_of(log)),
        "by_length": _by_length(log),
        "costs": _costs(log, results),
        "temperature_grid": _temperatures(log, results),
        "windows": log.header.get("windows", ()),
    }
    found = {name: frame_of(own) for name, own in records.items() if own}
    model = pl.lit(log.model).alias("model")
    return {
        name: own.select(model, pl.all()) for name, own in {"verdicts": verdicts_of(log, results), **found}.items()
    }


def _quality(result: Result) -> Record:
    effects = result.effects
    return {
        **result.named,
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **columns_of(effects.overall),
        **columns_of(effects.psi, "psi_"),
        **columns_of(effects.harmonic, "harmonic_"),
        "p_value": result.p_value,
        "p_psi": result.p_psi,
        **change_columns(result.change),
    }


def _groups(result: Result, languages: Sequence[str]) -> list[Record]:
    """One for each position of the evidence, or for each language of queries and of documents, in this order."""
    pairs = {pair_name(pair): pair for pair in product(languages, repeat=2)}
    changes = [None] * len(result.groups) if result.change is None else result.change.groups
    counts, means = result.effects.counts.group_queries, result.effects.groups
    found = []
    for group, count, mean, change in zip(result.groups, counts, means, changes, strict=True):
        named = {"position": group}
        if languages:
            named = dict(zip(("query_language", "document_language"), pairs[group], strict=True))
        found.append({**result.named, **named, "queries": count, **columns_of(mean), **columns_of(change, "change_")})
    return found


def _costs(log: RunLog, results: Sequence[Result]) -> list[Record]:
    """What each index takes: tokens to read, seconds, vectors and bytes, and what it finds.

    The seconds are None where all vectors were stored already.
    """
    costs = {Arm(one["treatment"], one["index"]): one for one in log.header["costs"]}
    first = [one for one in results if (one.metric, one.plan) == (results[0].metric, "")]
    return [{**costs[one.arm], "metric": one.metric, "estimate": one.effects.overall.estimate} for one in first]


def _temperatures(log: RunLog, results: Sequence[Result]) -> list[Record]:
    """The first metric at every pair of a query's and a document's temperature (LC Fig. 9)."""
    base, found = results[0].arm, []
    known = {one.arm: one for one in reversed(results)}
    for query, document in product(log.spec.get("temperature_grid") or (), repeat=2):
        name = base.treatment if query == document == 1 else at_temperatures(base.treatment, query, document)
        one = known[Arm(name, base.index)]
        measured = {"treatment": name, "metric": one.metric, "query": query, "document": document}
        change = columns_of(None if one.change is None else one.change.overall, "change_")
        found.append({**measured, **columns_of(one.effects.overall), **change, "p_value": one.p_value})
    return found


def _by_length(log: RunLog) -> list[Record]:
    """The first metric for the shortest and longest fifth of queries, and the mean rank of the longest documents.

    These are the longest fifth of those that answer a query, counted once for each query that they answer.
    """
    found = _length_groups(log, metrics_of(log)[0], "query_tokens", ("shortest queries", "longest queries"))
    if RANK in log.rows["measure"]:
        found += _length_groups(log, RANK, "tokens", ("longest documents",))
    return found


def _length_groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[Record]:
    """The last of `names` is for the longest, the one before it for the shortest; none where lengths are alike."""
    rows, seed, found = log.rows.filter(measure=measure), int(log.header["seed"]), list[Record]()
    tables = {arm: sorted_rows(rows, arm) for arm in arms_of(log)}
    baseline, first = next(iter(tables.items()))
    lengths = first[column].to_numpy()
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    if low == high:
        return []
    groups = np.where(lengths >= high, len(names), np.where(lengths <= low, len(names) - 1, 0))
    for arm, table in tables.items():
        means = effects_of(table, groups, seed).groups
        changes: Sequence[Interval | None] = [None] * len(names)
        if arm != baseline:
            changes = change_of(first, table["value"].to_numpy(), groups, seed).groups
        for number, (name, mean, change) in enumerate(zip(names, means, changes, strict=True), start=1):
            inside = lengths[groups == number]
            counted = {"count": len(inside), "tokens_from": int(inside.min()), "tokens_to": int(inside.max())}
            named = {**asdict(arm), "group": name, "measure": measure}
            found.append({**named, **counted, **columns_of(mean), **columns_of(change, "change_")})
    return found
