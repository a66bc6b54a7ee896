"""`Chart`: what a page's script draws. Its numbers and words are made here; the script only places them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any, Literal

from fairspan.report.numbers import finite
from fairspan.report.tables.text import Interval, number


@dataclass(frozen=True, slots=True)
class Point:
    """A number with its interval, as it is written beside its mark, and what is told when one points at it."""

    value: float
    low: float | None
    high: float | None
    shown: str
    told: str

    def to_dict(self) -> dict[str, Any]:
        return {"v": self.value, "lo": self.low, "hi": self.high, "shown": self.shown, "told": self.told}


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one treatment, one for each place on the axis; None where nothing was measured.

    Attributes:
        number: its place in the page's switch; -1 for what belongs to no treatment and is always drawn.
        dashed: for bounds and controls.
    """

    name: str
    number: int
    points: tuple[Point | None, ...]
    dashed: bool = False

    def to_dict(self) -> dict[str, Any]:
        points = [None if point is None else point.to_dict() for point in self.points]
        return {"name": self.name, "number": self.number, "dashed": self.dashed, "points": points}


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel.

    Attributes:
        title, detail: stand above it.
        labels: of the places on the horizontal axis.
        places: where they lie between 0 and 1, for lines; bars stand side by side.
        background: grey bars behind, such as token lengths, with the words told about each.
        domain: the ends of the vertical axis; panels that are compared share one.
    """

    kind: Literal["bars", "lines"]
    title: str
    detail: str
    x_label: str
    y_label: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    domain: tuple[float, float]
    places: tuple[float, ...] = ()
    background: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        low, high = self.domain
        marks = ticks(low, high)
        digits = max(0, -floor(log10(marks[1] - marks[0]) + 1e-9)) if len(marks) > 1 else 2
        return {
            "kind": self.kind,
            "title": self.title,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "labels": list(self.labels),
            "places": list(self.places),
            "series": [one.to_dict() for one in self.series],
            "domain": [low, high],
            "ticks": [{"v": mark, "shown": number(mark, digits)} for mark in marks],
            "background": list(self.background),
        }


def point(found: Interval | None, told: str, digits: int = 3) -> Point | None:
    """A point of a chart; None where there is no number."""
    estimate = None if found is None or found.estimate is None else finite(found.estimate)
    if found is None or estimate is None:
        return None
    low, high = (None if end is None else finite(end) for end in (found.low, found.high))
    return Point(estimate, low, high, number(estimate, digits), told)


def domain_of(charts: Iterable[Sequence[Series]], *, zero: bool) -> tuple[float, float]:
    """Ends of an axis that hold every point with its interval; with `zero`, the foot of bars."""
    points = [point for series in charts for one in series for point in one.points if point is not None]
    ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
    ends = [end for end in ends if isfinite(end)] + ([0.0] if zero else [])
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    if not zero:
        margin = 0.06 * (high - low)
        low, high = low - margin, high + margin
    step = _step(low, high)
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from one end of an axis to the other."""
    step = _step(low, high)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _step(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are four to ten of them."""
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    return power * next(step for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))


def on_log_axis(values: Sequence[float]) -> tuple[float, ...]:
    """Where positive numbers lie between 0 and 1 on a logarithmic axis; evenly if they do not differ."""
    if len(values) < 2 or min(values) <= 0 or max(values) == min(values):
        return tuple(0.5 if len(values) < 2 else k / (len(values) - 1) for k in range(len(values)))
    ends = log10(min(values)), log10(max(values))
    return tuple((log10(value) - ends[0]) / (ends[1] - ends[0]) for value in values)
