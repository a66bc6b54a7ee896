"""`Advice`: what to do with a treatment, from what it changes in a search."""

from dataclasses import dataclass

import numpy as np

from fairspan.report.table import Tone
from fairspan.report.text import number, with_bounds
from fairspan.studies.evaluate.summary import DOCUMENTS_ONLY, Arm, Result, RetrievalSummary

BADGES: dict[str, tuple[str, Tone]] = {
    "use": ("use it", "good"),
    "documents only": ("use it on documents only", "good"),
    "leave": ("do not use it", "bad"),
    "more data": ("needs more queries", "open"),
}
"""The words and the colour of each kind of advice."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with a treatment: "use", "documents only", "leave" or "more data", and the numbers that say why."""

    treatment: str
    kind: str
    sentence: str


def advice_of(summary: RetrievalSummary) -> tuple[Advice, ...]:
    """Advice on every treatment of whole documents; none where nothing could be tested."""
    if all(np.isnan(result.p_value) for result in summary.results):
        return ()
    margin = float(summary.log.spec["margin"])
    return tuple(_advise(summary, arm.treatment, margin) for arm in summary.arms[1:] if _is_advised(summary, arm))


def twin_of(summary: RetrievalSummary, arm: Arm) -> Arm | None:
    """The same treatment on documents only, if it was measured as well."""
    twin = Arm(arm.treatment + DOCUMENTS_ONLY, arm.index)
    return twin if twin in summary.arms else None


def _is_advised(summary: RetrievalSummary, arm: Arm) -> bool:
    """Documents-only forms belong to the advice on the treatment itself, where that was measured."""
    whole = arm.treatment.removesuffix(DOCUMENTS_ONLY)
    return arm.index == "whole" and (whole == arm.treatment or whole not in summary.log.treatments)


def _advise(summary: RetrievalSummary, treatment: str, margin: float) -> Advice:
    """Use it if it helps and costs no quality; on documents only if that does while both sides do not."""
    both = Arm(treatment, "whole")
    only = twin_of(summary, both)
    chosen = summary.result(both)
    advice = kind = _judge(chosen, margin)
    if only is not None:
        found = summary.result(only)
        second = _judge(found, margin)
        better = found.effects.overall.estimate > chosen.effects.overall.estimate
        if (second == "use" and (kind != "use" or better)) or (second == "more data" and kind == "leave"):
            chosen, advice = found, "documents only" if second == "use" else second
    return Advice(treatment, advice, _sentence(summary.result(summary.baseline), chosen))


def _judge(result: Result, margin: float) -> str:
    """A loss is shown by its interval alone; a gain also has to pass the correction for several treatments."""
    assert result.change is not None
    overall, psi, worst = result.change.overall, result.change.psi, result.change.worst
    gains = overall.estimate > 0 and result.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and result.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "leave"
    if gains or fairer:
        return "use" if overall.low >= -margin else "more data"
    return "leave" if overall.high <= margin else "more data"


def _sentence(before: Result, after: Result) -> str:
    assert after.change is not None
    sides = before.effects, after.effects
    means = " → ".join(number(side.overall.estimate) for side in sides)
    words = f"{after.metric} {means} ({with_bounds(after.change.overall, '+.3f')})"
    if all(np.isfinite(side.psi.estimate) for side in sides):
        weakest = " → ".join(number(min(one.estimate for one in side.groups)) for side in sides)
        psi = " → ".join(number(side.psi.estimate, ".2f") for side in sides)
        words += f", weakest position {weakest}, PSI {psi}"
    return words
