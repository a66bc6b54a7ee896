"""The statistics of an evaluation's log, and of two evaluations on the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.log import AuditLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.holm import holm
from fairspan.stats.queries import QueryChange, QueryCounts, QueryEffects, query_change, query_effects
from fairspan.studies.evaluate.advice import advise, is_advised
from fairspan.studies.evaluate.results import (
    DOCUMENTS_ONLY,
    Advice,
    Arm,
    Change,
    Result,
    RetrievalSummary,
    interval_dict,
)

__all__ = [
    "DOCUMENTS_ONLY",
    "Advice",
    "Arm",
    "Change",
    "Result",
    "RetrievalSummary",
    "arms_of",
    "compare_searches",
    "interval_dict",
    "sorted_rows",
    "summarize_search",
]

# Absolute positions are told in runs of so many tokens, of which the last one is open.
RUN, MOST_RUNS = 128, 8
_QUERY = ["lead", "later", "order", "query", "document"]


def summarize_search(log: AuditLog) -> RetrievalSummary:
    """Statistics of every arm of an evaluation's log."""
    if log.header.get("verb") != "evaluate":
        raise LogError(f"the run {log.run} is an {log.header.get('verb')}, not an evaluation.")
    rows = log.rows.with_columns(plan=_plan())
    arms = arms_of(log)
    metrics = [metric for metric in log.spec["metrics"] if metric in rows["measure"].unique().to_list()]
    metrics = metrics or rows["measure"].unique(maintain_order=True).to_list()
    plans = rows["plan"].unique(maintain_order=True).to_list()
    seed = int(log.header["seed"])
    results, changes = [], []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(pl.col("plan") == plan)
        for metric in metrics:
            own = part.filter(pl.col("measure") == metric)
            found = {arm: sorted_rows(own, arm) for arm in arms}
            results += [_result(found[arm], arm, metric, plan, seed) for arm in arms]
            changes += _changes(found, metric, plan, seed)
    summary = RetrievalSummary(log, arms[0], tuple(results), tuple(changes), _runs(rows, arms, metrics[0], seed), ())
    margin = float(log.spec["margin"])
    if all(np.isnan(change.p_value) for change in changes):
        return summary
    advice = tuple(advise(summary, arm.treatment, margin) for arm in arms[1:] if is_advised(arm, log.treatments))
    return RetrievalSummary(log, arms[0], summary.results, summary.changes, summary.runs, advice)


def compare_searches(first: AuditLog, second: AuditLog, treatments: tuple[str, str]) -> list[Change]:
    """Second minus first, on the queries that both runs asked of the same documents, index by index."""
    _refuse_other_pages(first, second)
    found = []
    for log, treatment in zip((first, second), treatments, strict=True):
        if treatment not in log.treatments:
            raise LogError(f"the run {log.run} has no treatment {treatment!r}, only {', '.join(log.treatments)}.")
        chosen = (pl.col("treatment") == treatment) & (pl.col("measure") != "rank")
        found.append(log.rows.filter(chosen).with_columns(plan=_plan()))
    # Of a page that has the same name in another draw, something else may stand at the query's position.
    keys = ["measure", "part", *_QUERY, *(["position"] if found[0]["lead"].null_count() < len(found[0]) else [])]
    joined = found[0].join(found[1], on=keys, suffix="_second", nulls_equal=True, maintain_order="left")
    if joined.is_empty():
        raise LogError(
            f"{first.run} and {second.run} have no query in common: paired differences need the same task, seed and "
            "metrics."
        )
    seed = int(first.header["seed"])
    changes = []
    for (metric, index), rows in joined.partition_by("measure", "part", as_dict=True, maintain_order=True).items():
        names, groups = _groups(rows)
        after = rows.with_columns(value=pl.col("value_second"))
        change = _change(rows, after, groups, seed)
        arm = Arm(f"{treatments[0]} → {treatments[1]}", str(index))
        changes.append(Change(arm, str(metric), "", names, change, change.p_value, change.p_psi))
    return changes


def _refuse_other_pages(first: AuditLog, second: AuditLog) -> None:
    """Pages are named by their place in the draw, so that other pages may have the same names."""
    tasks = [log.header["task"] for log in (first, second)]
    pages = any(task.get("positions") == "segments" for task in tasks)
    if pages and tasks[0].get("fingerprints") != tasks[1].get("fingerprints"):
        raise LogError(
            f"{first.run} and {second.run} searched different pages: paired differences need the same corpus, "
            "lengths, seed and tokenizer."
        )


def _plan() -> pl.Expr:
    lead, later = pl.col("lead").fill_null(""), pl.col("later").fill_null("")
    return pl.when(lead == later).then(lead).otherwise(lead + ":" + later)


def arms_of(log: AuditLog) -> list[Arm]:
    """What was searched, in the order of the treatments, whole documents first."""
    arms = [Arm(*pair) for pair in log.rows.select("treatment", "part").unique(maintain_order=True).rows()]
    return sorted(arms, key=lambda arm: (log.treatments.index(arm.treatment), arm.index != "whole"))


def sorted_rows(rows: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm, so ordered that those of two arms stand beside each other."""
    return rows.filter((pl.col("treatment") == arm.treatment) & (pl.col("part") == arm.index)).sort(_QUERY)


def _result(rows: pl.DataFrame, arm: Arm, metric: str, plan: str, seed: int) -> Result:
    names, groups = _groups(rows)
    values, clusters = rows["value"].to_numpy(), rows["set"].to_numpy()
    if _alone(rows):
        counts = QueryCounts(len(rows), rows["set"].n_unique(), ())
        return Result(arm, metric, plan, (), QueryEffects(_bare(values), (), _bare([]), _bare([]), counts))
    return Result(arm, metric, plan, names, query_effects(values, groups, clusters, rng=np.random.default_rng(seed)))


def _changes(found: Mapping[Arm, pl.DataFrame], metric: str, plan: str, seed: int) -> list[Change]:
    baseline, *others = found
    names, groups = _groups(found[baseline])
    names = () if _alone(found[baseline]) else names
    changes = [_change(found[baseline], found[arm], groups, seed) for arm in others]
    p_values, p_psi = holm([one.p_value for one in changes]), holm([one.p_psi for one in changes])
    return [
        Change(arm, metric, plan, names, change, float(p), float(q))
        for arm, change, p, q in zip(others, changes, p_values, p_psi, strict=True)
    ]


def _change(first: pl.DataFrame, second: pl.DataFrame, groups: np.ndarray, seed: int) -> QueryChange:
    before, after, clusters = first["value"].to_numpy(), second["value"].to_numpy(), first["set"].to_numpy()
    if _alone(first):
        none, counts = _bare([]), QueryCounts(len(first), len(first), ())
        return QueryChange(_bare(after - before), (), none, none, none, none, np.nan, np.nan, counts)
    return query_change(before, after, groups, clusters, rng=np.random.default_rng(seed))


def _alone(rows: pl.DataFrame) -> bool:
    """Whether there is nothing to resample: scores that are no means over queries, or a single query."""
    return rows["document"].null_count() == len(rows) or rows["set"].n_unique() < 2


def _bare(values: Any) -> Interval:
    """A mean without an interval."""
    mean = float(np.mean(values)) if len(values) else np.nan
    return Interval(mean, np.nan, np.nan, "there are no queries to resample")


def _groups(rows: pl.DataFrame) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the positions that occur, and which of them every query's evidence is at; 0 where unknown."""
    positions = rows["position"].fill_null(0).to_numpy()
    return _numbered(positions, [str(number) for number in range(int(positions.max(initial=0)) + 1)])


def _runs(rows: pl.DataFrame, arms: Sequence[Arm], metric: str, seed: int) -> tuple[Result, ...]:
    if rows["offset"].null_count() == len(rows) or _alone(rows):
        return ()
    found = []
    for arm in arms:
        own = sorted_rows(rows.filter(pl.col("measure") == metric), arm)
        runs = np.minimum(own["offset"].fill_null(-RUN).to_numpy() // RUN, MOST_RUNS - 1) + 1
        last = int(runs.max())
        names = ["", *(f"{RUN * number}–{RUN * number + RUN - 1}" for number in range(last))]
        if last == MOST_RUNS:
            names[-1] = f"{RUN * (last - 1)}…"
        kept, groups = _numbered(runs, names)
        values, clusters = own["value"].to_numpy(), own["set"].to_numpy()
        effects = query_effects(values, groups, clusters, rng=np.random.default_rng(seed))
        found.append(Result(arm, metric, "", kept, effects))
    return tuple(found)


def _numbered(groups: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Groups without the empty ones between them."""
    there = [number for number in np.unique(groups).tolist() if number > 0]
    renumbered = np.zeros(len(groups), dtype=np.int64)
    for place, number in enumerate(there, start=1):
        renumbered[groups == number] = place
    return tuple(names[number] for number in there), renumbered
