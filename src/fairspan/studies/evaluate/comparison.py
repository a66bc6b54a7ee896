"""Two treatments on the same queries, from one evaluation or from two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.frames import columns_of, frame_of
from fairspan.report.table import Column, Table
from fairspan.report.text import with_bounds
from fairspan.runs.log import RunLog
from fairspan.runs.search_rows import SHARE, TRANSLATION_RANK
from fairspan.runs.sides import Change, pairs_to_compare
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import judge_loss
from fairspan.stats.queries import QueryChange
from fairspan.studies.evaluate.measures import (
    QUERY_KEYS,
    RANK,
    Arm,
    Record,
    change_columns,
    change_of,
    languages_of,
    query_groups,
)


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric in one index: the second treatment minus the first, query by query, also by named groups of them."""

    treatments: tuple[str, str]
    index: str
    metric: str
    groups: tuple[str, ...]
    change: QueryChange


def compare(first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None) -> list[Table]:
    """The paired changes over all queries and by position or pair of languages, as tables.

    Args:
        second: another run on the same queries; without one, treatments of the first run are compared.
        treatments: one of each side. Without them treatments of one run are compared with its first, and those of two
            runs each with itself.
    """
    other = second or first
    pairs = [(one.treatment, two.treatment) for one, two in pairs_to_compare(first, second, treatments)]
    changes, groups = list[Record](), list[Record]()
    group = "languages" if languages_of(first) else "position"
    for one in (change for pair in pairs for change in compare_searches(first, other, pair)):
        named = {
            "first_run": first.run,
            "second_run": other.run,
            "first_treatment": one.treatments[0],
            "second_treatment": one.treatments[1],
            "treatments": str(Arm(" → ".join(one.treatments), one.index)),
            "index": one.index,
            "metric": one.metric,
        }
        change = one.change
        tested = {"queries": change.counts.queries, "p_value": change.p_value, "p_psi": change.p_psi}
        changes.append({**named, **tested, **change_columns(change)})
        for name, count, own in zip(one.groups, change.counts.group_queries, change.groups, strict=True):
            groups.append({**named, group: name, "queries": count, **columns_of(own, "change_")})
    sides = "" if first.run == other.run else f" ({first.run} → {other.run})"
    counted, changed = Column("queries", form=",d"), Column("change [95 %]", form="+.3f")
    psi = Column("change of PSI [95 %]", form="+.3f")
    tables = [
        Table.from_frame(
            "search-changes",
            f"Changes on the same queries{sides}",
            frame_of(changes),
            heads=("treatments", "metric"),
            columns={"queries": counted, "change": changed, "p_value": Column("p", form="p"), "psi_change": psi},
            grouped=1,
            brief=True,
        )
    ]
    if groups:
        by = "languages of query and document" if languages_of(first) else "position of the evidence"
        tables.append(
            Table.from_frame(
                f"search-changes-by-{group}",
                f"Changes by {by}{sides}",
                frame_of(groups),
                heads=("treatments", "metric", group),
                columns={"queries": counted, "change": changed},
                grouped=2,
            )
        )
    return tables


def changes(
    first: RunLog,
    second: RunLog | None = None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """Whether the first metric falls, pair by pair and index by index.

    A fall has to pass Holm's correction for all that is compared, too.
    """
    allowed = float(first.spec["margin"]) if margin is None else margin
    found = []
    for sides in pairs_to_compare(first, second, treatments):
        paired = compare_searches(sides[0].log, sides[1].log, (sides[0].treatment, sides[1].treatment))
        found += [(sides, one) for one in paired if one.metric == paired[0].metric]
    adjusted = holm(np.array([one.change.p_value for _, one in found]))
    judged = []
    for (sides, one), p in zip(found, adjusted, strict=True):
        overall = one.change.overall
        kind = judge_loss(-overall.high, -overall.low, allowed)
        if kind == "worse" and not p < 0.05:
            kind = "inconclusive"
        where = "" if one.index == "whole" else f", {one.index}"
        judged.append(Change(*sides, one.metric, kind, f"{one.metric}{where} {with_bounds(overall, '+.3f')}"))
    return judged


def compare_searches(first: RunLog, second: RunLog, treatments: tuple[str, str]) -> list[Paired]:
    """Second minus first, on the queries that both runs asked of the same documents, index by index."""
    _refuse_other_pages(first, second)
    before, after = (
        log.rows.filter(~pl.col("measure").is_in([RANK, SHARE, TRANSLATION_RANK]), treatment=treatment)
        for log, treatment in zip((first, second), treatments, strict=True)
    )
    # A page of the same name in another draw may have something else at the query's position.
    placed = ["position"] if before["lead"].null_count() < len(before) else []
    keys = ["measure", "part", *QUERY_KEYS, *placed]
    joined = before.join(after, on=keys, suffix="_second", nulls_equal=True, maintain_order="left")
    if joined.is_empty():
        raise FairspanError(
            f"{first.run} and {second.run} have no query in common: paired differences need the same task, seed and "
            "metrics."
        )
    found = []
    for (metric, index), rows in joined.partition_by("measure", "part", as_dict=True, maintain_order=True).items():
        names, groups = query_groups(rows, languages_of(first))
        change = change_of(rows, rows["value_second"].to_numpy(), groups, int(first.header["seed"]))
        found.append(Paired(treatments, str(index), str(metric), names if change.groups else (), change))
    return found


def _refuse_other_pages(first: RunLog, second: RunLog) -> None:
    """Pages are named by their place in the draw, so that other pages may have the same names."""
    tasks = [log.header["task"] for log in (first, second)]
    pages = any(task.get("positions") == "segments" for task in tasks)
    if pages and tasks[0].get("fingerprints") != tasks[1].get("fingerprints"):
        raise FairspanError(
            f"{first.run} and {second.run} searched different pages: paired differences need the same corpus, "
            "lengths, seed and tokenizer."
        )
