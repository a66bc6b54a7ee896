"""Rows of a search among all translations: which languages are in the first ranks, and where each translation is."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.retrieval.measured import MeasuredTask
from fairspan.runs.rows import SCHEMA, as_rows
from fairspan.runs.search_rows import query_columns, rank_rows
from fairspan.stats.language_grid import peer

TOP = 10
SHARE, PEER, TRANSLATION_RANK = f"share@{TOP}", "PEER", "translation rank"
"""The share of a document language in the first ranks, PEER, and the rank of the translation in that language."""


def language_rows(
    measured: MeasuredTask,
    numbers: np.ndarray,
    documents: Sequence[str],
    pairs: np.ndarray,
    ranks: np.ndarray,
    clusters: Mapping[str, int],
    label: Mapping[str, str],
) -> pl.DataFrame:
    """One row per query for PEER, and one for each query and document language for the others.

    Numbers [Q, k] say what was found for each query, best first, among the ids `documents`; pairs [P, 2] are the
    queries' relevant documents, and ranks [P] theirs.
    """
    task = measured.task
    spoken = list(dict.fromkeys(query.language for query in task.queries))
    language_of = {one.id: one.language for one in task.documents}
    codes = np.array([spoken.index(language_of[name]) for name in documents])
    found = codes[numbers]
    shares = (found[:, :TOP, None] == np.arange(len(spoken))).mean(1)
    columns = query_columns(measured, clusters, label)
    of_queries = as_rows({**columns, "measure": PEER, "value": _peer(measured, numbers, documents, codes).tolist()})
    first = of_queries.drop("value", "measure", "document_language")
    tables = [of_queries]
    for number, language in enumerate(spoken):
        own = first.with_columns(
            measure=pl.lit(SHARE), document_language=pl.lit(language), value=pl.Series(shares[:, number])
        )
        tables.append(own.select([pl.col(name).cast(kind) for name, kind in SCHEMA.items()]))
    spoken_in = pl.Series([language_of[documents[number]] for number in pairs[:, 1]], dtype=pl.String)
    own = rank_rows(measured, pairs, ranks, documents, of_queries)
    tables.append(own.with_columns(measure=pl.lit(TRANSLATION_RANK), document_language=spoken_in))
    return pl.concat(tables)


def _peer(measured: MeasuredTask, numbers: np.ndarray, documents: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """PEER [Q] of the documents that do not answer a query, which are there in all languages as well.

    The few that do answer it, one per language, have the same p value in whatever order they are.
    """
    place_of = {name: number for number, name in enumerate(documents)}
    values = np.empty(len(numbers))
    for row, query in enumerate(measured.task.queries):
        levels = np.zeros(len(documents), np.int64)
        levels[[place_of[name] for name in measured.task.relevant[query.id]]] = 1
        values[row] = peer(numbers[row], levels, codes, {0: 1.0})
    return values
