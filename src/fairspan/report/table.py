"""`Table`: a tidy frame as a table of texts, for the terminal, a page and a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import polars as pl

from fairspan.report.text import number, p_value, with_ends

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
class Column:
    """The heading of a column; neighbours with the same `group` share a heading above their own.

    Attributes:
        form: how numbers are written, such as "+.3f"; "p" for p values.
    """

    name: str
    group: str = ""
    align: Align = "right"
    form: str = ".3f"


CHANGE = Column("change [95 %]", form="+.3f")
P_VALUE = Column("p", form="p")


@dataclass(frozen=True, eq=False)
class Table:
    """A table with a row for each row of a frame.

    Attributes:
        name: also of its file.
        heads: the columns of the frame that name the rows, with their headings if these differ.
        columns: those that are shown, with their headings. `psi` shows `psi_estimate` with the
            interval from `psi_low` to `psi_high`, followed by the sign in `psi_mark`.
        grouped: how many of the first heads group the rows; repeated ones are shown once.
        brief: whether the terminal shows it as well.
        tidy: the same numbers for its file, where the frame has been laid out.
    """

    name: str
    title: str
    frame: pl.DataFrame
    _: KW_ONLY
    heads: Mapping[str, str] | Sequence[str]
    columns: Mapping[str, Column | str]
    grouped: int = 0
    notes: Sequence[str] = ()
    brief: bool = False
    tidy: pl.DataFrame | None = None

    @property
    def headings(self) -> list[str]:
        """Those of the columns that name the rows."""
        return list(self.heads.values() if isinstance(self.heads, Mapping) else self.heads)

    @property
    def cells(self) -> dict[str, Column]:
        """The columns that are shown, by their names in the frame."""
        return {
            key: Column(column) if isinstance(column, str) else column
            for key, column in self.columns.items()
        }

    @property
    def aligns(self) -> list[Align]:
        """Of all columns; heads of rows are left-aligned."""
        heads: list[Align] = ["left" for _ in self.heads]
        return [*heads, *(column.align for column in self.cells.values())]

    @property
    def has_groups(self) -> bool:
        """Whether columns have headings above their own."""
        return any(column.group for column in self.cells.values())

    @cached_property
    def rows(self) -> list[tuple[str, ...]]:
        """The texts of every row: its heads, then its cells."""
        return [
            (
                *("" if record[head] is None else str(record[head]) for head in self.heads),
                *(_text(record, key, column) for key, column in self.cells.items()),
            )
            for record in self.frame.iter_rows(named=True)
        ]

    @property
    def groups(self) -> list[list[tuple[str, ...]]]:
        """The rows by their grouping heads; one group where there are none."""
        grouped = groupby(self.rows, key=lambda row: row[: self.grouped])
        return [list(rows) for _, rows in grouped]

    @property
    def repeated(self) -> list[int]:
        """How many grouping heads of each row are those of the row above."""
        counts = []
        above: tuple[str, ...] = ()
        for row in self.rows:
            count = 0
            while count < self.grouped and row[: count + 1] == above[: count + 1]:
                count += 1
            counts.append(count)
            above = row
        return counts

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The groups of columns from left to right, each with the number of columns it covers."""
        groups = groupby(column.group for column in self.cells.values())
        return [(name, len(list(members))) for name, members in groups]


def tone_of(text: str) -> Tone:
    """The colour of a cell: that of a verdict."""
    return VERDICTS.get(text, "plain")


def _text(record: Mapping[str, Any], key: str, column: Column) -> str:
    """What a column shows of a record: an interval, a verdict, text or a number."""
    mark = record.get(f"{key}_mark") or ""
    for prefix in (f"{key}_", "") if key == "estimate" else (f"{key}_",):
        if f"{prefix}estimate" in record:
            estimate = record[f"{prefix}estimate"]
            low = record.get(f"{prefix}low")
            return with_ends(estimate, low, record.get(f"{prefix}high"), column.form) + mark
    value = record[key]
    if isinstance(value, str):
        return value + mark
    if value is None and column.align != "right":
        return ""
    return (p_value(value) if column.form == "p" else number(value, column.form)) + mark
