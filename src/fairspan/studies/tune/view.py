"""`view_of` a tuning: the answer first, what is found where, and every candidate."""

import polars as pl

from fairspan.calibration.calibration import CALIBRATION_FILE, PRESETS
from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.report.chart import Chart, Panel, Series, point
from fairspan.report.files import write_file
from fairspan.report.frames import interval, values_of
from fairspan.report.table import CHANGE, VERDICTS, Column, Table
from fairspan.report.text import bounds, model_name, number, with_bounds
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.tune.entries import TuneEntries
from fairspan.studies.tune.summary import frames_of

TASK = (
    "Passages were cut out of the documents, and ask for what is left of them. They were shortened until the plain "
    "model finds no more than 0.8 of them, since what is always found shows nothing."
)
RULE = (
    "The documents were halved. Each half prefers the candidate that finds most in it, and the other half confirms "
    "it, so that every document counts once and none judges what it chose. Intervals are 95 %, by the jackknife over "
    "documents."
)
PAGE = "tune.html"


def view_of(log: RunLog) -> View:
    """Everything that a tuning has to show."""
    frames = frames_of(log)
    _, chosen, word, sentence, *_ = frames["verdicts"].row(0)
    finished = "candidates" in frames
    return View(
        title=f"Which treatment to use with {model_name(log.model)}",
        heading=log.where,
        cards=(Card(chosen, word, VERDICTS[word], (sentence,)),),
        sections=_sections(log, frames) if finished else (),
        frames=frames,
        picture=("positions" if "positions" in frames else "candidates") if finished else "",
        notes=(*log.notes, *_asked(log)),
        switch=tuple(values_of(frames["positions"], "treatment")) if "positions" in frames else (),
        all_first=True,
        methods=(TASK, RULE)
        if any(log.header.part(TuneEntries).query_tokens.values())
        else (RULE,),
    )


def _asked(log: RunLog) -> list[str]:
    given = log.header.part(TuneEntries).query_tokens.items()
    return [f"{name}: queries have at most {tokens} tokens" for name, tokens in given if tokens]


def _sections(log: RunLog, frames: dict[str, pl.DataFrame]) -> tuple[Section, ...]:
    metric, model = str(log.spec["metric"]), model_name(log.model)
    rows = frames["candidates"]
    columns: dict[str, Column | str] = {"quality": metric, "change": CHANGE}
    if rows["psi"].is_finite().any():
        columns["psi"] = Column("PSI", form=".2f")
    columns["outcome"] = Column("", align="left")
    table = Table.from_frame(
        "candidates",
        f"Every candidate on all documents ({model})",
        rows,
        heads=("treatment",),
        columns=columns,
        notes=(
            "change: from the plain model on the same queries, not corrected for the number of candidates",
        ),
        brief=True,
    )
    every = Section("Every candidate", tables=(table,), charts=(_candidates_chart(log, rows),))
    found = [_positions_section(log, frames["positions"])] if "positions" in frames else []
    if "guards" in frames:
        heads, own = (
            ("task", "treatment"),
            {"change": Column(f"change of {metric} [95 %]", form="+.3f")},
        )
        note = f"a loss below {log.spec['margin']:g} counts as none"
        guards = Table.from_frame(
            "guards",
            "What must not get worse",
            frames["guards"],
            heads=heads,
            columns=own,
            notes=(note,),
        )
        found.append(Section("Guards", tables=(guards,)))
    return (*found, every)


def _positions_section(log: RunLog, rows: pl.DataFrame) -> Section:
    """What is found by the place of the evidence, before and after."""
    metric = str(log.spec["metric"])
    names, panels = values_of(rows, "treatment"), []
    for task in values_of(rows, "task"):
        own = rows.filter(task=task)
        labels, series = tuple(str(group) for group in values_of(own, "group")), []
        for place, name in enumerate(names):
            found = own.filter(treatment=name).to_dicts()
            points = [
                point(
                    interval(one), f"{name}, position {one['group']}\n{with_bounds(interval(one))}"
                )
                for one in found
            ]
            series.append(Series(name, place, tuple(points)))
        panels.append(Panel(task, labels, tuple(series)))
    of_parts = any(
        task.positions == "segments"
        for task in log.header.part(TuneEntries).tasks
        if task.name in rows["task"]
    )
    unit = "segment" if of_parts else "fifth of the document"
    chart = Chart(
        "positions",
        "What is found, by where it stands in the document",
        f"{metric} of the plain model and of the choice, each half of the documents under what the other half chose.",
        "bars",
        unit,
        metric,
        tuple(panels),
        subtitle=f"{model_name(log.model)}, {log.header.searched.source}",
        brief=True,
    )
    intro = "As in the answer: each half of the documents under what the other half chose."
    return Section("What is found where", intro, charts=(chart,))


def _candidates_chart(log: RunLog, frame: pl.DataFrame) -> Chart:
    """How quality changes with every candidate."""
    metric, rows = str(log.spec["metric"]), frame.filter(pl.col("treatment") != PLAIN).to_dicts()
    points = []
    for one in rows:
        change = interval(one, "change_")
        told = (one["means"], f"{metric} {number(one['quality'])}", one["outcome"])
        points.append(point(change, "\n".join(filter(None, told)), bounds(change, "+.3f")))
    names = tuple(str(one["treatment"]) for one in rows)
    panel = Panel("all queries", names, (Series(f"change of {metric}", -1, tuple(points)),))
    return Chart(
        "candidates",
        "Which treatment finds more",
        "Changes from the plain model on the same queries, with 95 % intervals.",
        "rows",
        "treatment",
        f"change of {metric}",
        (panel,),
        subtitle=f"{model_name(log.model)}, {log.header.searched.source}",
        form="+.3f",
    )


def write_results(log: RunLog) -> None:
    """Write the calibration to use, and the page, where they are missing or older than the log."""
    chosen = log.verdicts["treatment"][0]
    named = {one["name"]: Treatment.from_dict(one).calibration for one in log.spec["treatments"]}
    file, page = log.folder / CALIBRATION_FILE, log.folder / PAGE
    text = f"{named.get(chosen, PRESETS[PLAIN]).to_json()}\n"
    if not file.is_file() or file.read_bytes() != text.encode():
        write_file(file, text)
    if not page.is_file() or page.stat().st_mtime < (log.folder / "run.json").stat().st_mtime:
        log.save_page(page)
