"""`Table`: text in cells, with groups of rows and columns, as any writer takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "right", "center", "wrap"]
"""To which side text goes; "wrap" goes left and may take several lines."""


@dataclass(frozen=True, slots=True)
class Column:
    """What stands over a column; neighbours of one `group` share a heading above their own."""

    name: str
    group: str = ""
    align: Align = "right"


@dataclass(frozen=True, slots=True)
class Row:
    """What stands before a row, one text for each of the table's `heads`, and its cells."""

    heads: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        title: one line, shown above.
        heads: what stands over the columns that name the rows.
        columns: those of the cells.
        grouped: how many of the first heads group the rows: what they repeat is shown once, and groups stand apart.
        notes: legend and remarks, shown below, a line each.
    """

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    grouped: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if (len(row.heads), len(row.cells)) != (len(self.heads), len(self.columns)):
                raise ValueError(
                    f"a row of {len(row.heads)} heads and {len(row.cells)} cells stands in a table of "
                    f"{len(self.heads)} and {len(self.columns)}."
                )
        if not 0 <= self.grouped <= len(self.heads):
            raise ValueError(f"{self.grouped} of {len(self.heads)} heads cannot group the rows.")

    @property
    def width(self) -> int:
        """Columns in all, those of the heads included."""
        return len(self.heads) + len(self.columns)

    @property
    def aligns(self) -> tuple[Align, ...]:
        """Of all columns; what names a row begins at the left."""
        named: list[Align] = ["left" for _ in self.heads]
        return (*named, *(column.align for column in self.columns))

    def groups(self) -> list[tuple[Row, ...]]:
        """The rows by what their grouping heads say; one group where none does."""
        found: list[list[Row]] = []
        for row in self.rows:
            if found and found[-1][0].heads[: self.grouped] == row.heads[: self.grouped]:
                found[-1].append(row)
            else:
                found.append([row])
        return [tuple(rows) for rows in found]

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
        """The groups of columns from left to right, each with how many it covers."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found
