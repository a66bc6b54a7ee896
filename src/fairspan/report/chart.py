"""`Chart`: panels of bars or lines with intervals, for figures, pages and the terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import ceil, floor, isfinite, log10
from typing import Any, Literal

from fairspan.report.text import Interval, finite, number, size_text

Domain = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """A finite number with its interval.

    Attributes:
        told: what is shown when a reader points at it, one fact per line.
        note: a second number, in small print where there is room.
        void: whether there was nothing to measure.
    """

    estimate: float
    low: float | None = None
    high: float | None = None
    told: str = ""
    note: str = ""
    void: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one treatment, one for each label of the axis; None where nothing was measured.

    Attributes:
        number: the treatment's place in the switch, for its colour; -1 for what is always drawn.
        dashed: for bounds and controls; not shown as bars on a page and in the terminal.
        legend: for figures, where it is more than the name.
    """

    name: str
    number: int
    points: tuple[Point | None, ...]
    dashed: bool = False
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes:
        places: of the labels between 0 and 1, for lines; evenly spaced if empty.
        strip: numbers of tokens, drawn as grey bars below the labels.
        heading: panels with the same heading are in one row.
        y_label: in place of the chart's, for a panel with a vertical axis of its own.
        reference: where a dashed line says what would be fair.
        edge: a place between 0 and 1 where an upright line is drawn, and what it means.
        folded: drawn in files only.
        apart: how many of the last labels no line leads to.
    """

    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    detail: str = ""
    places: tuple[float, ...] = ()
    strip: tuple[float, ...] = ()
    heading: str = ""
    x_label: str = ""
    y_label: str = ""
    reference: float | None = None
    edge: tuple[float, str] | None = None
    folded: bool = False
    apart: int = 0

    @property
    def spots(self) -> tuple[float, ...]:
        """The places of the labels between 0 and 1."""
        count = len(self.labels)
        if self.places or count < 2:
            return self.places or (0.5,) * count
        return tuple(place / (count - 1) for place in range(count))


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture of a run.

    Attributes:
        name: also of its file.
        kind: "bars" begin at 0, "lines" connect points, "rows" are horizontal bars.
        dashes: what dashed lines mean.
        fixed: the ends of the vertical axis, where several charts share them.
        by_row: whether each row of panels has its own vertical axis, which begins at 0.
        brief: whether the terminal shows it as well.
        dots: draw dots instead of bars, for differences.
        band: values that count as none, shaded.
        below: what it shows in words, under the picture.
    """

    name: str
    title: str
    kind: Literal["bars", "lines", "rows"]
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    subtitle: str = ""
    form: str = ".3f"
    dashes: str = "bound"
    fixed: Domain | None = None
    by_row: bool = False
    brief: bool = False
    dots: bool = False
    band: Domain | None = None
    below: str = ""

    @property
    def shown(self) -> list[Panel]:
        """The panels for the page and the terminal."""
        return [panel for panel in self.panels if not panel.folded]

    def domain(self, panel: Panel) -> Domain:
        """The ends of a panel's vertical axis: its own, or those of all panels that share one."""
        sharing = [panel]
        if not panel.y_label:
            if self.fixed is not None:
                return self.fixed
            sharing = [other for other in self.panels if not other.y_label]
        if self.by_row:
            sharing = [other for other in sharing if other.heading == panel.heading]
        references = [other.reference for other in sharing if other.reference is not None]
        series = [other.series for other in sharing]
        others = (*(self.band or ()), *references)
        return domain_of(series, zero=self.by_row or self.kind != "lines", others=others)

    def rows(self, panels: Sequence[Panel]) -> list[tuple[str, list[Panel]]]:
        """Panels by their heading."""
        groups = groupby(panels, key=lambda panel: panel.heading)
        return [(heading, list(members)) for heading, members in groups]

    def page_data(self, panel: Panel) -> dict[str, Any]:
        """What the page's script places: every number, word and tick is made here."""
        low, high = self.domain(panel)
        marks = ticks(low, high)
        first = self.panels[0]
        # Rows have one panel for each treatment, and are compared with the first.
        compared = self.kind == "rows" and panel is not first
        shown = [series for series in panel.series if not (series.dashed and self.kind == "bars")]
        return {
            "kind": self.kind,
            "title": panel.title or self.title,
            "x_label": panel.x_label or self.x_label,
            "y_label": panel.y_label or self.y_label,
            "labels": panel.labels,
            "places": panel.spots,
            "domain": [low, high],
            "ticks": [{"v": mark, "shown": tick_text(mark, marks, self.form)} for mark in marks],
            "reference": panel.reference,
            "edge": panel.edge,
            "dots": self.dots,
            "band": self.band,
            "strip": [{"v": size, "shown": size_text(size)} for size in panel.strip],
            "strip_most": self.largest,
            "dashes": self.dashes,
            "before": self._points(first, first.series[0]) if compared else [],
            "first": first.series[0].name if first.series else "",
            "series": [
                {
                    "name": series.name,
                    "number": series.number,
                    "dashed": series.dashed,
                    "points": self._points(panel, series),
                }
                for series in shown
            ],
        }

    @property
    def largest(self) -> float:
        """The largest size in a strip."""
        return max((size for panel in self.panels for size in panel.strip), default=1.0) or 1.0

    def _points(self, panel: Panel, series: Series) -> list[dict[str, Any] | None]:
        """The points of a series as the page's script reads them."""

        def record(label: str, point: Point) -> dict[str, Any]:
            shown = number(point.estimate, self.form)
            told = point.told or f"{series.name}, {label}: {shown}"
            ends = {"v": point.estimate, "lo": point.low, "hi": point.high}
            return {**ends, "shown": shown, "told": told, "note": point.note}

        pairs = zip(panel.labels, series.points, strict=True)
        return [None if point is None else record(label, point) for label, point in pairs]


def point(interval: Interval | None, told: str = "", note: str = "") -> Point | None:
    """A point of a chart; None where there is no number."""
    estimate = None if interval is None else finite(interval.estimate)
    if interval is None or estimate is None:
        return None
    return Point(estimate, finite(interval.low), finite(interval.high), told, note)


def domain_of(
    panels: Iterable[Sequence[Series]], *, zero: bool, others: Sequence[float] = ()
) -> Domain:
    """Round ends of an axis that hold every interval and `others`; with `zero`, also 0."""
    values: list[float | None] = [*others, *([0.0] if zero else [])]
    for series in chain.from_iterable(panels):
        for point in series.points:
            if point is not None:
                values += [point.estimate, point.low, point.high]
    ends = [value for value in values if value is not None and isfinite(value)]
    if not ends:
        return 0.0, 1.0
    low = min(ends)
    high = max(ends)
    margin = 0.5 if high - low < 1e-9 else 0.0
    if not zero:
        margin += 0.06 * (high - low + 2 * margin)
    low -= margin
    high += margin
    step = _step(low, high)
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from one end of an axis to the other."""
    step = _step(low, high)
    first = ceil(low / step - 1e-9)
    last = floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def tick_text(mark: float, marks: Sequence[float], form: str) -> str:
    """A tick with as many digits as tell it from its neighbours."""
    step = marks[1] - marks[0] if len(marks) > 1 else 0.01
    percent = form.endswith("%")
    digits = max(0, -floor(log10(step * (100 if percent else 1)) + 1e-9))
    return number(mark, f".{digits}{'%' if percent else 'f'}")


def on_log_axis(values: Sequence[float]) -> tuple[float, ...]:
    """Places of positive numbers on a logarithmic axis from 0 to 1; empty if they do not differ."""
    if len(values) < 2 or min(values) <= 0 or max(values) == min(values):
        return ()
    start = log10(min(values))
    length = log10(max(values)) - start
    return tuple((log10(value) - start) / length for value in values)


def _step(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are four to ten of them."""
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    return power * next(step for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
