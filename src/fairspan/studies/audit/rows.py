"""The rows of an audit: values of documents, of their positions, and of their attention."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.design.documents import Document

SCHEMA: dict[str, pl.DataType] = {
    "treatment": pl.String(),
    "measure": pl.String(),
    # The document: how many segments, in which languages, of which set.
    "n": pl.Int16(),
    "plan": pl.String(),
    "set": pl.Int32(),
    "document": pl.String(),
    # Of a measure by position.
    "position": pl.Int16(),
    "segment": pl.String(),
    "tokens": pl.Int32(),
    # Of attention.
    "layer": pl.Int16(),
    "basket": pl.String(),
    "value": pl.Float64(),
}
ATTENTION = "attention_basket"
"""The measure of rows that are shares of attention."""


def position_rows(
    documents: Sequence[Document], values: Sequence[np.ndarray], **label: str
) -> pl.DataFrame:
    """One row per document and position, by the [n] values of each document.

    `label` has the columns treatment and measure.
    """
    tables = []
    for document, numbers in zip(documents, values, strict=True):
        columns = {
            "position": range(1, document.n + 1),
            "segment": [segment for segment, _ in document.keys],
            "tokens": document.tokens,
            "value": numbers,
        }
        tables.append(_table({**label, **_of(document), **columns}))
    return pl.concat(tables)


def document_rows(
    documents: Iterable[Document], values: Sequence[float], **label: str
) -> pl.DataFrame:
    """One row per document."""
    columns = pl.DataFrame([_of(document) for document in documents]).to_dict()
    return _table({**label, **columns, "value": values})


def basket_rows(
    document: Document, shares: Mapping[str, np.ndarray], treatment: str
) -> pl.DataFrame:
    """One row for each layer and basket of a document, by the [layers] shares of each basket."""
    label = {"treatment": treatment, "measure": ATTENTION, **_of(document)}
    tables = []
    for basket, masses in shares.items():
        columns = {"layer": range(len(masses)), "value": masses.astype(np.float64)}
        tables.append(_table({**label, "basket": basket, **columns}))
    return pl.concat(tables)


def with_languages(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the languages `lead` and `later` of their plans."""
    plans = rows["plan"].unique().to_list()
    leads = {plan: plan.partition(":")[0] for plan in plans}
    laters = {plan: plan.rpartition(":")[2] for plan in plans}
    text = pl.String()
    return rows.with_columns(
        lead=pl.col("plan").replace_strict(leads, return_dtype=text),
        later=pl.col("plan").replace_strict(laters, return_dtype=text),
    )


def _table(columns: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({**dict.fromkeys(SCHEMA), **columns}, schema=SCHEMA)


def _of(document: Document) -> dict[str, Any]:
    """The columns that all rows of a document share."""
    plan = str(document.plan)
    return {"n": document.n, "plan": plan, "set": document.set, "document": document.name}
