"""What tasks that mteb scores show: scores by task and by type, and changes against the first."""

from collections.abc import Mapping

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.frames import values_of
from fairspan.report.table import Column, Table
from fairspan.report.text import model_name, number
from fairspan.report.view import FEW_BARS, Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.summary import ALL_TYPES

_NO_INTERVALS = (
    "mteb gives one score per task, so there are no intervals over queries and no verdicts; a "
    "search that is named alone has them"
)
_METHODS = (
    """mteb computes the main score of every task from vectors that are embedded under each
    treatment, with the model's own prompts. Where a task has several subsets or splits, the score
    is their mean. Texts without a side, as in classification, are embedded as documents.""",
    """The score of a type is the mean over its tasks, and the mean of types counts every type once.
    Relative changes are against the first treatment, as in Table 1 of the length-collapse
    paper.""",
)
_COLUMNS = {
    "score": Column("score", form=".4f"),
    "relative": Column("relative change", form="+.2%"),
}


def benchmark_view(log: RunLog, frames: Mapping[str, pl.DataFrame]) -> View:
    """Everything that scores of mteb have to show."""
    where = model_name(log.model)
    tables = tuple(
        Table.from_frame(
            f"{unit}s",
            f"Scores by {unit} ({where})",
            frames[f"{unit}s"],
            heads=(unit, second, "treatment"),
            columns=_COLUMNS,
            grouped=2,
            notes=notes,
            brief=True,
        )
        for unit, second, notes in (("type", "tasks", (_NO_INTERVALS,)), ("task", "measure", ()))
    )
    intro = "Main scores of mteb, and how they change against the first treatment."
    charts = (_chart(log, frames["types"]),) if len(frames["types"]) else ()
    section = Section("Scores of mteb", intro, charts=charts, tables=tables)
    return View(
        title=f"Scores of {where} on tasks of mteb",
        heading=_heading(log),
        cards=_cards(log, frames),
        sections=(section,),
        frames=frames,
        notes=(*log.notes, *_missing(log)),
        switch=tuple(log.measured),
        all_first=len(log.measured) <= FEW_BARS,
        methods=tuple(" ".join(words.split()) for words in _METHODS),
    )


def _heading(log: RunLog) -> str:
    """How many tasks were scored, in which time."""
    seconds = log.header.timings.seconds
    took = "" if seconds is None else f", {seconds:.0f} s"
    types = log.rows["part"].n_unique()
    tasks = log.rows["document"].n_unique()
    return f"{model_name(log.model)}: {tasks} tasks of mteb, {types} types{took}"


def _missing(log: RunLog) -> list[str]:
    """Which tasks an interrupted run has not scored."""
    scored = values_of(log.rows, "document")
    missing = [name for name in log.header.searched.names if name not in scored]
    return [f"not scored: {', '.join(missing)}"] if missing else []


def _cards(log: RunLog, frames: Mapping[str, pl.DataFrame]) -> tuple[Card, ...]:
    """The mean of each treatment, how it changes, and in how many tasks."""
    types = frames["types"]
    means = types.filter(type=ALL_TYPES) if ALL_TYPES in types["type"] else types
    cards = []
    for row in means.iter_rows(named=True):
        score = f"{row['type']} {number(row['score'], '.4f')}"
        changes = frames["tasks"].filter(treatment=row["treatment"])["change"]
        if row["change"] is None:
            cards.append(Card(row["treatment"], "baseline", "plain", (score,)))
            continue
        counted = f"higher in {(changes > 0).sum()} of {len(changes)} tasks"
        badge = number(row["relative"], "+.2%")
        cards.append(Card(row["treatment"], badge, "plain", (f"{score}, {counted}",)))
    return tuple(cards)


def _chart(log: RunLog, types: pl.DataFrame) -> Chart:
    """Relative changes by type, or scores where there is only one treatment."""
    labels = tuple(values_of(types, "type"))
    compares = len(log.measured) > 1
    column = "relative" if compares else "score"
    form = _COLUMNS[column].form
    series = []
    for place, treatment in list(enumerate(log.measured))[compares:]:
        values = types.filter(treatment=treatment).select("type", column).rows()
        points = {
            name: Point(value, told=f"{treatment}, {name}\n{column} {number(value, form)}")
            for name, value in values
            if value is not None
        }
        series.append(Series(treatment, place, tuple(map(points.get, labels))))
    what = f"change against {log.measured[0]}" if compares else "score"
    return Chart(
        "scores-by-type",
        "Change of mteb's scores by type" if compares else "Scores of mteb by type",
        "bars",
        "type of task",
        f"relative {what}" if compares else what,
        (Panel("all tasks", labels, tuple(series)),),
        subtitle=model_name(log.model),
        form=form,
        brief=True,
    )
