"""Which documents of a corpus are searched, and what it means that others are not."""

import numpy as np

from fairspan.corpus.readers import LONG_SAMPLE, SAMPLE
from fairspan.corpus.segment import few
from fairspan.report.text import number
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.header import TaskInfo
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.measures import (
    RANK,
    EvaluateEntries,
    arms_of,
    metrics_of,
    sorted_rows,
)

_DRAWS = 100
_FEW = 100
"""Documents that search is much easier among than in most indexes."""


def among_words(task: TaskInfo, entries: EvaluateEntries, corpus: str) -> str:
    """Such as "among 50 of your 52 documents (2 left out: a.txt, b.txt)"."""
    single = task.indexes == 1
    left_out = entries.left_out if entries.drawn_from is None else []
    total = entries.drawn_from if single and entries.drawn_from else task.documents + len(left_out)
    yours = "" if corpus in (SAMPLE, LONG_SAMPLE) else "your "
    part = f" of {yours}{total:,}" if total > task.documents else ""
    names = f" ({len(left_out):,} left out: {few(left_out)})" if left_out else ""
    return f"among {task.documents:,}{part} documents{names}"


def drawn_notes(log: RunLog) -> list[str]:
    """That fewer documents make search easier, and by how much if others could be searched."""
    drawn_from = log.header.part(EvaluateEntries).drawn_from
    task = log.header.searched
    documents = round(task.documents / (task.indexes or 1))
    easier = "fewer documents make search easier"
    if drawn_from is None:
        is_small = task.source == PASSAGES and documents < _FEW
        return [f"{easier}: expect less in an index of more than {documents}"] if is_small else []
    what = "pages" if task.positions == "segments" else "documents"
    note = f"searched among {documents:,} of {drawn_from:,} {what}, and {easier}"
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
