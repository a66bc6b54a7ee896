"""`view_of` a tuning: the answer first, what is found where, and every candidate."""

import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.report.chart import Chart, Panel, Series, point
from fairspan.report.frames import interval, values_of
from fairspan.report.table import CHANGE, VERDICTS, Column, Table
from fairspan.report.text import bounds, model_name, number, with_bounds
from fairspan.report.view import Card, Section, View
from fairspan.runs.folder import write_calibration
from fairspan.runs.log import RunLog
from fairspan.studies.tune.entries import TuneEntries
from fairspan.studies.tune.options import QUERY_TOKENS
from fairspan.studies.tune.summary import frames_of
from fairspan.studies.tune.vectors import vectors_section

TASK = (
    "Passages were cut out of the documents, and ask for what is left of them. They were shortened "
    "until the plain model finds no more than 0.8 of them, since what is always found shows "
    "nothing."
)
SHORTENED = (
    "queries have at most {} tokens, so that the plain model does not find nearly all; evaluate "
    "asks with up to 60, so it finds more in the same documents"
)
RULE = (
    "The documents were halved. Each half prefers the candidate that finds most in it, and the "
    "other half confirms it, so that every document counts once and none judges what it chose. If "
    "the halves prefer different candidates, figures are those of the better one on the half that "
    "did not choose it. "
    "Intervals are 95 %, by the jackknife over documents."
)
CHANGES = (
    "change: from the plain model on the same queries, not corrected for the number of candidates"
)
PAGE = "tune.html"


def view_of(log: RunLog) -> View:
    """Everything that a tuning has to show."""
    frames = frames_of(log)
    _, chosen, word, sentence, *_ = frames["verdicts"].row(0)
    lengths = log.header.part(TuneEntries).query_tokens
    shortened = {name: most for name, most in lengths.items() if most and most < QUERY_TOKENS[0]}
    asked = [f"{name}: {SHORTENED.format(most)}" for name, most in shortened.items()]
    makers = {
        "positions": _positions,
        "guards": _guards,
        "candidates": _candidates,
        "vectors": vectors_section,
    }
    sections = [make(log, frames[name]) for name, make in makers.items() if name in frames]
    pictures = [name for name in ("positions", "candidates") if name in frames]
    switch = values_of(frames["positions"], "treatment") if "positions" in frames else ()
    return View(
        title=f"Which treatment to use with {model_name(log.model)}",
        heading=log.where,
        cards=(Card(chosen, word, VERDICTS[word], (sentence,)),),
        sections=tuple(sections),
        frames=frames,
        picture=next(iter(pictures), ""),
        notes=(*log.notes, *asked),
        switch=tuple(switch),
        all_first=True,
        methods=(TASK, RULE) if asked else (RULE,),
    )


def _positions(log: RunLog, frame: pl.DataFrame) -> Section:
    """What is found by the position of the evidence, before and after."""
    metric = str(log.spec["metric"])
    names = values_of(frame, "treatment")
    tasks = values_of(frame, "task")
    panels = []
    for task in tasks:
        rows = frame.filter(task=task)
        series = []
        for place, name in enumerate(names):
            points = []
            for row in rows.filter(treatment=name).to_dicts():
                value = interval(row)
                facts = f"{name}, position {row['group']}\n{with_bounds(value)}"
                points.append(point(value, facts))
            series.append(Series(name, place, tuple(points)))
        labels = tuple(str(group) for group in values_of(rows, "group"))
        panels.append(Panel(task, labels, tuple(series)))
    infos = [info for info in log.header.part(TuneEntries).tasks if info.name in tasks]
    of_parts = any(info.positions == "segments" for info in infos)
    checked = "on the documents that did not choose it: all if both halves did, or else one half."
    chart = Chart(
        "positions",
        "What is found, by where it stands in the document",
        "bars",
        "segment" if of_parts else "fifth of the document",
        metric,
        tuple(panels),
        subtitle=_subtitle(log),
        brief=True,
    )
    return Section("What is found where", f"As in the answer: {checked}", charts=(chart,))


def _guards(log: RunLog, frame: pl.DataFrame) -> Section:
    """What the choice changes on guards and tasks."""
    table = Table.from_frame(
        "guards",
        "What must not get worse",
        frame,
        heads=("task", "treatment"),
        columns={"change": Column(f"change of {log.spec['metric']} [95 %]", form="+.3f")},
        notes=(f"a loss below {log.spec['margin']:g} counts as none",),
    )
    return Section("Guards", tables=(table,))


def _candidates(log: RunLog, frame: pl.DataFrame) -> Section:
    """How quality changes with every candidate."""
    metric = str(log.spec["metric"])
    columns: dict[str, Column | str] = {"quality": metric, "change": CHANGE}
    if frame["psi"].is_finite().any():
        columns["psi"] = Column("PSI", form=".2f")
    columns["outcome"] = Column("", align="left")
    table = Table.from_frame(
        "candidates",
        f"Every candidate on all documents ({model_name(log.model)})",
        frame,
        heads=("treatment",),
        columns=columns,
        notes=(CHANGES,),
        brief=True,
    )
    rows = frame.filter(pl.col("treatment") != PLAIN).to_dicts()
    points = []
    for row in rows:
        change = interval(row, "change_")
        facts = (row["means"], f"{metric} {number(row['quality'])}", row["outcome"])
        points.append(point(change, "\n".join(filter(None, facts)), bounds(change, "+.3f")))
    series = Series(f"change of {metric}", -1, tuple(points))
    chart = Chart(
        "candidates",
        "Which treatment finds more",
        "rows",
        "treatment",
        series.name,
        (Panel("all queries", tuple(row["treatment"] for row in rows), (series,)),),
        subtitle=_subtitle(log),
        form="+.3f",
    )
    return Section("Every candidate", tables=(table,), charts=(chart,))


def _subtitle(log: RunLog) -> str:
    return f"{model_name(log.model)}, {log.header.searched.source}"


def write_results(log: RunLog) -> None:
    """Write the calibration to use, and the page, where they are missing or older than the log."""
    treatments = {table["name"]: table for table in log.spec["treatments"]}
    chosen = Treatment.from_dict(treatments[log.verdicts["treatment"][0]])
    write_calibration(log.folder, chosen.calibration)
    page = log.folder / PAGE
    if not page.is_file() or page.stat().st_mtime < (log.folder / "run.json").stat().st_mtime:
        log.save_page(page)
