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
from fairspan.stats.equivalence import judge_loss
from fairspan.stats.queries import QueryChange
from fairspan.studies.evaluate import measures
from fairspan.studies.evaluate.measures import QUERY_KEYS, RANK, Record, languages_of


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric in one index: the second side minus the first, query by query, also by named groups of them."""

    index: str
    metric: str
    groups: tuple[str, ...]
    change: QueryChange


def compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """The paired changes over all queries and by position or pair of languages, as tables.

    Args:
        second: another run on the same queries; without one, treatments of the first run are compared.
        treatments: one of each side. Without them treatments of one run are compared with its first, and those of two
            runs each with itself.
    """
    changes, by_group = list[Record](), list[Record]()
    group, by = "position", "position of the evidence"
    if languages_of(first):
        group, by = "languages", "languages of query and document"
    for one, two in pairs_to_compare(first, second, treatments):
        for found in compare_searches(one, two):
            change = found.change
            named = {
                "first_run": one.log.run,
                "second_run": two.log.run,
                "first_treatment": one.treatment,
                "second_treatment": two.treatment,
                "treatments": str(measures.Arm(f"{one.treatment} → {two.treatment}", found.index)),
                "index": found.index,
                "metric": found.metric,
            }
            tested = {"queries": change.counts.queries, "p_value": change.p_value}
            changes.append({**named, **tested, **measures.change_columns(change)})
            for name, count, own in zip(
                found.groups, change.counts.group_queries, change.groups, strict=True
            ):
                by_group.append(
                    {**named, group: name, "queries": count, **columns_of(own, "change_")}
                )
    sides = "" if second is None or first.run == second.run else f" ({first.run} → {second.run})"
    columns = {"queries": Column("queries", form=",d"), "change": CHANGE}
    more = {"p_value": P_VALUE, "psi_change": Column("change of PSI [95 %]", form="+.3f")}
    tables = [
        Table.from_frame(
            "search-changes",
            f"Changes on the same queries{sides}",
            frame_of(changes),
            heads=("treatments", "metric"),
            columns={**columns, **more},
            grouped=1,
            brief=True,
        )
    ]
    if by_group:
        heads, title = ("treatments", "metric", group), f"Changes by {by}{sides}"
        frame = frame_of(by_group)
        tables.append(
            Table.from_frame(
                f"search-changes-by-{group}", title, frame, heads=heads, columns=columns, grouped=2
            )
        )
    return tables


def changes(
    first: RunLog,
    second: RunLog | None = None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """Whether the first metric falls or rises, pair by pair and index by index.

    Both have to pass Holm's correction for all that is compared, too.
    """
    allowed = float(first.spec["margin"]) if margin is None else margin
    found = []
    for sides in pairs_to_compare(first, second, treatments):
        paired = compare_searches(*sides)
        found += [(sides, one) for one in paired if one.metric == paired[0].metric]
    adjusted = holm(np.array([one.change.p_value for _, one in found]))
    judged = []
    for (sides, one), p in zip(found, adjusted, strict=True):
        overall = one.change.overall
        kind = judge_loss(
            -overall.high, -overall.low, allowed, "better" if p < 0.05 else "not worse"
        )
        if kind == "worse" and not p < 0.05:
            kind = "inconclusive"
        where = "" if one.index == "whole" else f", {one.index}"
        judged.append(
            Change(*sides, one.metric, kind, f"{one.metric}{where} {with_bounds(overall, '+.3f')}")
        )
    return judged


def compare_searches(one: Arm, two: Arm) -> list[Paired]:
    """Second minus first, on the queries that both runs asked of the same documents, index by index."""
    runs, tasks = (
        f"{one.log.run} and {two.log.run}",
        [side.log.header.searched for side in (one, two)],
    )
    # Pages are named by their place in the draw, so that other pages may have the same names.
    pages = any(task.positions == "segments" for task in tasks)
    if pages and tasks[0].fingerprints != tasks[1].fingerprints:
        raise FairspanError(
            f"{runs} searched different pages: paired differences need the same corpus, lengths, seed and tokenizer."
        )
    before, after = (
        side.log.rows.filter(~pl.col("measure").is_in([RANK, SHARE]), treatment=side.treatment)
        for side in (one, two)
    )
    # A page of the same name in another draw may have something else at the query's position.
    placed = ["position"] if before["lead"].null_count() < len(before) else []
    keys = ["measure", "part", *QUERY_KEYS, *placed]
    joined = before.join(after, on=keys, suffix="_second", nulls_equal=True, maintain_order="left")
    if joined.is_empty():
        raise FairspanError(
            f"{runs} have no query in common: paired differences need the same task, seed and metrics."
        )
    found, languages, seed = [], languages_of(one.log), one.log.header.seed
    for (metric, index), rows in joined.partition_by(
        "measure", "part", as_dict=True, maintain_order=True
    ).items():
        names, groups = measures.query_groups(rows, languages)
        change = measures.change_of(rows, rows["value_second"].to_numpy(), groups, seed)
        found.append(Paired(str(index), str(metric), names, change))
    return found
