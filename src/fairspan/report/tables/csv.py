"""Tidy rows as CSV: numbers in full, and text that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from fairspan.report.tables.named import Record, Value

# What makes a spreadsheet compute, in a cell that was meant as text; and the sign that stops it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_GUARD = "'"


def to_csv(records: Sequence[Record]) -> str:
    """One line a record under the first one's keys; numbers that read back as they were, nothing for None and NaN."""
    text = io.StringIO()
    if records:
        # Python quotes a carriage return only where it ends lines.
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(records[0])
        for record in records:
            if list(record) != list(records[0]):
                raise ValueError(f"a record has the keys {list(record)}, and the first one {list(records[0])}.")
            writer.writerow([_plain(value) for value in record.values()])
    return text.getvalue()


def guard(text: str) -> str:
    """Text with an apostrophe before it where a spreadsheet would compute, or where it has one already."""
    return _GUARD + text if text.lstrip(" ").startswith((*_FORMULA, _GUARD)) else text


def unguard(text: str) -> str:
    """What `guard` was given."""
    return text.removeprefix(_GUARD)


def _plain(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # numpy's own numbers would name their type.
        return repr(float(value)) if math.isfinite(value) else ""
    return guard(value)
