"""A view of no study: all kinds of charts, heat maps and tables, with hostile names."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, on_log_axis
from fairspan.report.page import Download, Part, json_download, make_page, row_download
from fairspan.report.result import Result
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.report.terminal import print_view
from fairspan.report.view import Card, Section, View

EVIL = "<img src=x onerror=alert(1)>"
HOSTILE = (
    EVIL,
    "</script><script>alert(2)</script>",
    "$x$",
    "=cmd()",
    "a|b",
    "c\\d",
    "tab\tbell\x07null\x00end",
    "half\ud800surrogate",
    "校准 한국어",
    "हिन्दी क्षत्रिय",
    "العربية",
    "[bold]not markup[/bold]",
    "{{ 7 * 7 }}",
    "\"'><b>x",
)
"""Text that markup, formulas, templates or encodings could stumble over."""

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
    panels = tuple(
        Panel(
            title=plan,
            labels=tuple(str(position + 1) for position in range(size)),
            series=tuple(
                Series(
                    treatment,
                    number,
                    tuple(
                        bar(value(number, size, place, position) + shift, position)
                        for position in range(size)
                    ),
                )
                for number, treatment in enumerate(treatments)
            ),
            detail=f"{12 * size} documents",
            strip=tuple(strip * (1 + position) for position in range(size)) if strip else (),
            heading=f"n = {size}",
            folded=place > 1,
        )
        for size in sizes
        for place, plan in enumerate(plans)
    )
    return Chart(
        name=name,
        title="Similarity by position",
        caption="Mean similarity of each segment to its document, with 95 % intervals.",
        kind="bars",
        x_label="position",
        y_label="similarity",
        panels=panels,
        subtitle="a model on a corpus",
        brief=brief,
    )


def bar(estimate: float, position: int, half: float = 0.03) -> Point:
    told = f"position {position + 1}\n{estimate:.3f} [{estimate - half:.3f}, {estimate + half:.3f}]"
    return Point(estimate, estimate - half, estimate + half, told)


def lines(treatments: Sequence[str] = TREATMENTS[:2], form: str = ".3f") -> Chart:
    """Two panels on one axis and two with their own; dashed bounds, one unknown point."""

    def curve(name: str, number: int, scale: float) -> Series:
        points: list[Point | None] = [
            Point(
                scale * (0.3 + 0.1 * place / (number + 1)),
                scale * 0.25,
                scale * 0.7,
                f"{name}, {length} tokens",
            )
            for place, length in enumerate(LENGTHS)
        ]
        if number == 1:
            points[2] = None
        return Series(name, number, tuple(points))

    def bound(scale: float) -> Series:
        return Series(
            "limit", -1, tuple(Point(scale * 0.9, told="limit") for _ in LENGTHS), dashed=True
        )

    def panel(title: str, scale: float, **changes: str) -> Panel:
        drawn = (
            *(curve(name, number, scale) for number, name in enumerate(treatments)),
            bound(scale),
        )
        labels = tuple(str(length) for length in LENGTHS)
        return Panel(
            title, labels, drawn, places=on_log_axis(LENGTHS), reference=scale * 0.5, **changes
        )  # type: ignore[arg-type]

    return Chart(
        name="lengths",
        title="Measures by length",
        caption="Every measure of texts of 50 to 400 tokens.",
        kind="lines",
        x_label="tokens",
        y_label="cosine",
        panels=(
            panel("cosine", 1.0),
            panel("cosine of words", 0.8),
            panel("rank", 40.0, y_label="rank", x_label="tokens of a text"),
            panel("distance", 3.0, y_label="distance"),
        ),
        dashes="limit in theory",
        form=form,
    )


LABELS = (
    "a short segment",
    (
        "a segment whose text is so long that it takes more than one line of a label and is cut at "
        "its end at last"
    ),
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
        points: list[Point | None] = [
            Point(
                0.4 - 0.07 * place * (2 - number) + shift,
                told=f"{name}: {label}",
                note=f"#{place + 1}",
            )
            for place, label in enumerate(labels)
        ]
        if len(points) > 2:
            points[2] = None
        panels.append(
            Panel(name, tuple(labels), (Series(name, number, tuple(points)),), reference=0.25)
        )
    return Chart(
        name="segments",
        title="Similarity of each segment",
        caption="Each segment's similarity to the whole text.",
        kind="rows",
        x_label="segment",
        y_label="similarity",
        panels=tuple(panels),
        dashes="equal shares",
        brief=True,
    )


def heat(*, entries: int = 3, name: str = "languages") -> HeatMap:
    """Languages by position; with one entry the numbers do not follow the switch."""
    made = []
    for place, language in enumerate(("en", "zh")):
        cells: list[HeatCell | None] = [
            HeatCell(
                tuple(
                    0.9 - 0.1 * position - 0.05 * place + 0.02 * entry for entry in range(entries)
                )
            )
            for position in range(3)
        ]
        if place == 1:
            cells[2] = None
        made.append((language, tuple(cells)))
    return HeatMap(
        name,
        "By language",
        "One number each.",
        "language",
        ("1", "2", "3"),
        tuple(made),
        "position",
        "lead",
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


def table(**changes: object) -> Table:
    """Groups of rows and columns, every kind of cell, marks and tones."""
    cells = (
        [
            Cell(0.51234, tone="good"),
            Cell(Estimate(-0.2, -0.31, -0.1), "+.2f", "*", "bad"),
            Cell(0.0002, "p"),
            "why",
        ],
        [
            Cell(None),
            Cell(Estimate(0.25, None, None), tone="open"),
            Cell(0.0449, "p", "◇"),
            "a long sentence " * 6,
        ],
        [Cell(0.5, ".1%"), Cell(Estimate(None)), Cell(None, "p"), None],
        [Cell(12_345, ",d"), Cell("text"), Cell(float("nan"), "p"), "="],
    )
    heads = (("none", "3"), ("none", "4"), ("paper", "3"), ("paper", "4"))
    columns = (
        Column("mean", "value"),
        Column("change [95 %]", "value"),
        Column("p"),
        Column("reason", align="wrap"),
    )
    rows_of = tuple(row(*head, cells=list(own)) for head, own in zip(heads, cells, strict=True))
    given = {
        "name": "numbers",
        "title": "All numbers",
        "heads": ("treatment", "n"),
        "columns": columns,
    }
    given |= {
        "rows": rows_of,
        "frame": FRAME,
        "grouped": 1,
        "notes": ("* p < 0.05", "◇ p < 0.10"),
        "brief": True,
    }
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
    tones = ("bad", "good", "open")
    cards = tuple(
        Card(
            name,
            badge,
            tone,  # type: ignore[arg-type]
            (f"{name} is {badge}.", "A second sentence."),
        )
        for name, badge, tone in zip(
            named, ("unfair", "fair", "needs more data"), tones, strict=True
        )
    )
    verdicts = pl.DataFrame(
        {
            "treatment": named,
            "verdict": [card.badge for card in cards],
            "sentence": [c.sentences[0] for c in cards],
        }
    )
    folded = (hostile_table(),) if hostile else (table(name="again", brief=False),)
    sections = (
        Section(
            "By position", "Bars.", (profiles(treatments=named),), (heat(),), (table(),), folded
        ),
        Section(
            "By length", "", (lines(named[:2]),), (heat(entries=1, name="sizes"),), heats_first=True
        ),
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
    return Part(
        "run 1",
        view(hostile=hostile),
        facts,
        (("seed", "7"), ("margin", "±0.02")),
        '{"a": 1}',
        downloads,
    )


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
