"""The rows of a log: one value each, with everything that it was measured on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.design.documents import Document

SCHEMA: dict[str, pl.DataType] = {
    "treatment": pl.String(),
    "measure": pl.String(),
    "set": pl.Int32(),
    "order": pl.Int32(),
    "document": pl.String(),
    "position": pl.Int16(),
    "segment": pl.String(),
    "language": pl.String(),
    "lead": pl.String(),
    "later": pl.String(),
    "n": pl.Int16(),
    "tokens": pl.Int32(),
    "value": pl.Float64(),
    # Of attention profiles: the layer, and the part of the document. Of searches: the index.
    "layer": pl.Int16(),
    "part": pl.String(),
    # Only of searches: the query, its length, and the tokens of the document before its evidence.
    "query": pl.String(),
    "query_tokens": pl.Int32(),
    "depth": pl.Int32(),
}


def as_rows(columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table of the schema; a column is a list or one value for all rows, and empty if omitted."""
    return pl.DataFrame({**dict.fromkeys(SCHEMA), **columns}, schema=SCHEMA)


def document_columns(document: Document) -> dict[str, Any]:
    """The columns that all rows of a document share."""
    return {
        "set": document.set,
        "order": document.order,
        "document": document.name,
        "lead": document.plan.lead,
        "later": document.plan.later,
        "n": document.n,
    }


def position_rows(
    documents: Sequence[Document], values: Sequence[np.ndarray], **label: str
) -> pl.DataFrame:
    """One row per document and position, given the [n] values of each document.

    `label` has the columns treatment and measure.
    """
    tables = []
    for document, numbers in zip(documents, values, strict=True):
        segments, languages = zip(*document.keys, strict=True)
        columns = {
            "position": range(1, document.n + 1),
            "segment": segments,
            "language": languages,
            "tokens": document.tokens,
            "value": numbers,
        }
        tables.append(as_rows({**label, **document_columns(document), **columns}))
    return pl.concat(tables)
