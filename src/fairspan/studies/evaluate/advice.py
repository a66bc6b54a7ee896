"""What to do with a treatment, from what it changes in a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairspan.studies.evaluate.results import DOCUMENTS_ONLY, Advice, Arm, Change, RetrievalSummary


def is_advised(arm: Arm, treatments: Sequence[str]) -> bool:
    """Whether an arm is what advice is about: a treatment of whole documents, its documents-only twin left aside."""
    twin = arm.treatment.removesuffix(DOCUMENTS_ONLY)
    return arm.index == "whole" and (twin == arm.treatment or twin not in treatments)


def advise(summary: RetrievalSummary, treatment: str, margin: float) -> Advice:
    """Use it if it helps and costs no quality; on documents only if that does while both sides do not."""
    metric = summary.metrics[0]
    both = Arm(treatment, "whole")
    only = Arm(treatment + DOCUMENTS_ONLY, "whole")
    kind = _judge(summary.change(both, metric), margin)
    chosen, advice = both, kind
    if only in summary.arms:
        second = _judge(summary.change(only, metric), margin)
        better = _overall(summary, only, metric) > _overall(summary, both, metric)
        if (second == "use" and (kind != "use" or better)) or (second == "more data" and kind == "leave"):
            chosen, advice = only, "documents only" if second == "use" else second
    return Advice(treatment, advice, _sentence(summary, chosen, metric, advice))


def _judge(change: Change | None, margin: float) -> str:
    """A loss is told by its interval alone; a gain also has to stand the correction for several treatments."""
    assert change is not None
    overall, psi, worst = change.change.overall, change.change.psi, change.change.worst
    gains = overall.estimate > 0 and change.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and change.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "leave"
    if gains or fairer:
        return "use" if overall.low >= -margin else "more data"
    return "leave" if overall.high <= margin else "more data"


def _overall(summary: RetrievalSummary, arm: Arm, metric: str) -> float:
    return summary.result(arm, metric).effects.overall.estimate


_ADVICE = {
    "use": "use it",
    "documents only": "use it on documents only",
    "leave": "leave it",
    "more data": "more queries are needed to decide",
}


def _sentence(summary: RetrievalSummary, arm: Arm, metric: str, advice: str) -> str:
    before, after = summary.result(summary.baseline, metric).effects, summary.result(arm, metric).effects
    change = summary.change(arm, metric)
    assert change is not None
    interval = change.change.overall
    words = (
        f"{_ADVICE[advice]}: {metric} {before.overall.estimate:.3f} → {after.overall.estimate:.3f} "
        f"({interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}])"
    )
    if np.isfinite(before.psi.estimate) and np.isfinite(after.psi.estimate):
        weakest = [min(one.estimate for one in effects.groups) for effects in (before, after)]
        words += (
            f", weakest position {weakest[0]:.3f} → {weakest[1]:.3f}, PSI {before.psi.estimate:.2f} → "
            f"{after.psi.estimate:.2f}"
        )
    return words.replace("-", "−")
