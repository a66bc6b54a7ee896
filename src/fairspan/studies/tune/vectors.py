"""What several vectors per document would find, and what they take."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from fairspan.report.frames import columns_of
from fairspan.report.table import CHANGE, Column, Table
from fairspan.report.text import number
from fairspan.report.view import Section
from fairspan.retrieval.indexes import ALL_PARTS, index_of, most_vectors
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.stats.choice import gain, quality
from fairspan.studies.tune.decision import Decision, sample_of
from fairspan.studies.tune.entries import TuneEntries

_PER = 10_000
"""Documents that the size of an index is given for."""
_SPACE = " / "


def vector_rows(decision: Decision, rows: pl.DataFrame, header: Header) -> list[dict[str, Any]]:
    """One vector per document, several, and one per chunk: what each finds, and its size.

    The change is from one vector under what is advised. The fewest that may be stored, and that
    lose less than the margin against the most of these, are `enough`.
    """
    entries = header.part(TuneEntries)
    if not entries.indexes:
        return []
    whole = (decision.advised, index_of(1))
    arms = dict.fromkeys([whole, *((cost.treatment, cost.index) for cost in entries.indexes)])
    named = rows.with_columns(arm=pl.concat_str("treatment", "part", separator=_SPACE))
    named = named.filter(pl.col("arm").is_in([_SPACE.join(arm) for arm in arms]))
    tasks = [task.name for task in entries.tasks if not task.is_guard]
    samples = [sample_of(named.filter(task=task), "arm") for task in tasks]
    one_vector = entries.indexes[0].bytes / entries.indexes[0].vectors
    records = []
    for arm in arms:
        costs = [cost for cost in entries.indexes if (cost.treatment, cost.index) == arm]
        documents = sum(cost.searched_documents for cost in costs)
        per_document = sum(cost.vectors for cost in costs) / documents if costs else 1.0
        size = per_document * one_vector * _PER / 1e6
        change = None if arm == whole else gain(samples, _SPACE.join(whole), _SPACE.join(arm))
        treatment, index = arm
        records.append(
            {
                "treatment": treatment,
                "vectors": most_vectors(index),
                "vectors_per_document": per_document,
                "quality": quality(samples, _SPACE.join(arm)),
                **columns_of(change, "change_"),
                "mb_float32": size,
                "mb_int8": size / 4,
            }
        )
    mark_enough(records, header.spec["vectors"] or 1, decision.margin)
    return records


def mark_enough(records: Sequence[dict[str, Any]], most: int, margin: float) -> None:
    """Say of each row whether it has the fewest vectors that are enough."""
    allowed = [record for record in records if record["vectors"] <= most]
    least = max(record["quality"] for record in allowed) - margin
    fewest = min(record["vectors"] for record in allowed if record["quality"] >= least)
    for record in records:
        record["enough"] = record["vectors"] == fewest


def vectors_sentence(records: Sequence[dict[str, Any]]) -> str:
    """How many vectors to store, if that was asked, and what others would find."""
    if not records:
        return ""
    single, *several, per_chunk = records
    enough = next(record for record in records if record["enough"])
    named = several[-1] if enough is single else enough
    size = f"({named['mb_float32']:,.0f} MB for {_PER:,} documents)"
    counted = f"{named['vectors']} vectors per document {size}"
    finds = f"search finds {number(named['quality'])} instead of {number(single['quality'])}"
    of_chunks = f"({per_chunk['mb_float32']:,.0f} MB) {number(per_chunk['quality'])}"
    begins = f"With {counted} {finds}" if enough is single else f"Store {counted}: {finds}"
    return f"{begins}; one per chunk {of_chunks}."


def vectors_section(log: RunLog, frame: pl.DataFrame) -> Section:
    """What several vectors per document find, as a table."""
    words = pl.when(pl.col("vectors") == ALL_PARTS).then(pl.lit("one per chunk"))
    frame = frame.with_columns(most=words.otherwise(pl.col("vectors").cast(pl.String)))
    table = Table.from_frame(
        "vectors",
        "Several vectors per document",
        frame,
        heads={"most": "vectors", "treatment": "treatment"},
        columns={
            "quality": str(log.spec["metric"]),
            "change": CHANGE,
            "vectors_per_document": Column("per document", form=".1f"),
            "mb_float32": Column("MB", form=",.1f"),
            "mb_int8": Column("int8", form=",.1f"),
        },
        notes=(
            "the best match of a document's vectors counts; change: from one vector",
            f"MB: of {_PER:,} documents, in float32 and in int8",
        ),
        brief=True,
    )
    return Section("How many vectors", tables=(table,))
