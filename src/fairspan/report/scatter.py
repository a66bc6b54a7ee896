"""`Scatter`: one dot per treatment by two numbers with their intervals, and where the names of dots are written."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

from rich.cells import cell_len, set_cell_size

from fairspan.report.chart import Domain, Point, tick_text, ticks
from fairspan.report.text import with_bounds

Anchor = Literal["start", "middle", "end"]
Role = Literal["baseline", "reference", "candidate"]
Place = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom; numbers grow to the right and downwards."""

LEGEND = {
    "baseline": "plain model",
    "chosen": "chosen",
    "front": "Pareto front",
    "reference": "reference",
    "other": "other candidates",
}
# Width and height in pixels of the plots on a page for which names are placed: a page takes the widest that fits.
_PLOTS = ((168, 270), (280, 290), (460, 340), (680, 380), (1000, 400))
_LETTERS = 11.0
# Of a letter, a line, and the gap between a dot, or one with a ring, and its name; relative to the size of letters.
_LETTER, _LINE, _GAP, _RING = 0.62, 1.4, 0.85, 1.2
# Where names are tried, to the right and downwards: beside the dot, then ever farther from it with a line to the dot.
_NEAR = ((0.75, -1), (0.75, 1), (-0.75, -1), (-0.75, 1), (1, 0), (-1, 0), (0, -1), (0, 1))
_FAR = tuple((side * slope, down) for slope in (0.75, 0.3, 1.6) for down in (-1, 1) for side in (1, -1))
_STEPS = 9
# How bad it is to cover a name, a mark that has a name, another mark, a line, and to be a letter away from the dot.
_NEVER, _MARK, _OTHER, _LINES, _AWAY = 1000.0, 20.0, 5.0, 1.0, 2.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A treatment by two numbers.

    Attributes:
        front: whether it is one of those that no other one beats in both numbers.
        chosen: whether it is the answer, which may be the plain model.
        told: what is shown when a reader points at it, one fact per line; its name and numbers if empty.
    """

    name: str
    x: Point
    y: Point
    role: Role = "candidate"
    front: bool = False
    chosen: bool = False
    told: str = ""

    @property
    def look(self) -> str:
        """Which entry of the legend it looks like; a ring says that it is chosen."""
        return self.role if self.role != "candidate" else "front" if self.front else "other"

    @property
    def named(self) -> bool:
        """Whether its name is written beside it."""
        return self.chosen or self.look != "other"


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a dot: so far to the right of it and below it, from the beginning, middle or end of the text."""

    dot: int
    text: str
    dx: float
    dy: float
    anchor: Anchor
    far: bool


@dataclass(frozen=True, slots=True)
class Scatter:
    """Treatments by two numbers, such as fairness and quality.

    Attributes:
        name: such as "candidates"; also the name of its file.
        caption: what it shows, in one sentence; below its title on a page.
        dots: those with two numbers, the named ones last, from left to right.
        x_form, form: how its numbers are written.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    dots: tuple[Dot, ...]
    subtitle: str = ""
    x_form: str = ".3f"
    form: str = ".3f"

    def __post_init__(self) -> None:
        known = [one for one in self.dots if isfinite(one.x.estimate) and isfinite(one.y.estimate)]
        known.sort(key=lambda one: (one.chosen, one.named, one.x.estimate, one.y.estimate))
        object.__setattr__(self, "dots", tuple(known))

    @property
    def domains(self) -> tuple[Domain, Domain]:
        """The ends of both axes, on one side of zero where all numbers are."""
        return _domain([one.x for one in self.dots]), _domain([one.y for one in self.dots])

    @property
    def front(self) -> list[Dot]:
        """Those that a line connects."""
        return sorted((one for one in self.dots if one.front), key=lambda one: (one.x.estimate, one.y.estimate))

    @property
    def legend(self) -> dict[str, str]:
        """What the marks mean that there are."""
        there = {one.look for one in self.dots} | {"chosen" for one in self.dots if one.chosen}
        return {look: words for look, words in LEGEND.items() if look in there}

    def told(self, dot: Dot) -> str:
        across, up = with_bounds(dot.x, self.x_form), with_bounds(dot.y, self.form)
        return dot.told or f"{dot.name}\n{self.x_label}: {across}\n{self.y_label}: {up}"

    def page_data(self) -> dict[str, Any]:
        """What the page's script places: every number, word and tick is made here."""
        across, up = self.domains
        return {
            "kind": "scatter",
            "title": self.title,
            "x_label": self.x_label,
            "y_label": self.y_label,
            "x_domain": across,
            "domain": up,
            "x_ticks": _marks(across, self.x_form),
            "ticks": _marks(up, self.form),
            "reference": None,
            "strip": [],
            "legend": self.legend,
            "front": [[one.x.estimate, one.y.estimate] for one in self.front],
            "dots": [
                {"name": one.name, "look": one.look, "chosen": one.chosen, "told": self.told(one)}
                | {"x": _ends(one.x), "y": _ends(one.y)}
                for one in self.dots
            ],
            "plots": [
                {
                    "width": width,
                    "height": height,
                    "labels": [asdict(one) for one in self.labels(width, height, _LETTERS)],
                }
                for width, height in _PLOTS
            ],
        }

    def labels(self, width: float, height: float, letters: float) -> list[Label]:
        """Where the names of a plot of that size are written, in letters of that size: one after another, the most
        important first, each where it covers least. One that would cover another name is omitted.
        """
        (left, right), (low, high) = self.domains

        def place(x: float, y: float) -> Place:
            return (x - left) / (right - left) * width, (high - y) / (high - low) * height

        taken = list(self._drawn(place, letters))
        made = []
        for number, dot in sorted(enumerate(self.dots), key=lambda one: _rank(one[1])):
            if not dot.named:
                continue
            text = _cut(dot.name, int(width / (2 * _LETTER * letters)))
            least, best = _NEVER, None
            gap = letters * (_RING if dot.chosen else _GAP)
            for label, boxes in _around(number, text, place(dot.x.estimate, dot.y.estimate), letters, gap):
                away = _AWAY * max(abs(label.dx), abs(label.dy)) / letters
                # All that follow are as far away at least.
                if least <= _AWAY * abs(label.dy) / letters:
                    break
                if not _within(boxes[0], (0, 0, width, height)):
                    continue
                cost = away + sum(cost for own, cost in taken if any(_meet(own, box) for box in boxes))
                if cost < least:
                    least, best = cost, (label, boxes)
            if best is not None:
                label, boxes = best
                made.append(label)
                taken += [(boxes[0], _NEVER), *((box, _MARK) for box in boxes[1:])]
        return made

    def _drawn(self, place: Callable[[float, float], Place], letters: float) -> Iterator[tuple[Box, float]]:
        """What names should not cover, and how bad it is if they do."""
        half = 0.5 * letters
        for one in self.dots:
            x, y = place(one.x.estimate, one.y.estimate)
            yield (x - half, y - half, x + half, y + half), _MARK if one.named else _OTHER
            cost = _LINES if one.named else _LINES / 2
            if one.x.low is not None and one.x.high is not None:
                yield (place(one.x.low, 0)[0], y, place(one.x.high, 0)[0], y), cost
            if one.y.low is not None and one.y.high is not None:
                yield (x, place(0, one.y.high)[1], x, place(0, one.y.low)[1]), cost
        for start, end in pairwise(place(one.x.estimate, one.y.estimate) for one in self.front):
            yield from ((box, _LINES) for box in _line(start, end))


def _around(number: int, text: str, at: Place, letters: float, gap: float) -> Iterator[tuple[Label, list[Box]]]:
    """Places for a name around its dot, the nearest first, each with its box and those of the line to the dot."""
    long, high = cell_len(text) * _LETTER * letters, _LINE * letters
    for step in range(_STEPS):
        reach = gap + letters * step
        for side, down in _FAR if step else _NEAR:
            anchor: Anchor = "start" if side > 0 else "end" if side < 0 else "middle"
            dx, dy = side * reach, down * reach
            x, y = at[0] + dx, at[1] + dy
            left = x - {"start": 0, "middle": long / 2, "end": long}[anchor]
            box = left, y - high / 2, left + long, y + high / 2
            yield Label(number, text, dx, dy, anchor, step > 0), [box, *(_line(at, (x, y)) if step else [])]


def _line(start: Place, end: Place, steps: int = 10) -> list[Box]:
    """A line as boxes, without its ends."""
    found = []
    for share in (step / steps for step in range(1, steps)):
        x, y = start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
        found.append((x - 1, y - 1, x + 1, y + 1))
    return found


def _within(one: Box, other: Box) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _rank(dot: Dot) -> tuple[float, ...]:
    """The most important first; of the front from the right, where there is room beside its end."""
    return not dot.chosen, dot.role != "baseline", dot.role != "reference", -dot.x.estimate


def _cut(text: str, most: int) -> str:
    return text if cell_len(text) <= most else f"{set_cell_size(text, max(1, most - 1)).rstrip()}…"


def _domain(points: list[Point]) -> Domain:
    ends = [end for one in points for end in (one.estimate, one.low, one.high) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    margin = 0.06 * (high - low) or 0.5
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def _marks(domain: Domain, form: str) -> list[dict[str, Any]]:
    marks = ticks(*domain)
    return [{"v": mark, "shown": tick_text(mark, marks, form)} for mark in marks]


def _ends(one: Point) -> dict[str, float | None]:
    return {"v": one.estimate, "lo": one.low, "hi": one.high}
