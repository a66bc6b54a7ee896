"""Attention shares: where the pooled row looks, by segment, by basket and on a relative axis, from an audit's log."""

import numpy as np
import polars as pl

from fairspan.runs.log import RunLog
from fairspan.stats.intervals import t_intervals
from fairspan.studies.audit.measures import ATTENTION_MEASURES, FAMILY, PLAN

AROUND = ("first", "last", "special", "other")
"""The parts that hold none of the text."""

_COLUMNS = (
    *(
        "model",
        "measure",
        "treatment",
        "plan",
        "lead",
        "later",
        "n",
        "layers",
        "first_layer",
        "last_layer",
    ),
    *("part", "number", "estimate", "low", "high", "equal", "documents", "sets"),
)
_ORDER = pl.col("part").replace_strict(
    {"first": -1, "last": 1, "special": 2, "other": 3}, default=0
)


def layer_groups(depth: int) -> dict[str, range]:
    """The layers in thirds, and all of them. A model of fewer than three layers has no thirds.

    >>> layer_groups(6)
    {'first third': range(0, 2), 'middle third': range(2, 4), 'last third': range(4, 6), 'all': range(0, 6)}
    """
    everything = {"all": range(depth)}
    if depth < 3:
        return everything
    low, high = round(depth / 3), round(2 * depth / 3)
    thirds = {
        "first third": range(low),
        "middle third": range(low, high),
        "last third": range(high, depth),
    }
    return thirds | everything


def attention_frame(log: RunLog) -> pl.DataFrame:
    """Mean shares of every part of the text over the documents that have it, one row for each group of layers.

    Columns: `number` counts the parts of the text from 1 and is null for what is around it; `equal` is the share
    that a part would hold if the text's attention were divided equally among its parts; `low` and `high` are
    clustered by set and unknown for one set; `layers` is the group of layers from `first_layer` to `last_layer`.
    """
    rows = log.rows.filter(
        pl.col("measure").is_in(list(ATTENTION_MEASURES)) & pl.col("layer").is_not_null()
    )
    if rows.is_empty():
        return pl.DataFrame()
    order = rows.select(FAMILY).unique(maintain_order=True).with_row_index("family")
    found = []
    for name, layers in layer_groups(int(rows["layer"].max()) + 1).items():  # type: ignore[arg-type]
        own = shares_of(rows.filter(pl.col("layer").is_between(layers.start, layers.stop - 1)))
        own = own.join(order, on=FAMILY).sort("family", _ORDER, "number")
        labels = {
            "model": log.model,
            "layers": name,
            "first_layer": layers.start + 1,
            "last_layer": layers.stop,
        }
        own = own.with_columns(
            PLAN, *(pl.lit(value).alias(column) for column, value in labels.items())
        )
        found.append(own.select(_COLUMNS))
    return pl.concat(found)


def parts_around(frame: pl.DataFrame) -> list[str]:
    """Those around the text that get any attention."""
    held = set(frame.filter(pl.col("estimate") > 0)["part"])
    return [part for part in AROUND if part in held]


def shares_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The mean over documents of each part, after the mean over layers, with its interval clustered by set."""
    document = [*FAMILY, "set", "document"]
    number = pl.col("part").str.extract(r"^(?:segment|basket|bin) (\d+)$").cast(pl.Int64)
    by_document = (
        rows.group_by(*document, "part")
        .agg(pl.col("value").mean())
        .with_columns(number=number)
        .sort(*document, "part")
        .with_columns(
            equal=pl.col("value").filter(pl.col("number").is_not_null()).mean().over(document)
        )
    )
    part = [*FAMILY, "part", "number"]
    gaps = by_document.with_columns(gap=pl.col("value") - pl.col("value").mean().over(part))
    sets = gaps.group_by(*part, "set").agg(
        pl.col("gap", "value", "equal").sum(), documents=pl.len()
    )
    squares, sums = (
        (pl.col("gap") ** 2).sum().alias("squares"),
        pl.col("value", "equal", "documents").sum(),
    )
    ordered = sets.sort(*part, "set", nulls_last=True).group_by(part, maintain_order=True)
    found = ordered.agg(squares, sums, sets=pl.len())
    count = found["documents"].to_numpy()
    # CR1 for a mean: G/(G−1) · Σ_g (Σ_i (x_i − mean))² / N², and none for one set.
    variances = (
        found.select(pl.col("squares") * pl.col("sets") / (pl.col("sets") - 1))
        .to_series()
        .to_numpy()
    )
    means = t_intervals(
        found["value"].to_numpy() / count, np.sqrt(variances) / count, found["sets"].to_numpy() - 1
    )
    inside = found["number"].is_not_null().to_numpy()
    return found.with_columns(
        estimate=means.estimate,
        low=means.low,
        high=means.high,
        equal=np.where(inside, found["equal"].to_numpy() / count, np.nan),
    )
