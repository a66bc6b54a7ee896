"""Two treatments on the same queries, from one evaluation or from two."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.report.table import Cell, Column, Table, row
from fairspan.report.text import with_bounds
from fairspan.runs.language_rows import SHARE, TRANSLATION_RANK
from fairspan.runs.log import RunLog
from fairspan.runs.sides import Change, pairs_to_compare
from fairspan.stats.distributions import holm
from fairspan.stats.loss import judge_loss
from fairspan.stats.queries import QueryChange
from fairspan.studies.evaluate.findings import change_ends, ends
from fairspan.studies.evaluate.summary import QUERY_KEYS, RANK, Arm, change_of, languages_of, query_groups


@dataclass(frozen=True, slots=True)
class Paired:
    """One metric in one index: the second treatment minus the first, query by query, also by named groups of them."""

    treatments: tuple[str, str]
    index: str
    metric: str
    groups: tuple[str, ...]
    change: QueryChange

    def __str__(self) -> str:
        return str(Arm(" → ".join(self.treatments), self.index))


def compare(first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None) -> list[Table]:
    """The paired changes over all queries and by position or pair of languages, as tables.

    Args:
        second: another run on the same queries; without one, treatments of the first run are compared.
        treatments: one of each side. Without them treatments of one run are compared with its first, and those of two
            runs each with itself.
    """
    other = second or first
    pairs = [(one.treatment, two.treatment) for one, two in pairs_to_compare(first, second, treatments)]
    found = [change for pair in pairs for change in compare_searches(first, other, pair)]
    changes = _change_table(first, other, found)
    return [changes, *([_group_table(first, other, found)] if any(one.groups for one in found) else [])]


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
    pairs = pairs_to_compare(first, second, treatments)
    found = [
        (sides, one)
        for sides in pairs
        for one in _first_metric(
            compare_searches(sides[0].log, sides[1].log, (sides[0].treatment, sides[1].treatment))
        )
    ]
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


def _first_metric(found: Sequence[Paired]) -> list[Paired]:
    return [one for one in found if one.metric == found[0].metric]


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
        raise LogError(
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
        raise LogError(
            f"{first.run} and {second.run} searched different pages: paired differences need the same corpus, "
            "lengths, seed and tokenizer."
        )


def _change_table(first: RunLog, second: RunLog, found: Sequence[Paired]) -> Table:
    rows, records = [], list[dict[str, Any]]()
    for one in found:
        change = one.change
        cells = [Cell(change.counts.queries, ",d"), Cell(change.overall, "+.3f"), Cell(change.p_value, "p")]
        rows.append(row(str(one), one.metric, cells=[*cells, Cell(change.psi, "+.3f")]))
        tested = {"queries": change.counts.queries, "p_value": change.p_value, "p_psi": change.p_psi}
        records.append({**_named(first, second, one), **tested, **change_ends(change)})
    columns = tuple(Column(name) for name in ("queries", "change [95 %]", "p", "change of PSI [95 %]"))
    title, heads = f"Changes on the same queries{_sides(first, second)}", ("treatments", "metric")
    frame = pl.DataFrame(records)
    return Table("search-changes", title, heads, columns, tuple(rows), frame, grouped=1, brief=True)


def _group_table(first: RunLog, second: RunLog, found: Sequence[Paired]) -> Table:
    rows, records = [], list[dict[str, Any]]()
    across = bool(languages_of(first))
    group = "languages" if across else "position"
    for one in found:
        counts = one.change.counts.group_queries
        for name, count, change in zip(one.groups, counts, one.change.groups, strict=True):
            rows.append(row(str(one), one.metric, name, cells=[Cell(count, ",d"), Cell(change, "+.3f")]))
            named = _named(first, second, one)
            records.append({**named, group: name, "queries": count, **ends("change_", change)})
    by = "languages of query and document" if across else "position of the evidence"
    name, title = f"search-changes-by-{group}", f"Changes by {by}{_sides(first, second)}"
    heads, columns = ("treatments", "metric", group), (Column("queries"), Column("change [95 %]"))
    return Table(name, title, heads, columns, tuple(rows), pl.DataFrame(records), grouped=2)


def _named(first: RunLog, second: RunLog, one: Paired) -> dict[str, str]:
    return {
        "first_run": first.run,
        "second_run": second.run,
        "first_treatment": one.treatments[0],
        "second_treatment": one.treatments[1],
        "index": one.index,
        "metric": one.metric,
    }


def _sides(first: RunLog, second: RunLog) -> str:
    return "" if first.run == second.run else f" ({first.run} → {second.run})"
