"""How many vectors a document needs: quality by the number of parts that an index keeps of it."""

from dataclasses import asdict, replace

import polars as pl

from fairspan.report.chart import Chart
from fairspan.report.table import CHANGE, Column, Table
from fairspan.report.view import Section
from fairspan.retrieval.indexes import ALL_PARTS, most_vectors
from fairspan.runs.log import RunLog
from fairspan.stats.estimates import Estimates
from fairspan.stats.queries import query_changes
from fairspan.studies.evaluate.charts import Shown
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.measures import (
    Columns,
    Compared,
    SearchArm,
    change_columns,
    compare_arms,
    metrics_of,
    sorted_rows,
)

_PER = 10_000
"""The number of documents for which the size of an index is shown."""
_INTRO = (
    "A document in parts of equal length, each with its own vector; the best match of its parts "
    "counts. The last point has a vector for every chunk that the plain model reads whole. plain "
    "truncates parts that are longer than its window."
)


def vector_rows(log: RunLog, margin: float) -> list[Columns]:
    """The first metric and the size of the index, by treatment and number of vectors.

    `change` is from the number of vectors that finds most. The fewest that are shown to lose less
    than the margin against it are `enough`; none, if that cannot be told.
    """
    metric = metrics_of(log)[0]
    costs = log.header.part(EvaluateEntries).costs
    by_arm = {SearchArm(cost.treatment, cost.index): cost for cost in costs}
    compared = [item for item in compare_arms(log, metric) if item.arm in by_arm]
    rows: list[Columns] = []
    for treatment in log.measured:
        counts = [item for item in compared if item.arm.treatment == treatment]
        counts.sort(key=_most)
        best = max(counts, key=lambda item: item.means.estimate[0])
        own_rows = []
        for item in counts:
            cost = by_arm[item.arm]
            size = cost.bytes / cost.documents * _PER / 1e6
            change = None if item is best else _change(log, metric, best, item)
            own_rows.append(
                {
                    **asdict(item.arm),
                    "metric": metric,
                    "queries": item.counts[0][0],
                    "vectors": _most(item),
                    "vectors_per_document": cost.vectors / cost.documents,
                    **item.means[0].columns(),
                    **change_columns(change),
                    "mb_float32": size,
                    "mb_int8": size / 4,
                }
            )
        rows += _marked(own_rows, margin)
    return rows


def _most(item: Compared) -> int:
    return most_vectors(item.arm.index) or 0


def _change(log: RunLog, metric: str, best: Compared, item: Compared) -> Estimates[float]:
    """The paired change from the best number of vectors."""
    clusters = sorted_rows(log, metric, item.arm)["cluster"].to_numpy()
    return query_changes(best.values, item.values, [0] * len(clusters), clusters)[0]


def _marked(rows: list[Columns], margin: float) -> list[Columns]:
    """The rows of a treatment, of which the fewest vectors that are shown to be enough say so.

    The best number itself is enough where all smaller ones are shown to find less.
    """
    best = next(row for row in rows if row["change_estimate"] is None)
    fewer = [row for row in rows if row["vectors"] < best["vectors"]]
    # None where no interval is known, which shows nothing.
    enough = [row for row in fewer if _is_known(row) and row["change_low"] > -margin]
    if not enough and all(_is_known(row) and row["change_high"] < 0 for row in fewer):
        enough = [best]
    fewest = min((row["vectors"] for row in enough), default=None)
    return [{**row, "enough": row["vectors"] == fewest} for row in rows]


def _is_known(row: Columns) -> bool:
    return row["change_low"] is not None and row["change_high"] is not None


def vectors_section(shown: Shown) -> Section:
    """The curve of each treatment, and what the numbers of vectors cost."""
    order = pl.Enum(shown.treatments)
    frame = shown.frame("vectors").with_columns(asked=_asked("vectors"), arm=pl.col("treatment"))
    frame = frame.sort("vectors", pl.col("treatment").cast(order))
    metric = frame["metric"][0]
    table = Table(
        "vectors",
        f"{metric} by vectors per document ({shown.where})",
        frame,
        heads={"asked": "vectors", "treatment": "treatment"},
        columns={
            "estimate": "mean [95 %]",
            "change": replace(CHANGE, name="against the best [95 %]"),
            "vectors_per_document": Column("per document", form=".1f"),
            "mb_float32": Column("MB", form=",.1f"),
            "mb_int8": Column("int8", form=",.1f"),
        },
        grouped=1,
        notes=(f"MB: of {_PER:,} documents, in float32 and in int8", *enough_words(shown)),
        brief=True,
    )
    return Section("How many vectors", _INTRO, charts=(_chart(shown, frame),), tables=(table,))


def _asked(column: str) -> pl.Expr:
    """The number of vectors that was asked for, in words."""
    text = pl.col(column).cast(pl.String)
    return pl.when(pl.col(column) == ALL_PARTS).then(pl.lit("one per chunk")).otherwise(text)


def _chart(shown: Shown, frame: pl.DataFrame) -> Chart:
    """Quality against vectors per document, on a logarithmic axis."""
    last = frame.filter(treatment=shown.treatments[-1])
    enough = last.filter("enough", pl.col("vectors") != last["vectors"].max()).to_dicts()
    edge = None
    if enough:
        [row] = enough
        edge = (row["vectors_per_document"], f"{row['asked']} is enough ({row['treatment']})")
    return Chart(
        name="vectors",
        title="How many vectors a document needs",
        subtitle=shown.where,
        frame=frame,
        kind="lines",
        x="vectors_per_document",
        x_title="vectors per document",
        y_title=frame["metric"][0],
        scale="log",
        series=shown.treatments,
        edge=edge,
        label="asked",
        told=[("queries", "queries")],
        brief=True,
    )


def enough_words(shown: Shown) -> list[str]:
    """How many vectors are enough, treatment by treatment."""
    margin = shown.log.analysis.margin
    words = []
    for treatment in shown.treatments:
        rows = (
            shown.frame("vectors").filter(treatment=treatment).with_columns(asked=_asked("vectors"))
        )
        enough = rows.filter("enough").to_dicts()
        if enough:
            row = enough[0]
            words.append(
                f"{treatment}: {row['asked']} is enough ({row['mb_float32']:,.1f} MB), the "
                f"smallest number that is shown to lose at most {margin:g} against the best"
            )
        else:
            words.append(
                f"{treatment}: these documents cannot tell how many are enough: no number is shown "
                f"to lose at most {margin:g} against the best"
            )
    return words
