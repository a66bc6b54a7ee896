"""How often evidence is found by how deep it is in a document."""

import numpy as np

from fairspan.runs.header import TaskInfo
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.measures import (
    Columns,
    Groups,
    arms_of,
    compare_arms,
    metrics_of,
    sorted_rows,
)

LEAST_QUERIES = 20
"""At a depth; fewer are counted with those beside them."""
_MOST_STEPS = 12
_MOST_CHANCE = 1 / 3


def by_depth(log: RunLog) -> list[Columns]:
    """A row for each arm and step of tokens before the evidence; none if all read all evidence."""
    metric = hit_metric(log)
    baseline = arms_of(log)[0]
    windows = [info for info in log.header.windows or () if info.texts == "evidence"]
    window = next((info.window for info in windows if info.treatment == baseline.treatment), None)
    column = sorted_rows(log, metric, baseline)["depth"]
    if not window or not any(info.cut for info in windows) or column.null_count() == len(column):
        return []
    depths = column.fill_null(-1).to_numpy()
    starts = depth_steps(depths[depths >= 0], window)
    codes = np.where(depths < 0, 0, np.searchsorted(starts, depths, side="right"))
    chance = chance_of(log.header.searched, metric)
    steps = [
        {"metric": metric, "tokens_from": start, "tokens_to": end, "chance": chance}
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    groups = Groups(tuple(map(str, starts)), codes)
    return [row for result in compare_arms(log, metric, groups) for row in result.records(steps)]


def chance_of(task: TaskInfo, metric: str) -> float | None:
    """The recall of a random ranking."""
    name, _, first = metric.partition("@")
    return min(1.0, int(first) / task.documents) if name == "recall" else None


def recalls_of(log: RunLog) -> list[str]:
    """The measured recalls, without those that are high for a random ranking."""
    recalls = [metric for metric in metrics_of(log) if metric.startswith("recall@")]
    task = log.header.searched
    return [name for name in recalls if (chance_of(task, name) or 0) <= _MOST_CHANCE] or recalls[:1]


def hit_metric(log: RunLog) -> str:
    """The recall with the deepest cut-off; without any, the first metric."""
    recalls = recalls_of(log)
    return (
        max(recalls, key=lambda name: int(name.partition("@")[2]))
        if recalls
        else metrics_of(log)[0]
    )


def merged(counts: np.ndarray) -> list[int]:
    """A number from 1 for each of the bins; neighbours share one until it has 20 queries."""
    numbers = list[int]()
    inside = LEAST_QUERIES
    left = int(np.sum(counts))
    for count in np.asarray(counts).tolist():
        is_new = not numbers or (inside >= LEAST_QUERIES and left >= LEAST_QUERIES)
        numbers.append((numbers[-1] if numbers else 0) + is_new)
        inside = count if is_new else inside + count
        left -= count
    return numbers


def depth_steps(depths: np.ndarray, window: int) -> list[int]:
    """Where a dozen steps at most begin, whose width is the window, or halves or doubles of it."""
    width = _step_width(depths, window)
    counts = np.bincount((depths // width).astype(np.int64))
    read = round(window / width)
    numbers = merged(counts)
    if min(counts[:read].sum(), counts[read:].sum()) >= LEAST_QUERIES:
        # What the baseline reads and what it does not are never counted together.
        seen = merged(counts[:read])
        numbers = [*seen, *(seen[-1] + number for number in merged(counts[read:]))]
    starts = [round(width * numbers.index(number)) for number in dict.fromkeys(numbers)]
    first_end = starts[1] if len(starts) > 1 else np.inf
    unread = ((depths >= window) & (depths < first_end)).sum()
    if window < first_end and min((depths < window).sum(), unread) >= LEAST_QUERIES:
        starts.insert(1, window)
    return starts


def _step_width(depths: np.ndarray, window: int) -> float:
    """The window, or the half or double of it that makes up to a dozen steps."""
    # The deepest few are in the last step, however deep they are.
    deepest = np.sort(depths)[-LEAST_QUERIES:][0]
    width = float(window)
    while deepest >= _MOST_STEPS * width:
        width *= 2
    while deepest < _MOST_STEPS * width / 2 and width >= 2:
        width /= 2
    return width
