"""`View`: what a study shows of one run, before anything is drawn or written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.chart import Chart
from fairspan.report.table import Table, Tone


@dataclass(frozen=True, slots=True)
class Card:
    """A verdict or advice on one treatment: a word for the badge, and sentences that say why.

    The terminal shows the first `brief` sentences.
    """

    name: str
    badge: str
    tone: Tone
    sentences: tuple[str, ...]
    brief: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the results; a page opens `folded` tables, and a `closed` section, on demand."""

    title: str
    intro: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Everything a run has to show, whether in a terminal, a page, a figure or a notebook.

    Attributes:
        title: of a page about this run.
        heading: the run in one line, for the terminal.
        meaning: what the verdicts mean in plain words.
        frames: all statistics by name; "verdicts" is always there.
        picture: the name of the chart that represents the whole run.
        remarks: shown below the cards.
        notes: what a reader should know before reading the numbers.
    """

    title: str
    heading: str
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    frames: Mapping[str, pl.DataFrame]
    meaning: str = ""
    picture: str = ""
    remarks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def tables(self) -> Iterator[Table]:
        for section in self.sections:
            yield from section.tables
            yield from section.folded

    def charts(self) -> Iterator[Chart]:
        for section in self.sections:
            yield from section.charts

    def frame(self, name: str) -> pl.DataFrame:
        """The statistics of that name."""
        if name not in self.frames:
            raise FairspanError(f"there is no frame {name!r}, only {', '.join(self.frames)}.")
        return self.frames[name]

    def chart(self, name: str | None = None) -> Chart:
        """The chart of that name; without a name, the one that represents the whole run."""
        charts = {chart.name: chart for chart in self.charts()}
        wanted = name or self.picture or next(iter(charts), "")
        if wanted not in charts:
            choices = f"only {', '.join(charts)}" if charts else "and nothing else to draw"
            raise FairspanError(f"there is no figure {wanted!r}, {choices}.")
        return charts[wanted]
