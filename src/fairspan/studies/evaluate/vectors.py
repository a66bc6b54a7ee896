"""How many vectors a document needs: quality by the number of parts that an index keeps of it."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import ceil

import numpy as np
import polars as pl

from fairspan.report.chart import Chart, Panel, on_log_axis
from fairspan.report.frames import columns_of
from fairspan.report.table import Column, Table
from fairspan.report.text import number
from fairspan.report.view import Section
from fairspan.retrieval.indexes import ALL_PARTS, most_vectors
from fairspan.runs.header import IndexCost
from fairspan.studies.evaluate.charts import Shown
from fairspan.studies.evaluate.measures import Columns, Result, SearchArm, change_columns

_PER = 10_000
"""Documents that the size of an index is given for."""
_INTRO = (
    "A document in parts of equal length, each with its own vector; the best match of its parts "
    "counts. The last point has a vector for every chunk that the plain model reads whole. plain "
    "cuts parts that are longer than it reads."
)


def vector_rows(
    results: Mapping[SearchArm, Result], costs: Mapping[SearchArm, IndexCost], margin: float
) -> list[Columns]:
    """The first metric and the size of the index, by treatment and number of vectors.

    The fewest of a treatment that lose less than the margin against one per chunk are `enough`.
    Empty if indexes do not differ in the number of parts.
    """
    rows: list[Columns] = []
    for arm, result in results.items():
        most = most_vectors(arm.index)
        if most is None:
            continue
        cost = costs[arm]
        per_document = cost.vectors / cost.searched_documents
        of_vectors = cost.bytes / cost.searched_documents * _PER / 1e6
        rows.append(
            {
                **asdict(arm),
                "metric": result.metric,
                "queries": result.effects.counts.queries,
                "vectors": most,
                "vectors_per_document": per_document,
                **columns_of(result.effects.overall),
                "p_value": result.p_value,
                **change_columns(result.change),
                "mb_float32": of_vectors,
                "mb_int8": of_vectors / 4,
            }
        )
    for row in rows:
        others = {
            other["vectors"]: other["estimate"]
            for other in rows
            if other["treatment"] == row["treatment"]
        }
        least = others.get(ALL_PARTS, np.inf) - margin
        fewest = min((most for most, estimate in others.items() if estimate >= least), default=None)
        row["enough"] = row["vectors"] == fewest
    kinds = {row["index"] for row in rows}
    return rows if len(kinds) > 1 else []


def vectors_section(shown: Shown) -> Section:
    """The curve of each treatment, and what the numbers of vectors cost."""
    order = pl.Enum(shown.treatments)
    frame = shown.frame("vectors").with_columns(asked=_asked("vectors"), arm=pl.col("treatment"))
    frame = frame.sort("vectors", pl.col("treatment").cast(order))
    metric = frame["metric"][0]
    table = Table.from_frame(
        "vectors",
        f"{metric} by vectors per document ({shown.where})",
        frame,
        heads={"asked": "vectors", "treatment": "treatment"},
        columns={
            "estimate": "mean [95 %]",
            "vectors_per_document": Column("per document", form=".1f"),
            "mb_float32": Column("MB", form=",.1f"),
            "mb_int8": Column("int8", form=",.1f"),
        },
        grouped=1,
        notes=(
            f"MB: of {_PER:,} documents, in float32 and in int8",
            *_enough(frame.filter("enough"), shown),
        ),
        brief=True,
    )
    return Section("How many vectors", _INTRO, charts=(_chart(shown, frame),), tables=(table,))


def _asked(column: str) -> pl.Expr:
    """The number of vectors that was asked for, in words."""
    text = pl.col(column).cast(pl.String)
    return pl.when(pl.col(column) == ALL_PARTS).then(pl.lit("one per chunk")).otherwise(text)


def _chart(shown: Shown, frame: pl.DataFrame) -> Chart:
    """Quality against vectors per document, on a logarithmic axis."""
    metric = frame["metric"][0]
    per_document = {row["asked"]: row["vectors_per_document"] for row in frame.to_dicts()}
    labels = tuple(per_document)
    last = shown.treatments[-1]
    enough = frame.filter("enough", pl.col("asked") != labels[-1], treatment=last)["asked"]
    words = f"within {shown.log.spec['margin']:g} of one per chunk ({last})"
    # Short, since the last label ends with the axis.
    axis = tuple(
        label if label.isdecimal() else f"all ({number(count, '.1f')})"
        for label, count in per_document.items()
    )
    panel = Panel(
        "all queries",
        axis,
        shown.series(frame, "asked", labels, arms=shown.treatments),
        detail=f"{frame['queries'][0]:,} queries",
        places=on_log_axis(list(per_document.values())),
    )
    for label in enough:
        place = panel.spots[labels.index(label)]
        panel = replace(panel, edge=(place, f"{label} {words}"))
    return Chart(
        "vectors",
        "How many vectors a document needs",
        "lines",
        "vectors per document",
        metric,
        (panel,),
        subtitle=shown.where,
        fixed=(0.0, ceil(10 * max(frame["high"])) / 10),
        brief=True,
    )


def _enough(rows: pl.DataFrame, shown: Shown) -> list[str]:
    """How many vectors are enough, treatment by treatment."""
    margin = shown.log.spec["margin"]
    return [
        f"{row['treatment']}: the fewest vectors within {margin:g} of one per chunk: "
        f"{row['asked']} ({row['mb_float32']:,.1f} MB)"
        for row in rows.sort(pl.col("treatment").cast(pl.Enum(shown.treatments))).to_dicts()
    ]
