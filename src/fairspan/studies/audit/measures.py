"""What audits measure, what each measure is called, and how its statistics are made."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fairspan.stats.estimates import Estimates

Columns = dict[str, Any]
"""The values of a frame's row by column."""

FAMILY = ["measure", "treatment", "n", "lead", "later"]
"""The columns of rows that are analysed together."""

PLAN = (
    pl.when(pl.col("lead") == pl.col("later"))
    .then(pl.col("lead").cast(pl.String))
    .otherwise(pl.concat_str("lead", "later", separator=":"))
    .alias("plan")
)
"""The name of each row's plan, such as "en" or "de:en"."""


def arrays(rows: pl.DataFrame, *names: str) -> list[np.ndarray]:
    """These columns, each of shape [N]."""
    return [rows[name].to_numpy() for name in names]


def symbol(position: int) -> str:
    """β0, β2, β3, …"""
    return f"β{0 if position == 1 else position}"


def contrast(row: Estimates[float], prefix: str = "") -> Columns:
    """An estimate as columns, with its test and its error."""
    return {**row.columns(prefix, "p", "standard_error", "degrees_of_freedom")}


class Words(NamedTuple):
    """The words for a measure: what is done to a position, its figure, and its section's intro."""

    done: str
    title: str
    intro: str


POSITION_MEASURES = {
    "representation": Words(
        "represented",
        "How well one vector represents each part of a document",
        "The mean cosine between a document's vector and the vector of each of its segments alone, "
        "with 95 % intervals. For a fair model, the lines are horizontal.",
    ),
    "retention": Words(
        "retained",
        "How much of its own meaning each part keeps inside a document",
        "The mean cosine between a segment's vector inside the document (late chunking) and its "
        "vector alone, with 95 % intervals.",
    ),
}
