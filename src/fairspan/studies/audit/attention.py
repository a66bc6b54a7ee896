"""Attention shares: where the pooled row looks, by segment, basket and relative position."""

import numpy as np
import polars as pl

from fairspan.runs.log import RunLog
from fairspan.stats.intervals import t_intervals
from fairspan.studies.audit.measures import ATTENTION_MEASURES, FAMILY, PLAN

AROUND = ("first", "last", "special", "other")
"""The parts that hold none of the text."""

LAST_HALF = "last half"
"""The group of layers that pages and tables show."""

# fmt: off
_COLUMNS = (
    "model", "measure", "treatment", "plan", "lead", "later", "n", "layers", "first_layer",
    "last_layer", "part", "number", "estimate", "low", "high", "equal", "documents", "sets",
)
# fmt: on
_ORDER = pl.col("part").replace_strict(
    {"first": -1, "last": 1, "special": 2, "other": 3}, default=0
)


def layer_groups(depth: int) -> dict[str, range]:
    """The layers in thirds, the last half (IRF's Figure 5) and all; below three layers only all."""
    groups = {}
    if depth >= 3:
        low = round(depth / 3)
        high = round(2 * depth / 3)
        groups["first third"] = range(low)
        groups["middle third"] = range(low, high)
        groups["last third"] = range(high, depth)
        groups[LAST_HALF] = range(depth // 2, depth)
    return groups | {"all": range(depth)}


def attention_frame(log: RunLog) -> pl.DataFrame:
    """Mean shares of every part over the documents that have it, for each group of layers.

    Columns: `number` counts the parts of the text from 1 and is null for what is around it; `equal`
    is the share of a part if all parts of the text had the same; intervals are clustered by set.
    """
    measured = pl.col("measure").is_in(list(ATTENTION_MEASURES))
    rows = log.rows.filter(measured, pl.col("layer").is_not_null())
    if rows.is_empty():
        return pl.DataFrame()
    order = rows.select(FAMILY).unique(maintain_order=True).with_row_index("family")
    frames = []
    depth = rows["layer"].to_numpy().max() + 1
    for name, layers in layer_groups(int(depth)).items():
        group = rows.filter(pl.col("layer").is_between(layers.start, layers.stop - 1))
        shares = clustered_means(group).join(order, on=FAMILY).sort("family", _ORDER, "number")
        columns = shares.with_columns(
            PLAN,
            model=pl.lit(log.model),
            layers=pl.lit(name),
            first_layer=layers.start + 1,
            last_layer=layers.stop,
        )
        frames.append(columns.select(_COLUMNS))
    return pl.concat(frames)


def parts_around(frame: pl.DataFrame) -> list[str]:
    """The parts around the text that get any attention."""
    attended = set(frame.filter(pl.col("estimate") > 0)["part"])
    return [part for part in AROUND if part in attended]


def clustered_means(rows: pl.DataFrame) -> pl.DataFrame:
    """The mean over layers, then over documents, of each part; its interval clustered by set."""
    document = [*FAMILY, "set", "document"]
    number = pl.col("part").str.extract(r"^(?:segment|basket|bin) (\d+)$").cast(pl.Int64)
    inside = pl.col("value").filter(pl.col("number").is_not_null())
    by_document = (
        rows.group_by(*document, "part")
        .agg(pl.col("value").mean())
        .with_columns(number=number)
        .sort(*document, "part")
        .with_columns(equal=inside.mean().over(document))
    )
    part = [*FAMILY, "part", "number"]
    gaps = by_document.with_columns(gap=pl.col("value") - pl.col("value").mean().over(part))
    sets = gaps.group_by(*part, "set").agg(
        pl.col("gap", "value", "equal").sum(), documents=pl.len()
    )
    ordered = sets.sort(*part, "set", nulls_last=True).group_by(part, maintain_order=True)
    sums = ordered.agg(
        pl.col("value", "equal", "documents").sum(),
        squares=(pl.col("gap") ** 2).sum(),
        sets=pl.len(),
    )
    count = sums["documents"].to_numpy()
    # CR1 for a mean: G/(G−1) · Σ_g (Σ_i (x_i − mean))² / N², and none for one set.
    clusters = sums["sets"].to_numpy()
    variances = sums.select(pl.col("squares") * pl.col("sets") / (pl.col("sets") - 1)).to_series()
    errors = np.sqrt(variances.to_numpy()) / count
    means = t_intervals(sums["value"].to_numpy() / count, errors, clusters - 1)
    counted = sums["number"].is_not_null().to_numpy()
    return sums.with_columns(
        estimate=means.estimate,
        low=means.low,
        high=means.high,
        equal=np.where(counted, sums["equal"].to_numpy() / count, np.nan),
    )
