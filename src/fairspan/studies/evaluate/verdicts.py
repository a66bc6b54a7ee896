"""Verdicts on treatments: better, worse, not worse or inconclusive, and the numbers behind."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.queries import FEW_CLUSTERS, clusters_to_decide
from fairspan.studies.evaluate.measures import Arm, Result, languages_of
from fairspan.studies.evaluate.options import DOCUMENTS_ONLY, at_temperatures

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("treatment", "verdict", "sentence"), pl.String),
    **dict.fromkeys(("clusters", "more_clusters"), pl.Int64),
}
# From the least wanted to the best.
_ORDER = ("worse", "inconclusive", "not worse", "better")


def verdicts_of(log: RunLog, results: Sequence[Result]) -> pl.DataFrame:
    """One row for each treatment of whole documents but the first, without those that a grid of temperatures adds.

    `clusters` are those of queries that it rests on; `more_clusters` about how many more would decide, or make sure
    where there are few; 0 if these are enough.
    """
    found, margin, temperatures = [], float(log.spec["margin"]), log.spec.get("temperature_grid") or ()
    first = {one.arm: one for one in results if (one.metric, one.plan) == (results[0].metric, "")}
    grid = {at_temperatures(results[0].arm.treatment, *pair) for pair in product(temperatures, repeat=2)}
    for arm, one in first.items():
        # Documents-only forms belong to the verdict on the treatment itself, where that was measured.
        own = arm.name == arm.treatment or arm.name not in log.treatments
        if not own or arm.index != "whole" or arm.treatment in grid or one.change is None:
            continue
        chosen = _better_form(one, first.get(Arm(arm.treatment + DOCUMENTS_ONLY, arm.index)), margin)
        only = "documents only: " if chosen is not one else ""
        sentence = f"{only}{_sentence(log, results[0], chosen)}{_cuts(log, results[0].arm, chosen.arm)}"
        found.append(_row(arm.treatment, _judge(chosen, margin), sentence, chosen, margin))
    return pl.DataFrame(found, _SCHEMA, orient="row")


def _judge(result: Result, margin: float) -> str:
    """A loss is shown by its interval alone; a gain also has to pass the correction for several treatments."""
    assert result.change is not None
    overall, psi, worst = result.change.overall, result.change.psi, result.change.worst
    gains = overall.low > 0 and result.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and result.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "worse"
    if overall.low < -margin:
        return "inconclusive"
    return "better" if gains or fairer else "not worse"


def _better_form(both: Result, only: Result | None, margin: float) -> Result:
    """The treatment, or the same on documents only where that has the better verdict, or finds more and is better."""
    if only is None:
        return both
    ranks = [_ORDER.index(_judge(one, margin)) for one in (both, only)]
    finds_more = only.effects.overall.estimate > both.effects.overall.estimate
    return only if ranks[1] > ranks[0] or (ranks[0] == ranks[1] == 3 and finds_more) else both


def _row(name: str, verdict: str, sentence: str, result: Result, margin: float) -> tuple[Any, ...]:
    """A verdict that says how many clusters it rests on where more are needed."""
    assert result.change is not None
    clusters, change = result.effects.counts.clusters, result.change.overall
    settled = verdict in ("better", "worse") or (verdict == "not worse" and change.high <= margin)
    more = 0 if settled and clusters >= FEW_CLUSTERS else clusters_to_decide(change, clusters, margin)
    few = f"; only {clusters} clusters of queries" if clusters < FEW_CLUSTERS else ""
    if more:
        sentence += f"{few}: about {more:,} more" if few else f"; about {more:,} more clusters of queries"
        sentence += " would make sure" if settled else " would decide"
    else:
        sentence += few
    return name, verdict, sentence, clusters, more


def _sentence(log: RunLog, before: Result, after: Result) -> str:
    assert after.change is not None
    sides = before.effects, after.effects
    means = " → ".join(number(side.overall.estimate) for side in sides)
    words = f"{after.metric} {means} ({with_bounds(after.change.overall, '+.3f')})"
    if all(np.isfinite(side.psi.estimate) for side in sides):
        weakest = " → ".join(number(min(one.estimate for one in side.groups)) for side in sides)
        psi = " → ".join(number(side.psi.estimate, ".2f") for side in sides)
        words += f", {_weakest(log, before, after)} {weakest}, PSI {psi}"
    return words


def _weakest(log: RunLog, *sides: Result) -> str:
    """What the group is called in which least is found."""
    if not languages_of(log):
        return "weakest position"
    least = [int(np.argmin([one.estimate for one in side.effects.groups])) for side in sides]
    names = dict.fromkeys(side.groups[place] for side, place in zip(sides, least, strict=True))
    return f"weakest languages ({'; then '.join(names)})"


def _cuts(log: RunLog, *arms: Arm) -> str:
    """How many documents each of the two treatments did not read whole, if any."""
    unit = str(log.header.get("token_unit", "tokens"))
    documents = {one["treatment"]: one for one in log.header.get("windows", ()) if one["texts"] == "documents"}
    own = [documents[arm.treatment] for arm in arms if arm.treatment in documents]
    if not any(one["cut"] for one in own):
        return ""
    said = [cut_words(one, unit) or "no document was cut" for one in own]
    if len(set(said)) == 1:
        return f"; {said[0]} under both"
    return "".join(f"; {one['treatment']}: {words}" for one, words in zip(own, said, strict=True))
