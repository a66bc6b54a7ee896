"""What it means for a search that only some documents of a corpus were drawn."""

import numpy as np

from fairspan.report.text import number
from fairspan.retrieval.metrics import parse_metric
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.measures import (
    RANK,
    EvaluateEntries,
    arms_of,
    metrics_of,
    sorted_rows,
)

_DRAWS = 100


def drawn_notes(log: RunLog) -> list[str]:
    """That fewer documents make search easier, and by how much; none if all are searched."""
    drawn_from = log.header.part(EvaluateEntries).drawn_from
    task = log.header.searched
    if drawn_from is None:
        return []
    documents = round(task.documents / (task.indexes or 1))
    what = "pages" if task.positions == "segments" else "documents"
    note = f"searched among {documents:,} of {drawn_from:,} {what}, which is easier than among all"
    baseline = arms_of(log)[0]
    ranks = sorted_rows(log.rows.filter(measure=RANK), baseline)["value"].to_numpy()
    if len(ranks):
        metric = metrics_of(log)[0]
        now, half = among_half(metric, ranks.astype(np.int64), documents)
        # What is found falls by about the same share with each doubling.
        left = now / half if half else 1.0
        among_all = now * left ** np.log2(drawn_from / documents)
        note += (
            f": among half of them, {metric} of {baseline} is {number(half)} instead of "
            f"{number(now)}, so among all expect roughly {number(among_all, '.2f')}"
        )
    return [note]


def among_half(metric: str, ranks: np.ndarray, documents: int) -> tuple[float, float]:
    """The mean of a metric where ranks[Q] are those of the only documents that answer the queries.

    Also what it is among a random half of the other documents, on average.
    """
    others = max(documents, int(ranks.max())) - 1
    by_rank = parse_metric(metric)(np.eye(others + 1), [[1.0]] * (others + 1))
    before = ranks - 1
    left = np.random.default_rng(0).hypergeometric(
        before, others - before, others // 2, (_DRAWS, len(ranks))
    )
    return float(by_rank[before].mean()), float(by_rank[left].mean())
