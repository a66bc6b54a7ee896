"""Two treatments on the same queries, from one evaluation or from two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.frames import columns_of, frame_of
from fairspan.report.table import CHANGE, P_VALUE, Column, Table
from fairspan.report.text import with_bounds
from fairspan.runs.arms import Arm, Change, pairs_to_compare
from fairspan.runs.log import RunLog
from fairspan.runs.search_rows import SHARE
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import size_words
from fairspan.stats.queries import QueryChange
from fairspan.studies.evaluate import measures
from fairspan.studies.evaluate.measures import QUERY_KEYS, RANK, Columns, SearchArm
from fairspan.studies.evaluate.verdicts import judge, judge_treatments


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric in one index: the second side minus the first, over all queries and by group."""

    index: str
    metric: str
    groups: tuple[str, ...]
    change: QueryChange


def compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """The paired changes over all queries and by position or pair of languages, as tables.

    Without `treatments`, one of each side, those of one run are compared with its first, and those
    of two runs each with itself.
    """
    _refuse_benchmarks(first, second)
    overall = list[Columns]()
    by_group = list[Columns]()
    group = "languages" if measures.languages_of(first) else "position"
    for before, after in pairs_to_compare(first, second, treatments):
        for paired in compare_searches(before, after):
            change = paired.change
            searched = SearchArm(f"{before.treatment} → {after.treatment}", paired.index)
            labels = {
                "first_run": before.log.run,
                "second_run": after.log.run,
                "first_treatment": before.treatment,
                "second_treatment": after.treatment,
                "treatments": str(searched),
                "index": paired.index,
                "metric": paired.metric,
            }
            tested = {"queries": change.counts.queries, "p_value": change.p_value}
            overall.append({**labels, **tested, **measures.change_columns(change)})
            for name, count, group_change in zip(
                paired.groups, change.counts.group_queries, change.groups, strict=True
            ):
                counted = {group: name, "queries": count}
                by_group.append({**labels, **counted, **columns_of(group_change, "change_")})
    runs = "" if second is None or first.run == second.run else f" ({first.run} → {second.run})"
    columns = {"queries": Column("queries", form=",d"), "change": CHANGE}
    more = {"p_value": P_VALUE, "psi_change": Column("change of PSI [95 %]", form="+.3f")}
    tables = [
        Table.from_frame(
            "search-changes",
            f"Changes on the same queries{runs}",
            frame_of(overall),
            heads=("treatments", "metric"),
            columns={**columns, **more},
            grouped=1,
            brief=True,
        )
    ]
    if by_group:
        of = "query and document" if group == "languages" else "the evidence"
        table = Table.from_frame(
            f"search-changes-by-{group}",
            f"Changes by {group} of {of}{runs}",
            frame_of(by_group),
            heads=("treatments", "metric", group),
            columns=columns,
            grouped=2,
        )
        tables.append(table)
    return tables


def changes(
    first: RunLog,
    second: RunLog | None = None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """Whether the first metric falls or rises, pair by pair and index by index.

    The treatments of one run have the verdicts that the run shows on whole documents; a gain in
    other pairs has to pass Holm's correction for all of them.
    """
    _refuse_benchmarks(first, second)
    allowed = float(first.spec["margin"]) if margin is None else margin
    pairs = pairs_to_compare(first, second, treatments)
    shown: list[Change] = []
    if second is None and treatments is None:
        shown = _shown_verdicts(first, allowed)
        if all(arm.index == "whole" for arm in measures.arms_of(first)):
            return shown
    compared = []
    for pair in pairs:
        searches = compare_searches(*pair)
        shared = {search.metric for search in searches}
        metric = next(name for name in measures.metrics_of(first) if name in shared)
        compared += [
            (pair, search)
            for search in searches
            if search.metric == metric and not (shown and search.index == "whole")
        ]
    p_values = holm(np.array([search.change.p_value for _, search in compared]))
    p_psi = holm(np.array([search.change.p_psi for _, search in compared]))
    judged = []
    for (pair, search), p, q in zip(compared, p_values, p_psi, strict=True):
        kind = judge(search.change, p, q, allowed)
        where = "" if search.index == "whole" else f", {search.index}"
        change = search.change.overall
        words = f"{search.metric}{where} {with_bounds(change, '+.3f')}"
        words += size_words(kind, -change.high, allowed)
        judged.append(Change(*pair, search.metric, kind, words))
    return shown + judged


def _refuse_benchmarks(*logs: RunLog | None) -> None:
    """Raise if mteb scored a run: there are no queries to compare."""
    for log in logs:
        if log is not None and measures.is_benchmark(log):
            raise FairspanError(
                f"the run {log.run} has one score of mteb per task, and no queries to compare in "
                "pairs: its own tables compare the treatments."
            )


def _shown_verdicts(log: RunLog, margin: float) -> list[Change]:
    """The verdicts on whole documents that the run shows, as changes from its first treatment."""
    results = measures.first_metric_of(log)
    baseline = Arm(log, results[0].arm.treatment)
    shown = []
    for verdict in judge_treatments(log, results, margin):
        metric = verdict.result.metric
        bounds = with_bounds(verdict.change, "+.3f")
        words = f"{verdict.form}{metric} {bounds}{verdict.size(margin)}"
        shown.append(Change(baseline, Arm(log, verdict.treatment), metric, verdict.verdict, words))
    return shown


def compare_searches(before: Arm, after: Arm) -> list[Paired]:
    """After minus before, on the queries that both asked of the same documents, index by index."""
    runs = f"{before.log.run} and {after.log.run}"
    first = _metric_rows(before)
    # In another draw a page of this name may have something else at the query's position.
    placed = ["position"] if first["lead"].null_count() < len(first) else []
    joined = first.join(
        _metric_rows(after),
        on=["measure", "part", *QUERY_KEYS, *placed],
        suffix="_second",
        nulls_equal=True,
        maintain_order="left",
    )
    if joined.is_empty():
        raise FairspanError(
            f"{runs} have no query in common: paired differences need the same task, seed and "
            "metrics."
        )
    languages = measures.languages_of(before.log)
    seed = before.log.header.seed
    parts = joined.partition_by("measure", "part", as_dict=True, maintain_order=True)
    compared = []
    for (metric, index), rows in parts.items():
        names, groups = measures.query_groups(rows, languages)
        change = measures.change_of(rows, rows["value_second"].to_numpy(), groups, seed)
        compared.append(Paired(str(index), str(metric), names, change))
    return compared


def _metric_rows(side: Arm) -> pl.DataFrame:
    is_metric = ~pl.col("measure").is_in([RANK, SHARE])
    return side.log.rows.filter(is_metric, treatment=side.treatment)
