"""What is found with short and long queries, and of long documents (LC §5)."""

import numpy as np

from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.measures import (
    RANK,
    Columns,
    arms_of,
    compare_groups,
    metrics_of,
    sorted_rows,
)

SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""


def by_length(log: RunLog) -> list[Columns]:
    """The first metric for the shortest and longest queries, and the rank of the longest documents.

    Documents count once for each query that they answer.
    """
    names = ("shortest queries", "longest queries")
    rows = _length_groups(log, metrics_of(log)[0], "query_tokens", names)
    if RANK in log.rows["measure"]:
        rows += _length_groups(log, RANK, "tokens", ("longest documents",))
    return rows


def _length_groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[Columns]:
    """A row for each arm and group, the longest last; none if lengths are alike."""
    rows = sorted_rows(log.rows.filter(measure=measure), arms_of(log)[0])
    lengths = rows[column].to_numpy()
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    if low == high:
        return []
    groups = np.where(lengths >= high, len(names), np.where(lengths <= low, len(names) - 1, 0))
    labels = list[Columns]()
    for number, name in enumerate(names, start=1):
        inside = lengths[groups == number]
        tokens = {"tokens_from": int(inside.min()), "tokens_to": int(inside.max())}
        labels.append({"group": name, "measure": measure, "count": len(inside), **tokens})
    return compare_groups(log, measure, groups, labels)
