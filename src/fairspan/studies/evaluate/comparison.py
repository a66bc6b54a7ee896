"""Two treatments on the same queries, from one evaluation or from two."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.frames import frame_of
from fairspan.report.table import CHANGE, P_VALUE, Column, Table
from fairspan.report.text import with_bounds
from fairspan.retrieval.indexes import WHOLE
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.studies.evaluate.arms import Arm, Change, pairs_to_compare
from fairspan.studies.evaluate.measures import (
    QUERY_KEYS,
    Columns,
    Compared,
    Groups,
    SearchArm,
    by_window,
    change_columns,
    compared,
    metrics_of,
    value_groups,
    window_of,
)
from fairspan.studies.evaluate.verdicts import groups_of, verdict_of, verdicts_of


@dataclass(frozen=True, slots=True)
class Paired:
    """Two arms on the queries that both asked of the same documents, in one metric and index."""

    before: Arm
    after: Arm
    index: str
    metric: str
    rows: pl.DataFrame

    def sides(self, groups: Groups | None) -> tuple[Compared, Compared]:
        """Both, and the change from the first one in the second."""
        first = SearchArm(self.before.treatment, self.index)
        second = SearchArm(self.after.treatment, self.index)
        values = self.rows.with_columns(value="value_second")
        before = compared(first, self.rows, groups, None)
        return before, compared(second, values, groups, before.values)

    @property
    def label(self) -> Columns:
        """The columns of a frame that say what is compared."""
        arms = SearchArm(f"{self.before.treatment} → {self.after.treatment}", self.index)
        return {
            "first_run": self.before.log.run,
            "second_run": self.after.log.run,
            "first_treatment": self.before.treatment,
            "second_treatment": self.after.treatment,
            "treatments": str(arms),
            "index": self.index,
            "metric": self.metric,
        }


def compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """The paired changes over all queries, by length and by fifth of the document, as tables.

    Without `treatments`, one of each side, those of one run are compared with its first, and those
    of two runs each with itself.
    """
    pairs = [
        paired for pair in pairs_to_compare(first, second, treatments) for paired in _pairs(*pair)
    ]
    runs = "" if second is None or first.run == second.run else f" ({first.run} → {second.run})"
    columns = {"queries": Column("queries", form=",d"), "change": CHANGE}
    tables = [
        Table(
            "search-changes",
            f"Changes on the same queries{runs}",
            frame_of([row for paired in pairs for row in _rows(paired, None, "")]),
            heads=("treatments", "metric"),
            columns={**columns, "change_p": P_VALUE},
            grouped=1,
            brief=True,
        )
    ]
    for column, words in (("length", "length"), ("position", "fifth")):
        rows = [row for paired in pairs for row in _rows(paired, _grouped(paired, column), column)]
        if rows:
            table = Table(
                f"search-changes-by-{column}",
                f"Changes by {words} of the document{runs}",
                frame_of(rows),
                heads=("treatments", "metric", column),
                columns=columns,
                grouped=2,
            )
            tables.append(table)
    return tables


def _grouped(paired: Paired, column: str) -> Groups | None:
    """The queries by what their documents are: short or long for the first model, or by fifth."""
    if column == "length":
        return by_window(paired.rows, window_of(paired.before.log))
    return value_groups(paired.rows["fifth"])


def _rows(paired: Paired, groups: Groups | None, column: str) -> list[Columns]:
    """A row for all queries, or for each group if there is a column of groups."""
    if column and groups is None:
        return []
    _, after = paired.sides(groups)
    names = groups.names if groups else ("",)
    rows = []
    for place, name in enumerate(names, start=1 if groups else 0):
        change = after.changes[place] if after.changes else None
        label = {**paired.label, **({column: name} if column else {})}
        counted = {"queries": after.counts[place][0]}
        p = {} if column or change is None else {"change_p": change.p}
        rows.append({**label, **counted, **p, **change_columns(change)})
    return rows


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
    allowed = float(first.analysis.margin) if margin is None else margin
    shown = []
    if second is None and treatments is None:
        metric = metrics_of(first)[0]
        for verdict in verdicts_of(first, allowed):
            arms = (Arm(first, first.measured[0]), Arm(first, verdict.treatment))
            shown.append(Change(*arms, metric, verdict.verdict, " ".join(verdict.sentences)))
    pairs = [
        paired
        for pair in pairs_to_compare(first, second, treatments)
        for paired in _first_metric(_pairs(*pair), metrics_of(first))
        if not (shown and paired.index == WHOLE)
    ]
    sides = [paired.sides(by_window(paired.rows, window_of(first))) for paired in pairs]
    p_values = holm([after.changes.p[0] for _, after in sides if after.changes])
    for paired, (before, after), p in zip(pairs, sides, p_values, strict=True):
        groups = groups_of(before, after, float(p), allowed)
        numbers = "; ".join(f"{group.name} {with_bounds(group.change, '+.3f')}" for group in groups)
        where = "" if paired.index == WHOLE else f", {paired.index}"
        words = f"{paired.metric}{where}: {numbers}"
        shown.append(Change(paired.before, paired.after, paired.metric, verdict_of(groups), words))
    return shown


def _first_metric(pairs: Iterator[Paired], metrics: Sequence[str]) -> list[Paired]:
    """Those of the first metric that is shared."""
    listed = list(pairs)
    shared = {paired.metric for paired in listed}
    metric = next(name for name in metrics if name in shared)
    return [paired for paired in listed if paired.metric == metric]


def _pairs(before: Arm, after: Arm) -> Iterator[Paired]:
    """After minus before, metric by metric and index by index."""
    joined = _metric_rows(before).join(
        _metric_rows(after),
        on=["measure", "index", *QUERY_KEYS],
        suffix="_second",
        maintain_order="left",
    )
    if joined.is_empty():
        raise FairspanError(
            f"{before.log.run} and {after.log.run} have no query in common: paired differences "
            "need the same task, seed and metrics."
        )
    parts = joined.partition_by("measure", "index", as_dict=True, maintain_order=True)
    for (metric, index), rows in parts.items():
        yield Paired(before, after, str(index), str(metric), rows)


def _metric_rows(side: Arm) -> pl.DataFrame:
    return side.log.rows.filter(
        pl.col("measure").is_in(metrics_of(side.log)), treatment=side.treatment
    )
