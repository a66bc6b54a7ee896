"""A view of no study: every kind of chart and table, under names that are markup."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from fairspan.report.chart import Chart, Panel, Point, Series, on_log_axis
from fairspan.report.page import Download, Part, json_download, make_page, row_download
from fairspan.report.result import Result
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.report.terminal import print_view
from fairspan.report.view import Card, Section, View

EVIL = "<img src=x onerror=alert(1)>"
# Text that markup, formulas, templates or encodings could stumble over.
HOSTILE = (
    *(EVIL, "</script><script>alert(2)</script>", "$x$", "=cmd()", "a|b", "c\\d"),
    *("tab\tbell\x07null\x00end", "half\ud800surrogate", "校准 한국어", "हिन्दी क्षत्रिय"),
    *("العربية", "[bold]not markup[/bold]", "{{ 7 * 7 }}", "\"'><b>x"),
)

TREATMENTS = ("none", "paper", "retrieval")
SIZES = (3, 4)
PLANS = ("en", "zh", "zh:en")
LENGTHS = (50, 100, 200, 400)


@dataclass(frozen=True)
class Estimate:
    estimate: float | None
    low: float | None = None
    high: float | None = None


def value(treatment: int, size: int, plan: int, position: int) -> float:
    """Of one bar: falls with the position, less so for later treatments."""
    return 0.7 - 0.05 * (3 - treatment) * position + 0.01 * size - 0.02 * plan


def profiles(
    *,
    treatments: Sequence[str] = TREATMENTS,
    sizes: Sequence[int] = SIZES,
    plans: Sequence[str] = PLANS,
    name: str = "profiles",
    shift: float = 0.0,
    strip: float = 20.0,
    brief: bool = True,
) -> Chart:
    """Bars: a panel for each size and plan, with a strip of sizes; `shift` moves all values."""

    def panel(size: int, place: int, plan: str) -> Panel:
        places = range(size)
        series = []
        for number, treatment in enumerate(treatments):
            points = (bar(value(number, size, place, spot) + shift, spot) for spot in places)
            series.append(Series(treatment, number, tuple(points)))
        return Panel(
            title=plan,
            labels=tuple(str(position + 1) for position in places),
            series=tuple(series),
            detail=f"{12 * size} documents",
            strip=tuple(strip * (1 + position) for position in places) if strip else (),
            heading=f"n = {size}",
            folded=place > 1,
        )

    title = "Similarity by position"
    panels = tuple(panel(size, *plan) for size in sizes for plan in enumerate(plans))
    subtitle = "a model on a corpus"
    return Chart(*(name, title, "bars", "position", "similarity", panels, subtitle), brief=brief)


def bar(estimate: float, position: int, half: float = 0.03) -> Point:
    told = f"position {position + 1}\n{estimate:.3f} [{estimate - half:.3f}, {estimate + half:.3f}]"
    return Point(estimate, estimate - half, estimate + half, told)


def lines(treatments: Sequence[str] = TREATMENTS[:2], form: str = ".3f") -> Chart:
    """Two panels on one axis and two with their own; bounds are dashed, one point is unknown."""

    def curve(name: str, number: int, scale: float) -> Series:
        points: list[Point | None] = []
        for place, length in enumerate(LENGTHS):
            estimate = scale * (0.3 + 0.1 * place / (number + 1))
            told = f"{name}, {length} tokens"
            points.append(Point(estimate, scale * 0.25, scale * 0.7, told))
        if number == 1:
            points[2] = None
        return Series(name, number, tuple(points))

    def panel(title: str, scale: float, **changes: Any) -> Panel:
        limit = tuple(Point(scale * 0.9, told="limit") for _ in LENGTHS)
        drawn = [curve(name, number, scale) for number, name in enumerate(treatments)]
        drawn.append(Series("limit", -1, limit, dashed=True))
        changes |= {"places": on_log_axis(LENGTHS), "reference": scale * 0.5}
        return Panel(title, tuple(map(str, LENGTHS)), tuple(drawn), **changes)

    panels = (
        panel("cosine", 1.0),
        panel("cosine of words", 0.8),
        panel("rank", 40.0, y_label="rank", x_label="tokens of a text"),
        panel("distance", 3.0, y_label="distance"),
    )
    return Chart(
        *("lengths", "Measures by length", "lines", "tokens", "cosine", panels),
        dashes="limit in theory",
        form=form,
    )


LONG = (
    "a segment whose text is so long that it takes more than one line of a label and is cut at its "
    "end at last"
)
LABELS = (
    "a short segment",
    LONG,
    "校准 中文 हिन्दी",
    "The last one.",
)


def rows(
    *,
    labels: Sequence[str] = LABELS,
    treatments: Sequence[str] = TREATMENTS[:2],
    shift: float = 0.0,
) -> Chart:
    """Horizontal bars: one panel for each treatment, a reference, notes, and one unknown point."""
    panels = []
    for number, name in enumerate(treatments):
        points: list[Point | None] = []
        for place, label in enumerate(labels):
            estimate = 0.4 - 0.07 * place * (2 - number) + shift
            points.append(Point(estimate, told=f"{name}: {label}", note=f"#{place + 1}"))
        if len(points) > 2:
            points[2] = None
        series = (Series(name, number, tuple(points)),)
        panels.append(Panel(name, tuple(labels), series, reference=0.25))
    return Chart(
        *("segments", "Similarity of each segment", "rows", "segment", "similarity", tuple(panels)),
        dashes="equal shares",
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


def row(*heads: str, cells: list[Cell | str | None]) -> Row:
    """A row whose plain text needs no `Cell`."""
    return Row(heads, tuple(one if isinstance(one, Cell) else Cell(one or "") for one in cells))


SENTENCES = "a long sentence " * 6
CHANGE = Cell(Estimate(-0.2, -0.31, -0.1), "+.2f", "*", "bad")


def table(**changes: object) -> Table:
    """Groups of rows and columns, every kind of cell, marks and tones."""
    cells: tuple[list[Any], ...] = (
        [Cell(0.51234, tone="good"), CHANGE, Cell(0.0002, "p"), "why"],
        [Cell(None), Cell(Estimate(0.25), tone="open"), Cell(0.0449, "p", "◇"), SENTENCES],
        [Cell(0.5, ".1%"), Cell(Estimate(None)), Cell(None, "p"), None],
        [Cell(12_345, ",d"), Cell("text"), Cell(float("nan"), "p"), "="],
    )
    heads = (("none", "3"), ("none", "4"), ("paper", "3"), ("paper", "4"))
    columns = (Column("mean", "value"), Column("change [95 %]", "value"), Column("p"))
    rows_of = tuple(row(*head, cells=own) for head, own in zip(heads, cells, strict=True))
    given = {"name": "numbers", "title": "All numbers", "heads": ("treatment", "n")}
    given |= {"columns": (*columns, Column("reason", align="wrap")), "rows": rows_of}
    given |= {"frame": FRAME, "grouped": 1, "notes": ("* p < 0.05", "◇ p < 0.10"), "brief": True}
    return Table(**(given | changes))  # type: ignore[arg-type]


def hostile_table(texts: Sequence[str] = HOSTILE, name: str = "texts") -> Table:
    """Each text as the head of a row, as a heading, and as a cell."""
    columns = tuple(Column(text, text) for text in texts)
    rows_of = tuple(Row((text,), tuple(Cell(text) for _ in texts)) for text in texts)
    # A frame takes only what UTF-8 can say.
    frame = pl.DataFrame({"text": [text for text in texts if text.isprintable()]})
    return Table(name, EVIL, (EVIL,), columns, rows_of, frame, notes=tuple(texts))


def view(*, hostile: bool = False) -> View:
    """Everything there is; with `hostile`, under names that are markup."""
    named = (EVIL, "$x$ |\\ =cmd()", "校准 한국어 हिन्दी العربية") if hostile else TREATMENTS
    judged = (("unfair", "bad"), ("fair", "good"), ("needs more data", "open"))
    cards = tuple(
        Card(name, badge, tone, (f"{name} is {badge}.", "A second sentence."))  # type: ignore[arg-type]
        for name, (badge, tone) in zip(named, judged, strict=True)
    )
    rows_of = [(card.name, card.badge, card.sentences[0]) for card in cards]
    verdicts = pl.DataFrame(rows_of, ["treatment", "verdict", "sentence"], orient="row")
    folded = (hostile_table(),) if hostile else (table(name="again", brief=False),)
    bars = (profiles(treatments=named),)
    sections = (
        Section("By position", "Bars.", bars, (table(),), folded),
        Section("By length", "", (lines(named[:2]),)),
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
        switch=named,
        methods=("How it was measured.", EVIL),
    )


def printed(shown: View, width: int = 80, ending: str = "") -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_view(console, shown, ending=ending)
    return console.export_text()


def table_of(shown: View, name: str) -> Table:
    [found] = [one for one in shown.tables() if one.name == name]
    return found


def chart_of(shown: View, name: str) -> Chart:
    found = shown.chart(name)
    assert isinstance(found, Chart)
    return found


def part(*, hostile: bool = False, rows_limit: int = 1_000_000) -> Part:
    downloads: tuple[Download, ...] = (
        row_download("run", FRAME, rows_limit),
        json_download("run.json", "statistics (JSON)", {"a": [1, None], "b": EVIL}),
    )
    facts = (("model", EVIL if hostile else "m"), ("status", "complete"))
    settings = (("seed", "7"), ("margin", "±0.02"))
    return Part("run 1", view(hostile=hostile), facts, settings, '{"a": 1}', downloads)


def page(*, hostile: bool = False) -> str:
    one = part(hostile=hostile)
    return make_page(one.view.title, [one])


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
