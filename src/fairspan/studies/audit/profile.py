"""Attention profiles of documents as rows: by segment, by basket of 128 and on a relative axis, for every layer."""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from fairspan.design.documents import Document
from fairspan.encoding.attention_profile import by_basket, by_bins, by_segment
from fairspan.encoding.attention_rows import AttentionRow
from fairspan.runs.rows import SCHEMA, as_rows

BASKET_SIZE = 128
BINS = 20

Part = tuple[str, str, int | None, np.ndarray]
"""A measure, the name of a part of the text, its position if it is a segment, and its mass in every layer."""


def profile_rows(
    documents: Sequence[Document], rows: Iterable[AttentionRow], *, run: str, model: str, treatment: str
) -> pl.DataFrame:
    """One row for each document, layer and part; the parts of one measure sum to 1 in every layer."""
    tables = [
        _table(document, part, {"run": run, "model": model, "treatment": treatment})
        for document, row in zip(documents, rows, strict=True)
        for part in _parts(document, row)
    ]
    return pl.concat(tables) if tables else pl.DataFrame(schema=SCHEMA)


def _parts(document: Document, row: AttentionRow) -> Iterable[Part]:
    segments = by_segment(row, document.spans)
    for place in range(document.n):
        yield "attention_segment", f"segment {place + 1}", place + 1, segments.segments[:, place]
    yield "attention_segment", "special", None, segments.special
    yield "attention_segment", "other", None, segments.other
    baskets = by_basket(row, BASKET_SIZE)
    yield "attention_basket", "first", None, baskets.first
    for number in range(baskets.baskets.shape[1]):
        yield "attention_basket", f"basket {number + 1}", None, baskets.baskets[:, number]
    yield "attention_basket", "last", None, baskets.last
    yield "attention_basket", "other", None, baskets.other
    bins = by_bins(row, BINS)
    for number in range(BINS):
        yield "attention_bin", f"bin {number + 1}", None, bins.bins[:, number]
    yield "attention_bin", "special", None, bins.special
    yield "attention_bin", "other", None, bins.prompt


def _table(document: Document, part: Part, label: dict[str, str]) -> pl.DataFrame:
    measure, name, position, masses = part
    segment, language = document.keys[position - 1] if position else (None, None)
    constant = {
        **label,
        "measure": measure,
        "set": document.set,
        "order": document.order,
        "document": document.name,
        "position": position,
        "segment": segment,
        "language": language,
        "lead": document.plan.lead,
        "later": document.plan.later,
        "n": document.n,
        "tokens": document.tokens[position - 1] if position else None,
        "part": name,
    }
    return as_rows({**constant, "layer": list(range(len(masses))), "value": np.asarray(masses, np.float64).tolist()})
