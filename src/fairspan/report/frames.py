"""Tidy frames as CSV and as JSON."""

from typing import Any

import polars as pl
import polars.selectors as cs

# What makes a spreadsheet compute in a cell that was meant as text, and the sign that stops it.
_FORMULA = r"^ *[=+\-@\t\r\n＝＋－＠']"


def to_csv(frame: pl.DataFrame) -> str:
    """Numbers in full, nothing for unknown ones, and text that no spreadsheet takes for a formula."""
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
