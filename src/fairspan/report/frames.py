"""Tidy frames: records and intervals in them, and the frames as CSV and as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
import polars.selectors as cs

# What makes a spreadsheet compute in a cell that was meant as text, and the sign that stops it.
_FORMULA = r"^ *[=+\-@\t\r\n＝＋－＠']"


def frame_of(records: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """A frame of records that all have the same names."""
    return pl.DataFrame([dict(record) for record in records], infer_schema_length=None)


def values_of(frame: pl.DataFrame, column: str) -> list[Any]:
    """The values of a column in the order of their first appearance."""
    return frame[column].unique(maintain_order=True).to_list()


def in_order(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Sorted by numbers, and by names in the order of their first appearance."""
    keys = [
        pl.col(name).cast(pl.Enum(values_of(frame, name)))
        if frame[name].dtype == pl.String
        else pl.col(name)
        for name in columns
    ]
    return frame.sort(keys, maintain_order=True)


def to_csv(frame: pl.DataFrame) -> str:
    """Numbers in full, nothing for unknown ones, and no text that a spreadsheet computes."""
    text = cs.string()
    guarded = pl.when(text.str.contains(_FORMULA)).then("'" + text).otherwise(text).name.keep()
    return finite_frame(frame).with_columns(guarded).write_csv(line_terminator="\r\n")


def to_records(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON can hold them."""
    return finite_frame(frame).to_dicts()


def finite_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with null in place of NaN and infinity."""
    floats = cs.float()
    return frame.with_columns(pl.when(floats.is_finite()).then(floats).otherwise(None).name.keep())
