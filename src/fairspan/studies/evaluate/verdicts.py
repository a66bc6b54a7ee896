"""`verdicts_of` an evaluation: whether a treatment finds more, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import polars as pl

from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.equivalence import LossKind, judge_loss, size_words
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import FEW_CLUSTERS, QueryChange, clusters_to_decide
from fairspan.studies.evaluate.measures import Result, SearchArm, first_results, languages_of
from fairspan.studies.evaluate.options import DOCUMENTS_ONLY

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("treatment", "verdict", "sentence"), pl.String),
    **dict.fromkeys(("clusters", "more_clusters"), pl.Int64),
}
NO_VERDICTS = pl.DataFrame(schema=_SCHEMA)
_ORDER = get_args(LossKind)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a treatment, and the result of the form that it is about."""

    treatment: str
    result: Result
    verdict: LossKind

    @property
    def form(self) -> str:
        """What sentences begin with if the verdict is on documents only."""
        return "" if self.result.arm.treatment == self.treatment else "documents only: "

    @property
    def change(self) -> Interval:
        assert self.result.change is not None
        return self.result.change.overall

    def size(self, margin: float) -> str:
        """How a loss compares with the margin, where the verdict does not say it."""
        return size_words(self.verdict, -self.change.high, margin)


def verdicts_of(log: RunLog, results: Sequence[Result]) -> pl.DataFrame:
    """One row for each treatment of whole documents but the first.

    `more_clusters` is about how many more would decide or confirm it; 0 if these are enough.
    """
    margin = float(log.spec["margin"])
    baseline = results[0]
    rows = []
    for judged in judge_treatments(log, results, margin):
        result = judged.result
        sentence = judged.form + _sentence(log, baseline, result, judged.size(margin))
        sentence += _cuts(log, baseline.arm, result.arm)
        more, advice = _more_clusters(result, judged.verdict, margin)
        clusters = result.effects.counts.clusters
        rows.append((judged.treatment, judged.verdict, sentence + advice, clusters, more))
    return pl.DataFrame(rows, _SCHEMA, orient="row")


def judge_treatments(log: RunLog, results: Sequence[Result], margin: float) -> Iterator[Judged]:
    """The verdicts on the treatments of whole documents, which are shown and which fail a run."""
    first = first_results(results)
    for arm, result in first.items():
        # Documents-only forms belong to the verdict on the treatment itself, if that was measured.
        is_form = arm.name != arm.treatment and arm.name in log.treatments
        if is_form or arm.index != "whole" or result.change is None:
            continue
        documents_only = first.get(SearchArm(arm.treatment + DOCUMENTS_ONLY, arm.index))
        chosen = _better_form(result, documents_only, margin)
        yield Judged(arm.treatment, chosen, _judge_result(chosen, margin))


def judge(change: QueryChange, p_value: float, p_psi: float, margin: float) -> LossKind:
    """A loss is shown by its interval; a gain also by p values corrected for several arms."""
    overall = change.overall
    verdict = judge_loss(-overall.high, -overall.low, margin, "not worse")
    gains = overall.low > 0 and p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    weakest_gains = change.worst.low > max(0.0, -overall.estimate)
    fairer = change.psi.estimate < 0 and weakest_gains and p_psi < 0.05
    within = verdict in ("not worse", "slightly worse")
    return "better" if within and (gains or fairer) else verdict


def _judge_result(result: Result, margin: float) -> LossKind:
    assert result.change is not None
    return judge(result.change, result.p_value, result.p_psi, margin)


def _better_form(both: Result, documents_only: Result | None, margin: float) -> Result:
    """The form with the better verdict; if both are "better", the one that finds more."""
    if documents_only is None:
        return both
    rank = _ORDER.index(_judge_result(both, margin))
    other_rank = _ORDER.index(_judge_result(documents_only, margin))
    both_better = rank == other_rank == len(_ORDER) - 1
    finds_more = documents_only.effects.overall.estimate > both.effects.overall.estimate
    return documents_only if other_rank > rank or (both_better and finds_more) else both


def _more_clusters(result: Result, verdict: str, margin: float) -> tuple[int | None, str]:
    """About how many more clusters would decide or confirm a verdict, and this in words."""
    assert result.change is not None
    clusters = result.effects.counts.clusters
    change = result.change.overall
    settled = change.high <= margin if verdict == "not worse" else verdict != "inconclusive"
    few = f"; only {clusters} clusters of queries" if clusters < FEW_CLUSTERS else ""
    more = 0 if settled and not few else clusters_to_decide(change, clusters, margin)
    if not more:
        return more, few
    what = f"{few}: about {more:,} more" if few else f"; about {more:,} more clusters of queries"
    return more, f"{what} would {'confirm it' if settled else 'decide'}"


def _sentence(log: RunLog, before: Result, after: Result, size: str) -> str:
    """The change of the metric with its size, and of its weakest group where there are groups."""
    assert after.change is not None
    effects = (before.effects, after.effects)
    means = " → ".join(number(arm.overall.estimate) for arm in effects)
    words = f"{after.metric} {means} ({with_bounds(after.change.overall, '+.3f')}{size})"
    if all(np.isfinite(arm.psi.estimate) for arm in effects):
        weakest = " → ".join(number(min(mean.estimate for mean in arm.groups)) for arm in effects)
        psi = " → ".join(number(arm.psi.estimate, ".2f") for arm in effects)
        words += f", {_weakest(log, before, after)} {weakest}, PSI {psi}"
    return words


def _weakest(log: RunLog, *results: Result) -> str:
    """What the group is called in which least is found."""
    if not languages_of(log):
        return "weakest position"
    names = dict.fromkeys(
        result.groups[int(np.argmin([mean.estimate for mean in result.effects.groups]))]
        for result in results
    )
    return f"weakest languages ({'; then '.join(names)})"


def _cuts(log: RunLog, *arms: SearchArm) -> str:
    """How many documents each of the two treatments did not read whole, if any."""
    unit = log.header.token_unit
    windows = [info for info in log.header.windows or () if info.texts == "documents"]
    infos = [info for arm in arms for info in windows if info.treatment == arm.treatment]
    if not any(info.cut for info in infos):
        return ""
    cuts = [cut_words(info, unit) or "no document was cut" for info in infos]
    if len(set(cuts)) == 1:
        return f"; {cuts[0]} under both"
    return "".join(f"; {info.treatment}: {cut}" for info, cut in zip(infos, cuts, strict=True))
