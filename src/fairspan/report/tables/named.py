"""`NamedTable`: a table to look at, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairspan.report.tables.table import Table

Value = str | int | float | bool | None
Record = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """One table of a run.

    Attributes:
        name: such as "representation-coefficients-none"; it can be part of a file's name.
        table: as it is read.
        records: the same numbers unrounded, one tidy row each, all with the same keys.
    """

    name: str
    table: Table
    records: tuple[Record, ...]
