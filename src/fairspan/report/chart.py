"""`Chart`: what a picture shows of a tidy frame, whether in a page, a file or the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

import polars as pl

from fairspan.report.frames import values_of


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Chart:
    """One picture, with a mark for each row of a frame.

    Attributes:
        name: also of its file.
        x: the column of places along the axis.
        y: the column of numbers; `low` and `high` in place of `estimate` are its interval.
        by: the column of what is compared, each with a colour and a shape.
        panel: the column of panels side by side.
        kind: "lines" connect places that have an order; "dots" do not; "rows" are horizontal bars.
        form: how numbers are written.
        scale: of the axis of places: by name, or of numbers.
        label: the column of places in words, where they are numbers.
        series: what is compared, in the order of colours; by default in that of the frame.
        limits: both ends of the axis of numbers.
        free: whether each panel has an axis of numbers of its own, whose title is the panel's.
        margin: differences up to it count as none, and are shaded.
        level: a number that is marked, and what it is.
        edge: a number of the axis of places that is marked, and what it is.
        told: further columns that a reader sees on a mark, with their titles.
        note: a column of text beside bars.
        below: what the picture shows in words.
        brief: whether the terminal shows it as well.
    """

    name: str
    title: str
    frame: pl.DataFrame
    x: str
    y: str = "estimate"
    by: str = "treatment"
    panel: str | None = None
    kind: Literal["lines", "dots", "rows"] = "dots"
    x_title: str = ""
    y_title: str = ""
    subtitle: str = ""
    form: str = ".3f"
    scale: Literal["names", "linear", "log"] = "names"
    label: str | None = None
    series: Sequence[str] = ()
    limits: tuple[float, float] | None = None
    free: bool = False
    margin: float | None = None
    level: tuple[float, str] | None = None
    edge: tuple[float, str] | None = None
    told: Sequence[tuple[str, str]] = ()
    note: str | None = None
    below: str = ""
    brief: bool = False

    @property
    def names(self) -> list[str]:
        """What is compared, in the order of colours."""
        return list(self.series) or [str(name) for name in values_of(self.frame, self.by)]

    @property
    def ends(self) -> tuple[str, str]:
        """The columns of both ends of intervals, which a frame may lack."""
        prefix = self.y.removesuffix("estimate")
        return (f"{prefix}low", f"{prefix}high") if prefix != self.y else ("", "")

    def panels(self) -> list[tuple[str, pl.DataFrame]]:
        """The title and the rows of each panel."""
        if self.panel is None:
            return [("", self.frame)]
        parts = self.frame.partition_by(self.panel, as_dict=True, maintain_order=True)
        return [(str(title), rows) for (title,), rows in parts.items()]

    def domain(self, rows: pl.DataFrame) -> tuple[float, float]:
        """Both ends of the axis of numbers in a panel with these rows."""
        if self.limits is not None:
            return self.limits
        shared = rows if self.free else self.frame
        columns = [name for name in (self.y, *self.ends) if name in shared.columns]
        values = pl.concat([shared[name].cast(pl.Float64).alias("value") for name in columns])
        finite = values.filter(values.is_finite())
        numbers = [0.0, *finite, *([self.level[0]] if self.level else [])]
        if self.margin is not None:
            numbers += [self.margin, -self.margin]
        return _rounded(min(numbers), max(numbers))


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Ends of an axis at multiples of a fifth of its length, rounded to 1, 2 or 5."""
    if low == high:
        return low, low + 1.0
    rough = (high - low) / 5
    power = 10.0 ** floor(log10(rough))
    step = power * next(step for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
    return floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
