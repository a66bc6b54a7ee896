"""`Table`: cells with a value, a format and a mark, in groups, and the tidy frame behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import polars as pl

from fairspan.report.frames import interval
from fairspan.report.text import Interval, number, p_value, with_bounds

Align = Literal["left", "right", "wrap"]
"""Where text goes in its column; "wrap" is left-aligned text that may take several lines."""

Tone = Literal["good", "bad", "open", "plain"]
"""What a colour says: a good result, a bad one, one that needs more data, or nothing."""

VERDICTS: dict[str, Tone] = {
    "fair": "good",
    "better": "good",
    "use": "good",
    "probably": "open",
    "not worse": "plain",
    "slightly worse": "plain",
    "keep": "plain",
    "biased": "bad",
    "worse": "bad",
    "inconclusive": "open",
}
"""The words of all verdicts: on a model, on a change, and advice."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a table.

    Attributes:
        form: how a number is written, such as "+.3f"; "p" for a p value.
        mark: shown after it, such as a sign of significance.
    """

    value: str | float | Interval | None
    form: str = ".3f"
    mark: str = ""
    tone: Tone = "plain"

    @property
    def text(self) -> str:
        """The value in its format, with the mark."""
        if isinstance(self.value, str):
            return self.value + self.mark
        if self.value is None or isinstance(self.value, int | float):
            written = p_value(self.value) if self.form == "p" else number(self.value, self.form)
            return written + self.mark
        return with_bounds(self.value, self.form) + self.mark


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column; neighbours with the same `group` share a heading above their own."""

    name: str
    group: str = ""
    align: Align = "right"
    form: str = ".3f"


CHANGE = Column("change [95 %]", form="+.3f")
P_VALUE = Column("p", form="p")


@dataclass(frozen=True, slots=True)
class Row:
    """The heads of a row, one for each of the table's `heads`, and its cells."""

    heads: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table of one run.

    Attributes:
        name: also of its files.
        heads: headings of the columns that name the rows.
        frame: the same numbers unrounded, one tidy row each.
        grouped: how many of the first heads group the rows; repeated ones are shown once.
        brief: whether the terminal shows it as well.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    frame: pl.DataFrame
    grouped: int = 0
    notes: tuple[str, ...] = ()
    brief: bool = False

    @classmethod
    def from_frame(
        cls,
        name: str,
        title: str,
        frame: pl.DataFrame,
        *,
        heads: Mapping[str, str] | Sequence[str],
        columns: Mapping[str, Column | str],
        grouped: int = 0,
        notes: Sequence[str] = (),
        brief: bool = False,
    ) -> Table:
        """A row for each row of a tidy frame.

        Args:
            heads: the frame's columns that name the rows, with their headings where these differ.
            columns: those that are shown, with their headings. `psi` shows the interval in
                `psi_estimate`, `psi_low` and `psi_high`.
        """
        headings = dict(heads) if isinstance(heads, Mapping) else {head: head for head in heads}
        shown = {
            key: column if isinstance(column, Column) else Column(column)
            for key, column in columns.items()
        }
        rows = [
            Row(
                tuple("" if record[head] is None else str(record[head]) for head in headings),
                tuple(_cell(record, key, column) for key, column in shown.items()),
            )
            for record in frame.iter_rows(named=True)
        ]
        return cls(
            name,
            title,
            tuple(headings.values()),
            tuple(shown.values()),
            tuple(rows),
            frame,
            grouped=grouped,
            notes=tuple(notes),
            brief=brief,
        )

    @property
    def aligns(self) -> tuple[Align, ...]:
        """Of all columns; heads of rows are left-aligned."""
        heads: list[Align] = ["left" for _ in self.heads]
        return (*heads, *(column.align for column in self.columns))

    @property
    def has_groups(self) -> bool:
        """Whether columns have headings above their own."""
        return any(column.group for column in self.columns)

    def groups(self) -> list[tuple[Row, ...]]:
        """The rows by their grouping heads; one group where there are none."""
        return [
            tuple(rows) for _, rows in groupby(self.rows, key=lambda row: row.heads[: self.grouped])
        ]

    def shown_heads(self) -> list[tuple[str, ...]]:
        """The heads of every row, without those that repeat the row above."""
        shown = []
        before: tuple[str, ...] = ()
        for row in self.rows:
            repeated = 0
            while repeated < self.grouped and row.heads[: repeated + 1] == before[: repeated + 1]:
                repeated += 1
            shown.append(("",) * repeated + row.heads[repeated:])
            before = row.heads
        return shown

    def spans(self) -> list[tuple[str, int]]:
        """The groups of columns from left to right, each with the number of columns it covers."""
        groups = groupby(column.group for column in self.columns)
        return [(name, len(list(members))) for name, members in groups]


def _cell(record: Mapping[str, Any], key: str, column: Column) -> Cell:
    """What a column shows of a record: an interval, a verdict, text or a number."""
    if f"{key}_estimate" in record:
        return Cell(interval(record, f"{key}_"), column.form)
    if key == "estimate" and "low" in record:
        return Cell(interval(record), column.form)
    value = record[key]
    if isinstance(value, str):
        return Cell(value, tone=VERDICTS.get(value, "plain"))
    if value is None and column.align in ("left", "wrap"):
        return Cell("")
    return Cell(value, column.form)
