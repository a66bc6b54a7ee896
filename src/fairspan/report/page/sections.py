"""What a page is made of, before it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fairspan.report.page.charts import Chart
from fairspan.report.page.downloads import Download
from fairspan.report.tables.table import Table
from fairspan.report.tables.text import number

MANY = 12
Tone = Literal["good", "bad", "open", "plain"]


@dataclass(frozen=True, slots=True)
class Card:
    """A verdict or a piece of advice on one treatment."""

    name: str
    badge: str
    tone: Tone
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One place of a heat map: its number under every treatment as text, and between 0 and 1 for its colour."""

    shown: tuple[str, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Numbers by row and column, which change with the page's switch."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Charts under one small heading."""

    heading: str
    charts: tuple[Chart, ...]
    large: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a run's results, with a place in the page's menu."""

    title: str
    intro: str = ""
    groups: tuple[Group, ...] = ()
    heat: tuple[HeatMap, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()
    """Tables that open on demand."""

    @property
    def heat_first(self) -> bool:
        """Whether there are so many charts that the heat maps would be far down below them."""
        return sum(len(group.charts) for group in self.groups) > MANY


@dataclass(frozen=True, slots=True)
class RunPart:
    """Everything a page says of one run, or of several that are drawn together."""

    title: str
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
    notes: tuple[str, ...]
    switch: tuple[str, ...]
    """What the charts and heat maps can be switched to, the model as it comes first."""
    sections: tuple[Section, ...]
    methods: str = ""
    """The template that tells how it was measured."""
    settings: tuple[tuple[str, str], ...] = ()
    spec: str = ""
    downloads: tuple[Download, ...] = ()
    all_first: bool = False
    """Whether the page opens with everything side by side, as lines can be."""


def heat_map(
    title: str,
    corner: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, Sequence[Sequence[float | None]]]],
    digits: int = 3,
) -> HeatMap:
    """A heat map of rows [columns][treatments], all on one scale of colour."""
    numbers = [v for _, cells in rows for cell in cells for v in cell if v is not None]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    reach = (high - low) or 1.0

    def made(cell: Sequence[float | None]) -> HeatCell | None:
        if all(value is None for value in cell):
            return None
        shown = tuple(number(value, digits) for value in cell)
        return HeatCell(shown, tuple(0.0 if value is None else round((value - low) / reach, 4) for value in cell))

    return HeatMap(
        title, corner, tuple(columns), tuple((name, tuple(made(cell) for cell in cells)) for name, cells in rows)
    )
