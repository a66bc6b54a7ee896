"""A search by length: the shortest and the longest queries, and how far down the longest documents are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.evaluate.summary import Arm, arms_of, interval_dict, sorted_rows

SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""

RANK = "rank"


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """One quantity of one arm on the shortest or longest queries, or on the longest documents.

    Attributes:
        group: "shortest queries", "longest queries" or "longest documents".
        measure: a metric, or "rank", which is better the smaller it is.
        change: against the first arm, query by query; None for that arm itself.
    """

    arm: Arm
    group: str
    measure: str
    count: int
    tokens: tuple[int, int]
    value: Interval
    change: Interval | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "treatment": self.arm.treatment,
            "index": self.arm.index,
            "group": self.group,
            "measure": self.measure,
            "count": self.count,
            "tokens": list(self.tokens),
            "value": interval_dict(self.value),
            "change": None if self.change is None else interval_dict(self.change),
        }


def by_length(log: RunLog) -> list[LengthGroup]:
    """The first metric for the shortest and longest fifth of queries, and the mean rank of the longest documents.

    These are the longest fifth of those that answer a query, counted once for each query that they answer.
    """
    if log.header.get("verb") != "evaluate":
        raise LogError(f"the run {log.run} is an {log.header.get('verb')}, not an evaluation.")
    arms = arms_of(log)
    metric = next((name for name in log.spec["metrics"] if name in log.rows["measure"].unique().to_list()), None)
    found: list[LengthGroup] = []
    if metric is not None and log.rows["query_tokens"].null_count() < len(log.rows):
        found += _groups(log, arms, metric, "query_tokens", ("shortest queries", "longest queries"))
    if RANK in log.rows["measure"].unique().to_list():
        found += _groups(log, arms, RANK, "tokens", (None, "longest documents"))
    return found


def _groups(
    log: RunLog, arms: list[Arm], measure: str, column: str, names: tuple[str | None, str]
) -> list[LengthGroup]:
    rows = log.rows.filter(pl.col("measure") == measure)
    tables = {arm: sorted_rows(rows, arm) for arm in arms}
    lengths = tables[arms[0]][column].to_numpy()
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    number = {name: place for place, name in enumerate([name for name in names if name], start=1)}
    groups = np.zeros(len(lengths), dtype=np.int64)
    if names[0] is not None:
        groups[lengths <= low] = number[names[0]]
    groups[lengths >= high] = number[names[1]]
    if len(np.unique(groups[groups > 0])) < len(number) or low == high:
        return []
    seed = int(log.header["seed"])
    first = tables[arms[0]]
    found = []
    for arm in arms:
        clusters = first["set"].to_numpy()
        own = tables[arm]["value"].to_numpy()
        effects = query_effects(own, groups, clusters, rng=np.random.default_rng(seed))
        change = None
        if arm != arms[0]:
            before = first["value"].to_numpy()
            change = query_change(before, own, groups, clusters, rng=np.random.default_rng(seed))
        for name, place in number.items():
            inside = lengths[groups == place]
            found.append(
                LengthGroup(
                    arm,
                    name,
                    measure,
                    len(inside),
                    (int(inside.min()), int(inside.max())),
                    effects.groups[place - 1],
                    None if change is None else change.groups[place - 1],
                )
            )
    return found
