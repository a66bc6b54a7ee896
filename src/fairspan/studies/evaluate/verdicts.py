"""`Verdict`: whether a treatment finds more, for short and for long documents, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.report.text import counted, number, with_bounds
from fairspan.retrieval.indexes import FUSED, WHOLE
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.estimates import Estimates
from fairspan.stats.gains import (
    FEW_CLUSTERS,
    Word,
    clusters_to_decide,
    combined_word,
    word_of,
)
from fairspan.studies.evaluate.entries import EvaluateEntries, IndexCost
from fairspan.studies.evaluate.measures import (
    LONG,
    SHORT,
    Columns,
    Compared,
    SearchArm,
    compare_arms,
    length_groups,
    metrics_of,
    window_of,
)

_HALF = 0.5
"""If less than this share of the gain is left beside keywords, the verdict says so."""


@dataclass(frozen=True, slots=True)
class Group:
    """Queries about short or about long documents: what is found, and what that shows."""

    name: str
    queries: int
    documents: int
    before: float
    after: float
    change: Estimates[float]
    word: Word


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the log shows of one treatment against the first one.

    Attributes:
        verdict: the word on all documents, unless short or long ones lose.
        groups: all queries, then short and long documents, where there are both.
        p: of the change over all queries, corrected by Holm for several treatments.
        documents_needed: how many in all would decide it; None if that is not open, or no realistic
            number would.
        sentences: the same in words, the most important first.
    """

    treatment: str
    verdict: str
    groups: tuple[Group, ...]
    p: float
    documents_needed: int | None
    sentences: tuple[str, ...]

    @property
    def overall(self) -> Group:
        return self.groups[0]

    def word(self, name: str) -> Word | None:
        return next((group.word for group in self.groups if group.name == name), None)

    @property
    def record(self) -> Columns:
        """The row of the frame `verdicts`."""
        return {
            "treatment": self.treatment,
            "verdict": self.verdict,
            "sentence": " ".join(self.sentences),
            "short": self.word(SHORT),
            "long": self.word(LONG),
            "documents": self.overall.documents,
            "documents_needed": self.documents_needed,
        }


def verdicts_of(log: RunLog, margin: float) -> list[Verdict]:
    """The verdict on each treatment of whole documents but the first."""
    metric = metrics_of(log)[0]
    compared = list(compare_arms(log, metric, length_groups(log, metric)))
    arms = {result.arm: result for result in compared}
    judged = [result for result in compared if result.arm.index == WHOLE]
    if not judged or judged[0].changes is not None:
        return []
    before, *others = judged
    p_values = holm([result.changes.p[0] for result in others if result.changes])
    return [
        _verdict(log, arms, before, result, float(p), margin)
        for result, p in zip(others, p_values, strict=True)
    ]


def _verdict(
    log: RunLog,
    arms: dict[SearchArm, Compared],
    before: Compared,
    after: Compared,
    p: float,
    margin: float,
) -> Verdict:
    """The verdict on one treatment, in a word and in sentences."""
    groups = groups_of(before, after, p, margin)
    overall, *by_length = groups
    needed = None
    if overall.word == "inconclusive":
        needed = clusters_to_decide(overall.change, overall.documents, margin)
    cost = _cost_of(log, after.arm)
    fused = [arms.get(SearchArm(side.arm.treatment, FUSED)) for side in (before, after)]
    sentences = [
        f"{metrics_of(log)[0]} {_numbers(overall)}{_fewer(overall, log)}.",
        *(_group_sentence(group, window_of(log)) for group in by_length),
        "" if by_length else _all_alike(after.counts, window_of(log)),
        _beside_keywords(overall.change, fused),
        _open(overall, needed, log),
        _unchanged(cost, overall.word),
    ]
    spoken = tuple(filter(None, sentences))
    return Verdict(after.arm.treatment, verdict_of(groups), groups, p, needed, spoken)


def groups_of(before: Compared, after: Compared, p: float, margin: float) -> tuple[Group, ...]:
    """All queries, then short and long documents where there are some of both."""
    assert after.changes is not None
    names = ("all documents", SHORT, LONG)
    present = [place for place, (queries, _) in enumerate(after.counts) if queries]
    groups = []
    for place in present if len(present) == len(names) else [0]:
        change = after.changes[place]
        queries, documents = after.counts[place]
        group = Group(
            names[place],
            queries,
            documents,
            before.means[place].estimate,
            after.means[place].estimate,
            change,
            # Only the verdict on all is about several treatments at once.
            word_of(change, margin, None if place else p),
        )
        groups.append(group)
    return tuple(groups)


def verdict_of(groups: Sequence[Group]) -> str:
    """The word on all queries, unless short or long documents lose."""
    overall, *by_length = groups
    words = {group.name: group.word for group in by_length}
    return combined_word(overall.word, words.get(SHORT), words.get(LONG))


def _cost_of(log: RunLog, arm: SearchArm) -> IndexCost | None:
    costs = log.header.part(EvaluateEntries).costs
    keys = (arm.treatment, arm.index)
    return next((cost for cost in costs if (cost.treatment, cost.index) == keys), None)


def _numbers(group: Group) -> str:
    means = f"{number(group.before)} → {number(group.after)}"
    return f"{means} ({with_bounds(group.change, '+.3f')})"


def _group_sentence(group: Group, window: int | None) -> str:
    """What one group finds."""
    fits = "at most" if group.name == SHORT else "more than"
    of = f"{group.name} ({fits} {window:,} tokens; {counted(group.documents, 'document')})"
    return f"{of}: {_numbers(group)}, {group.word}."


def _all_alike(counts: Sequence[tuple[int, int]], window: int | None) -> str:
    """That all documents are short, or all are long."""
    if window is None:
        return ""
    what = "exceed" if counts[-1][0] else "fit into"
    return f"All relevant documents {what} the window of {window:,} tokens."


def _beside_keywords(alone: Estimates[float], fused: Sequence[Compared | None]) -> str:
    """What the treatment gains where vectors are fused with keywords."""
    before, after = fused
    if before is None or after is None or after.changes is None:
        return ""
    change = after.changes[0]
    means = " → ".join(number(side.means[0].estimate) for side in (before, after))
    words = f"Beside keywords: {means} ({with_bounds(change, '+.3f')})"
    if alone.low > 0:
        if change.low <= 0:
            words += ", no gain is shown"
        elif change.estimate < _HALF * alone.estimate:
            words += ", less than half of the gain is left"
    return f"{words}."


def _fewer(group: Group, log: RunLog) -> str:
    """A warning if there are few documents."""
    if group.documents >= FEW_CLUSTERS:
        return ""
    return f", from {_clusters(group.documents, log)} only"


def _open(group: Group, needed: int | None, log: RunLog) -> str:
    """What would decide."""
    if group.word != "inconclusive":
        return ""
    if needed is None:
        return f"No realistic number of {_clusters(2, log)[2:]} would decide it."
    return f"{_clusters(group.documents, log)}; {documents_advice(needed, log)} would decide it."


def _clusters(count: int, log: RunLog) -> str:
    """A number of documents, or for the user's own questions of clusters of queries."""
    is_drawn = log.header.part(EvaluateEntries).kind == PASSAGES
    return counted(count, "document" if is_drawn else "cluster") + (
        "" if is_drawn else " of queries"
    )


def documents_advice(needed: int, log: RunLog) -> str:
    """How to have so many documents: by drawing more, if there are more."""
    entries = log.header.part(EvaluateEntries)
    if entries.drawn_from is None:
        return f"about {_clusters(needed, log)}"
    # Some documents are only in the index, and some are translations.
    task = log.header.searched
    drawn = entries.drawn or task.documents
    sets = int(np.ceil(needed * drawn / (task.clusters or drawn)))
    there = "" if sets <= entries.drawn_from else f" (there are {entries.drawn_from:,})"
    return f"`--sets {sets}`{there}"


def _unchanged(cost: IndexCost | None, word: Word) -> str:
    """A sentence if few documents have another vector, so that little can change."""
    if cost is None or cost.changed is None:
        return ""
    if cost.changed == 0:
        but = "so nothing can change" if word == "the same" else "only queries differ"
        return f"No document has another vector, {but}."
    if cost.changed < cost.documents:
        return f"{cost.changed:,} of {counted(cost.documents, 'document')} have another vector."
    return ""
