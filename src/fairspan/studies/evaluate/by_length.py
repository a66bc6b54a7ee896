"""A search by length: the shortest and the longest queries, and how far down the longest documents are found."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.evaluate.summary import Arm, arms_of, require_evaluation, sorted_rows

SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""

RANK = "rank"


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """One quantity of one arm on the shortest or longest queries, or on the longest documents.

    Attributes:
        group: "shortest queries", "longest queries" or "longest documents".
        measure: a metric, or "rank", which is better the smaller it is.
        count: of queries, or of documents as often as they answer one.
        tokens: the shortest and the longest of them.
        change: against the first arm, query by query; None for that arm itself.
    """

    arm: Arm
    group: str
    measure: str
    count: int
    tokens: tuple[int, int]
    value: Interval
    change: Interval | None


def by_length(log: RunLog) -> list[LengthGroup]:
    """The first metric for the shortest and longest fifth of queries, and the mean rank of the longest documents.

    These are the longest fifth of those that answer a query, counted once for each query that they answer.
    """
    require_evaluation(log)
    measured = log.rows["measure"].unique().to_list()
    metric = next((name for name in log.spec["metrics"] if name in measured), None)
    found: list[LengthGroup] = []
    if metric is not None and log.rows["query_tokens"].null_count() < len(log.rows):
        found += _groups(log, metric, "query_tokens", ("shortest queries", "longest queries"))
    if RANK in measured:
        found += _groups(log, RANK, "tokens", ("longest documents",))
    return found


def _groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[LengthGroup]:
    """The last of `names` is for the longest, the one before it for the shortest."""
    rows = log.rows.filter(pl.col("measure") == measure)
    tables = {arm: sorted_rows(rows, arm) for arm in arms_of(log)}
    baseline, first = next(iter(tables.items()))
    lengths, clusters = first[column].to_numpy(), first["set"].to_numpy()
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    groups = np.zeros(len(lengths), dtype=np.int64)
    if len(names) > 1:
        groups[lengths <= low] = 1
    groups[lengths >= high] = len(names)
    if len(np.unique(groups[groups > 0])) < len(names) or low == high:
        return []
    seed = int(log.header["seed"])
    found = []
    for arm, table in tables.items():
        own = table["value"].to_numpy()
        effects = query_effects(own, groups, clusters, rng=np.random.default_rng(seed))
        change = None
        if arm != baseline:
            change = query_change(first["value"].to_numpy(), own, groups, clusters, rng=np.random.default_rng(seed))
        for place, name in enumerate(names):
            inside = lengths[groups == place + 1]
            tokens = int(inside.min()), int(inside.max())
            changed = None if change is None else change.groups[place]
            found.append(LengthGroup(arm, name, measure, len(inside), tokens, effects.groups[place], changed))
    return found
