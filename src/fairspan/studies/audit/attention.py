"""Means by document: attention shares of the pooled row, and cosines with the first treatment."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from fairspan.report.frames import frame_of
from fairspan.runs.log import RunLog
from fairspan.stats.positions import position_effects
from fairspan.studies.audit.measures import FAMILY, PLAN, Columns
from fairspan.studies.audit.options import AuditAnalysis
from fairspan.studies.audit.rows import ATTENTION, with_languages

_ORDER = pl.col("part").replace_strict({"first": -1, "last": 1, "other": 2}, default=0)


def attention_frame(log: RunLog, analysis: AuditAnalysis) -> pl.DataFrame:
    """Mean shares of every basket in the last half of the layers, as in IRF's Figures 5 and 14.

    A mean is over the documents that have the basket. `number` counts baskets from 1, and is null
    for the special tokens and what else is around the text.
    """
    rows = log.rows.filter(pl.col("layer").is_not_null(), measure=ATTENTION)
    if rows.is_empty():
        return pl.DataFrame()
    rows = with_languages(rows).rename({"basket": "part"})
    depth = int(rows["layer"].to_numpy().max()) + 1
    document = [*FAMILY, "set", "document", "part"]
    last_half = rows.filter(pl.col("layer") >= depth // 2)
    shares = last_half.group_by(document, maintain_order=True).agg(pl.col("value").mean())
    frame = _means(log, shares, [*FAMILY, "part"], analysis)
    number = pl.col("part").str.extract(r"^basket (\d+)$").cast(pl.Int64)
    families = frame.select(FAMILY).unique(maintain_order=True).with_row_index("family")
    ordered = frame.with_columns(number=number).join(families, on=FAMILY)
    columns = {"first_layer": pl.lit(depth // 2 + 1), "last_layer": pl.lit(depth)}
    return ordered.sort("family", _ORDER, "number").drop("family").with_columns(**columns)


def fidelity_frame(log: RunLog, analysis: AuditAnalysis) -> pl.DataFrame:
    """Mean cosines of documents' vectors with those of the first treatment, by family."""
    rows = log.rows.filter(pl.col("treatment") != log.treatments[0], measure="fidelity")
    return (
        pl.DataFrame() if rows.is_empty() else _means(log, with_languages(rows), FAMILY, analysis)
    )


def _means(
    log: RunLog, rows: pl.DataFrame, keys: Sequence[str], analysis: AuditAnalysis
) -> pl.DataFrame:
    """The mean of the values of each group of documents, with its interval clustered by set."""
    records = []
    for key, part in rows.partition_by(keys, as_dict=True, maintain_order=True).items():
        values = part["value"].to_numpy()
        sets = part["set"].to_numpy()
        ones = np.ones(len(values), np.int64)
        record: Columns = {"model": log.model, **dict(zip(keys, key, strict=True))}
        counts = {"documents": len(values), "sets": part["set"].n_unique()}
        mean: Columns = {"estimate": values.mean()}
        if counts["sets"] > 1:
            effects = position_effects(values, ones, sets, inference=analysis.inference)
            mean = {**effects.means[0].columns()}
        records.append({**record, **dict.fromkeys(("low", "high")), **mean, **counts})
    return frame_of(records).with_columns(PLAN)
