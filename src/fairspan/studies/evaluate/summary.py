"""`frames_of` an evaluation's log: verdicts, quality overall and by group, by length, and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.frames import columns_of, frame_of, in_order
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate import measures
from fairspan.studies.evaluate.depths import by_depth
from fairspan.studies.evaluate.languages import language_figures
from fairspan.studies.evaluate.measures import Columns, Result, SearchArm, languages_of, metrics_of
from fairspan.studies.evaluate.temperatures import grid_of
from fairspan.studies.evaluate.vectors import vector_rows
from fairspan.studies.evaluate.verdicts import NO_VERDICTS, verdicts_of

# The share of queries or documents that count as shortest or longest (LC §5).
_FIFTH = 0.2
ALL_TYPES = "mean of types"
ALL_TASKS = "mean of tasks"


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics of a log by name, without empty frames except for the verdicts."""
    frames = _scores(log) if measures.is_benchmark(log) else _searches(log)
    model = pl.lit(log.model).alias("model")
    return {name: frame.select(model, pl.all()) for name, frame in frames.items()}


def _searches(log: RunLog) -> dict[str, pl.DataFrame]:
    """What searches found."""
    results = measures.results_of(log)
    languages = languages_of(log)
    groups = [row for result in results for row in _groups(result, languages)]
    rows: dict[str, Sequence[Mapping[str, Any]]] = {
        "quality": [_quality(result) for result in results],
        "language_pairs" if languages else "positions": groups,
        "languages": language_figures(log, metrics_of(log)),
        "temperatures": _temperatures(log, results),
        "depths": by_depth(log),
        "by_length": _by_length(log),
        "costs": _costs(log, results),
        "vectors": _vectors(log, results),
        "windows": [asdict(info) for info in log.header.windows or ()],
    }
    frames = {"verdicts": verdicts_of(log, results)}
    return frames | {name: frame_of(listed) for name, listed in rows.items() if listed}


def _quality(result: Result) -> Columns:
    """The row of one metric of one arm over all queries."""
    effects = result.effects
    return {
        **result.labels,
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **columns_of(effects.overall),
        **columns_of(effects.psi, "psi_"),
        **columns_of(effects.harmonic, "harmonic_"),
        "p_value": result.p_value,
        "p_psi": result.p_psi,
        **measures.change_columns(result.change),
    }


def _groups(result: Result, languages: Sequence[str]) -> list[Columns]:
    """A row for each position of the evidence, or for each pair of query and document language."""
    labels: list[Columns] = [{"position": group} for group in result.groups]
    if languages:
        pairs = {measures.pair_name(pair): pair for pair in product(languages, repeat=2)}
        names = ("query_language", "document_language")
        labels = [dict(zip(names, pairs[group], strict=True)) for group in result.groups]
    counted = zip(labels, result.effects.counts.group_queries, strict=True)
    labels = [{**result.labels, **label, "queries": count} for label, count in counted]
    return measures.group_rows(labels, result.effects, result.change)


def _temperatures(log: RunLog, results: Sequence[Result]) -> list[Columns]:
    """The first metric by the temperatures of queries and documents, if there is such a grid."""
    grid = grid_of(log)
    rows = []
    for arm, result in measures.first_results(results).items():
        if arm.treatment in grid and arm.index == "whole":
            query, document = grid[arm.treatment]
            pair = {"query_temperature": query, "document_temperature": document}
            rows.append({**_quality(result), **pair})
    return rows


def _vectors(log: RunLog, results: Sequence[Result]) -> list[Columns]:
    """The first metric by the number of vectors per document, if that was compared."""
    if measures.references_of(log):
        return []
    costs = log.header.part(measures.EvaluateEntries).costs
    by_arm = {SearchArm(cost.treatment, cost.index): cost for cost in costs}
    margin = float(log.spec["margin"])
    return vector_rows(measures.first_results(results), by_arm, margin)


def _costs(log: RunLog, results: Sequence[Result]) -> list[Columns]:
    """What each index takes and finds. Seconds are None where all vectors were stored already."""
    entries = log.header.part(measures.EvaluateEntries)
    costs = {SearchArm(cost.treatment, cost.index): asdict(cost) for cost in entries.costs}
    return [
        {**costs[arm], "metric": result.metric, "estimate": result.effects.overall.estimate}
        for arm, result in measures.first_results(results).items()
    ]


def _by_length(log: RunLog) -> list[Columns]:
    """The first metric for the shortest and longest queries, and the rank of the longest documents.

    Documents count once for each query that they answer.
    """
    names = ("shortest queries", "longest queries")
    rows = _length_groups(log, metrics_of(log)[0], "query_tokens", names)
    if measures.RANK in log.rows["measure"]:
        rows += _length_groups(log, measures.RANK, "tokens", ("longest documents",))
    return rows


def _length_groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[Columns]:
    """A row for each arm and group, the longest last; none if lengths are alike."""
    rows = measures.sorted_rows(log.rows.filter(measure=measure), measures.arms_of(log)[0])
    lengths = rows[column].to_numpy()
    low, high = np.quantile(lengths, [_FIFTH, 1 - _FIFTH])
    if low == high:
        return []
    groups = np.where(lengths >= high, len(names), np.where(lengths <= low, len(names) - 1, 0))
    labels = list[Columns]()
    for number, name in enumerate(names, start=1):
        inside = lengths[groups == number]
        tokens = {"tokens_from": int(inside.min()), "tokens_to": int(inside.max())}
        labels.append({"group": name, "measure": measure, "count": len(inside), **tokens})
    return measures.compare_groups(log, measure, groups, labels)


def _scores(log: RunLog) -> dict[str, pl.DataFrame]:
    """Scores of mteb by task and by type; types have only tasks that all treatments have."""
    names = {"type": "part", "task": "document", "measure": "measure", "treatment": "treatment"}
    tasks = log.rows.select(
        **{name: pl.col(column) for name, column in names.items()}, score="value"
    )
    tasks = in_order(tasks, "type", "task")
    complete = tasks.filter(pl.len().over("task") == len(log.measured))
    types = _means(complete, "type", "treatment")
    if types["type"].n_unique() > 1:
        of_types = _means(types, "treatment").with_columns(type=pl.lit(ALL_TYPES))
        of_tasks = _means(complete, "treatment").with_columns(type=pl.lit(ALL_TASKS))
        of_types = of_types.with_columns(tasks=of_tasks["tasks"])
        types = pl.concat([types, of_types, of_tasks], how="diagonal")
    first = log.measured[0]
    by_type = _compared(types, "type", first)
    return {"verdicts": NO_VERDICTS, "types": by_type, "tasks": _compared(tasks, "task", first)}


def _means(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Mean scores by these columns, with the number of tasks."""
    grouped = frame.group_by(keys, maintain_order=True)
    return grouped.agg(pl.len().alias("tasks"), pl.col("score").mean())


def _compared(frame: pl.DataFrame, key: str, first: str) -> pl.DataFrame:
    """The frame with changes against the first treatment, which has none."""
    baseline = frame.filter(treatment=first).select(key, before="score")
    joined = frame.join(baseline, on=key, how="left", maintain_order="left")
    change = pl.when(pl.col("treatment") != first).then(pl.col("score") - pl.col("before"))
    joined = joined.with_columns(change=change)
    share = pl.when(pl.col("before") != 0).then(pl.col("change") / pl.col("before").abs())
    return joined.with_columns(relative=share).drop("before")
