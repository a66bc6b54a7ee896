"""A view of no study: every kind of chart and table, under names that are markup."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from fairspan.report.chart import Chart
from fairspan.report.page import Download, Part, json_download, make_page, row_download
from fairspan.report.result import Result
from fairspan.report.table import CHANGE, P_VALUE, Column, Table
from fairspan.report.terminal import print_view
from fairspan.report.view import Card, Section, View

EVIL = "<img src=x onerror=alert(1)>"
# Text that markup, formulas, templates or encodings could stumble over.
HOSTILE = (
    *(EVIL, "</script><script>alert(2)</script>", "$x$", "=cmd()", "a|b", "c\\d"),
    *("tab\tbell\x07null\x00end", "校准 한국어", "हिन्दी क्षत्रिय", "العربية"),
    *("[bold]not markup[/bold]", "{{ 7 * 7 }}", "\"'><b>x"),
)

TREATMENTS = ("none", "paper", "retrieval")
PLANS = ("en", "zh:en")
LENGTHS = (50, 100, 200, 400)


def profiles(
    treatments: Sequence[str] = TREATMENTS, plans: Sequence[str] = PLANS, shift: float = 0.0
) -> Chart:
    """Lines by position, a panel for each plan; `shift` moves all values."""
    rows = []
    for panel, plan in enumerate(plans):
        for number, treatment in enumerate(treatments):
            for position in range(1, 5):
                value = 0.7 - 0.05 * (3 - number) * position - 0.02 * panel + shift
                ends = {"low": value - 0.03, "high": value + 0.03}
                key = {"plan": plan, "treatment": treatment, "position": position}
                rows.append({**key, "estimate": value, **ends, "documents": 12 * position})
    return Chart(
        name="profiles",
        title="Similarity by position",
        subtitle="a model on a corpus",
        frame=pl.DataFrame(rows),
        kind="lines",
        x="position",
        panel="plan",
        y_title="similarity",
        told=[("documents", "documents")],
        brief=True,
    )


def dots(treatments: Sequence[str] = TREATMENTS) -> Chart:
    """Differences of two pairs, one of which has no interval, with those that count as none."""
    frame = pl.DataFrame(
        {
            "pair": ["de − en", "ko − en"] * len(treatments),
            "treatment": [name for name in treatments for _ in range(2)],
            "estimate": [0.1 - 0.05 * place for place in range(2 * len(treatments))],
        }
    )
    ends = {"low": pl.col("estimate") - 0.02, "high": pl.col("estimate") + 0.02}
    frame = frame.with_columns(**ends).with_columns(
        pl.when(pl.col("pair") == "de − en").then(pl.col("low", "high"))
    )
    return Chart(name="pairs", title="Differences", frame=frame, x="pair", form="+.3f", margin=0.02)


def lengths(treatments: Sequence[str] = TREATMENTS[:2]) -> Chart:
    """Two measures by length, each with an axis of its own; one point is unknown."""
    rows = []
    for measure, scale in (("cosine", 1.0), ("rank", 40.0)):
        for number, treatment in enumerate(treatments):
            for place, length in enumerate(LENGTHS):
                value = None if (number, place) == (1, 2) else scale * (0.3 + 0.1 * place)
                key = {"measure": measure, "treatment": treatment, "length": length}
                rows.append({**key, "estimate": value, "low": scale * 0.2, "high": scale * 0.8})
    return Chart(
        name="lengths",
        title="Measures by length",
        frame=pl.DataFrame(rows, infer_schema_length=None),
        kind="lines",
        x="length",
        panel="measure",
        x_title="tokens",
        scale="log",
        free=True,
        edge=(256, "none reads to here"),
    )


LABELS = (
    "a short segment",
    "a segment whose text is so long that it takes more than one line of a label and is cut",
    "校准 中文 हिन्दी",
    "The last one.",
)


def rows(
    labels: Sequence[str] = LABELS, treatments: Sequence[str] = TREATMENTS[:2], shift: float = 0.0
) -> Chart:
    """Horizontal bars: a panel for each treatment, a level, notes, and one unknown value."""
    frame = pl.DataFrame(
        {
            "treatment": [name for name in treatments for _ in labels],
            "label": list(labels) * len(treatments),
            "share": [
                None if place == 2 else 0.4 - 0.07 * place * (2 - number) + shift
                for number, _ in enumerate(treatments)
                for place, _ in enumerate(labels)
            ],
            "note": [f"#{place + 1}" for place, _ in enumerate(labels)] * len(treatments),
        }
    )
    return Chart(
        name="segments",
        title="Similarity of each segment",
        frame=frame,
        kind="rows",
        x="label",
        y="share",
        panel="treatment",
        x_title="segment",
        y_title="similarity",
        level=(0.25, "equal shares"),
        note="note",
        brief=True,
    )


FRAME = pl.DataFrame(
    {
        "treatment": ["none", "none", "paper", "=cmd()"],
        "n": [3, 4, 3, 4],
        "estimate": [0.1 + 0.2, -1 / 3, float("nan"), 1e-17],
        "low": [0.2, -0.4, float("-inf"), None],
        "fair": [True, False, None, True],
    }
)


def table(name: str = "numbers", *, brief: bool = True) -> Table:
    """Groups of rows and columns, every kind of cell, marks and tones."""
    frame = pl.DataFrame(
        {
            "treatment": ["none", "none", "paper", "paper"],
            "n": [3, 4, 3, 4],
            "mean": [0.51234, None, 0.5, 12_345.0],
            "change_estimate": [-0.2, 0.25, None, 0.1],
            "change_low": [-0.31, None, None, float("nan")],
            "change_high": [-0.1, None, None, 0.2],
            "change_mark": ["*", None, None, ""],
            "p": [0.0002, 0.0449, None, float("nan")],
            "verdict": ["biased", "fair", "inconclusive", None],
            "reason": ["why", "a long sentence " * 6, None, "="],
        }
    )
    return Table(
        name,
        "All numbers",
        frame,
        heads=("treatment", "n"),
        columns={
            "mean": Column("mean", "value"),
            "change": Column(CHANGE.name, "value", form="+.2f"),
            "p": P_VALUE,
            "verdict": Column("verdict", align="left"),
            "reason": Column("reason", align="wrap"),
        },
        grouped=1,
        notes=("* p < 0.05",),
        brief=brief,
        tidy=FRAME,
    )


def hostile_table(texts: Sequence[str] = HOSTILE, name: str = "texts") -> Table:
    """Each text as the head of a row, as a heading, and as a cell."""
    columns = {f"column {place}": [text] * len(texts) for place, text in enumerate(texts)}
    frame = pl.DataFrame({"text": list(texts), **columns})
    headings = {f"column {place}": Column(text, text) for place, text in enumerate(texts)}
    return Table(name, EVIL, frame, heads={"text": EVIL}, columns=headings, notes=texts)


def view(*, hostile: bool = False) -> View:
    """Everything there is; with `hostile`, under names that are markup."""
    named = (EVIL, "$x$ |\\ =cmd()", "校准 한국어 हिन्दी العربية") if hostile else TREATMENTS
    judged = (("unfair", "bad"), ("fair", "good"), ("needs more data", "open"))
    cards = tuple(
        Card(name, badge, tone, (f"{name} is {badge}.", "A second sentence."))  # type: ignore[arg-type]
        for name, (badge, tone) in zip(named, judged, strict=True)
    )
    verdicts = pl.DataFrame(
        [(card.name, card.badge, card.sentences[0]) for card in cards],
        ["treatment", "verdict", "sentence"],
        orient="row",
    )
    folded = (hostile_table(),) if hostile else (table("again", brief=False),)
    sections = (
        Section("By position", "Lines.", (profiles(named),), (table(),), folded),
        Section("By length", "", (lengths(named[:2]), dots(named))),
        Section("Segments", "Rows.", (rows(treatments=named[:2]),)),
    )
    return View(
        title=EVIL if hostile else "A model on a corpus",
        heading="a model | a corpus | 12 documents",
        cards=cards,
        sections=sections,
        frames={"verdicts": verdicts, "numbers": FRAME},
        picture="profiles",
        remarks=("One remark.",),
        notes=HOSTILE if hostile else ("A note.",),
        methods=("How it was measured.", EVIL),
    )


def printed(shown: View, width: int = 80, ending: str = "") -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_view(console, shown, ending=ending)
    return console.export_text()


def table_of(shown: View, name: str) -> Table:
    [matching] = [table for table in shown.tables() if table.name == name]
    return matching


def part(*, hostile: bool = False, rows_limit: int = 1_000_000) -> Part:
    downloads: tuple[Download, ...] = (
        row_download("run", FRAME, rows_limit),
        json_download("run.json", "statistics (JSON)", {"a": [1, None], "b": EVIL}),
    )
    facts = (("model", EVIL if hostile else "m"), ("status", "complete"))
    settings = (("seed", "7"), ("margin", "±0.02"))
    return Part(view(hostile=hostile), facts, settings, '{"a": 1}', downloads)


@cache
def page(*, hostile: bool = False) -> str:
    example = part(hostile=hostile)
    return make_page(example.view.title, example)


class ExampleResult(Result):
    """A result that has nothing but its view."""

    def __init__(self, shown: View) -> None:
        self._view = shown

    @property
    def view(self) -> View:
        return self._view

    def save_page(self, path: Path | str) -> Path:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError
