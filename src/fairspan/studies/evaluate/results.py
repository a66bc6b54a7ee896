"""`RetrievalSummary`: what an evaluation's log says of each treatment and index."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairspan.report.text import finite
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import QueryChange, QueryEffects

DOCUMENTS_ONLY = "+sides=document"


@dataclass(frozen=True, slots=True)
class Arm:
    """What was searched: documents and queries under a treatment, kept in an index of one kind."""

    treatment: str
    index: str

    def __str__(self) -> str:
        name = self.treatment.removesuffix(DOCUMENTS_ONLY)
        only = "" if name == self.treatment else ", documents only"
        return f"{name}{only}" + ("" if self.index == "whole" else f", {self.index}")


@dataclass(frozen=True, slots=True)
class Result:
    """One metric of one arm.

    Attributes:
        plan: the language plan of the pages; empty for all of them together, or where there are none.
        groups: what each position group is called.
    """

    arm: Arm
    metric: str
    plan: str
    groups: tuple[str, ...]
    effects: QueryEffects

    def to_dict(self) -> dict[str, Any]:
        effects = self.effects
        return {
            "treatment": self.arm.treatment,
            "index": self.arm.index,
            "metric": self.metric,
            "plan": self.plan,
            "queries": effects.counts.queries,
            "clusters": effects.counts.clusters,
            "overall": interval_dict(effects.overall),
            "groups": [
                {"group": name, "queries": count, **interval_dict(mean)}
                for name, count, mean in zip(self.groups, effects.counts.group_queries, effects.groups, strict=True)
            ],
            "psi": interval_dict(effects.psi),
            "harmonic": interval_dict(effects.harmonic),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of an arm against the baseline, on the same queries.

    Attributes:
        p_value, p_psi: of the randomisation tests, adjusted by Holm for all arms of that metric.
    """

    arm: Arm
    metric: str
    plan: str
    groups: tuple[str, ...]
    change: QueryChange
    p_value: float
    p_psi: float

    def to_dict(self) -> dict[str, Any]:
        change = self.change
        named = ("overall", "psi", "harmonic", "spread", "worst")
        return {
            "treatment": self.arm.treatment,
            "index": self.arm.index,
            "metric": self.metric,
            "plan": self.plan,
            **{name: interval_dict(getattr(change, name)) for name in named},
            "groups": [
                {"group": name, **interval_dict(one)} for name, one in zip(self.groups, change.groups, strict=True)
            ],
            "p_value": finite(self.p_value),
            "p_psi": finite(self.p_psi),
            "p_value_alone": finite(change.p_value),
            "p_psi_alone": finite(change.p_psi),
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with a treatment: "use", "documents only", "leave" or "more data"."""

    treatment: str
    kind: str
    sentence: str


@dataclass(frozen=True, slots=True)
class RetrievalSummary:
    """The statistics of one evaluation.

    Attributes:
        results: every metric of every arm, over all language plans together and, where there are several, for each.
        changes: the same against the first arm.
        runs: the first metric by how many tokens lie before the evidence; empty where it is not known.
    """

    log: RunLog
    baseline: Arm
    results: tuple[Result, ...]
    changes: tuple[Change, ...]
    runs: tuple[Result, ...]
    advice: tuple[Advice, ...]

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(result.metric for result in self.results))

    @property
    def arms(self) -> list[Arm]:
        return list(dict.fromkeys(result.arm for result in self.results))

    @property
    def plans(self) -> list[str]:
        return list(dict.fromkeys(result.plan for result in self.results))

    def result(self, arm: Arm, metric: str, plan: str = "") -> Result:
        return next(one for one in self.results if (one.arm, one.metric, one.plan) == (arm, metric, plan))

    def change(self, arm: Arm, metric: str, plan: str = "") -> Change | None:
        """None for the baseline itself."""
        return next((one for one in self.changes if (one.arm, one.metric, one.plan) == (arm, metric, plan)), None)

    def cost(self, arm: Arm) -> dict[str, Any]:
        """What an arm's index takes: tokens to read, seconds, vectors and bytes.

        Where all vectors were stored already, `estimated` is true and the seconds are told from the speed of another
        index, of the same treatment if possible; None if nothing was embedded in this run.
        """
        costs = self.log.header["costs"]
        found = next(one for one in costs if (one["treatment"], one["index"]) == (arm.treatment, arm.index))
        timed = [one for one in costs if one["seconds"]]
        alike = [one for one in timed if one["treatment"] == arm.treatment] or timed
        if found["seconds"] is not None or not alike:
            return {**found, "estimated": False}
        return {**found, "seconds": found["tokens"] * alike[0]["seconds"] / alike[0]["tokens"], "estimated": True}

    def shown(self, most: int) -> list[Arm]:
        """The arms that a picture has room for: whole documents first, each treatment as it is advised."""
        advised = {one.treatment: one.kind for one in self.advice}
        whole = [arm for arm in self.arms if arm.index == self.baseline.index]
        kept = [arm for arm in whole if self._is_advised(arm, advised)]
        others = [arm for arm in self.arms if arm.index != self.baseline.index]
        others.sort(key=lambda arm: -self.result(arm, self.metrics[0]).effects.overall.estimate)
        return [*kept, *others][:most]

    def _is_advised(self, arm: Arm, advised: Mapping[str, str]) -> bool:
        name = arm.treatment.removesuffix(DOCUMENTS_ONLY)
        if name not in advised or Arm(name + DOCUMENTS_ONLY, arm.index) not in self.arms:
            return True
        return (advised[name] == "documents only") == (arm.treatment != name)

    def without(self, arms: Collection[Arm]) -> RetrievalSummary:
        """The same statistics with some arms left out; what was corrected for them stays so."""
        named = {arm.treatment for arm in arms}
        return replace(
            self,
            results=tuple(one for one in self.results if one.arm.treatment not in named),
            changes=tuple(one for one in self.changes if one.arm.treatment not in named),
            runs=tuple(one for one in self.runs if one.arm.treatment not in named),
            advice=tuple(one for one in self.advice if one.treatment not in named),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.log.run,
            "folder": str(self.log.folder),
            "model": self.log.model,
            "status": self.log.status,
            "task": self.log.header["task"],
            "notes": self.log.notes,
            "baseline": {"treatment": self.baseline.treatment, "index": self.baseline.index},
            "advice": [
                {"treatment": one.treatment, "advice": one.kind, "sentence": one.sentence} for one in self.advice
            ],
            "results": [result.to_dict() for result in self.results],
            "changes": [change.to_dict() for change in self.changes],
            "by_tokens_before": [result.to_dict() for result in self.runs],
            "costs": list(self.log.header["costs"]),
        }


def interval_dict(interval: Interval) -> dict[str, float | None]:
    """The JSON form of an interval."""
    return {name: finite(getattr(interval, name)) for name in ("estimate", "low", "high")}
