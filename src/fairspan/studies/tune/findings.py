"""`Findings`: what a tuning's log says, in words and as tidy frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.text import model_name
from fairspan.runs.log import RunLog
from fairspan.stats.difference import Difference
from fairspan.studies.tune.decision import Decision, decide
from fairspan.studies.tune.words import Fate, answer_sentence, fates, more_documents, names_in_words


@dataclass(frozen=True, eq=False)
class Findings:
    """A decision with everything that tables and charts are made of.

    Attributes:
        fates: what became of every candidate.
        said: every treatment in words.
        sentence: the answer.
    """

    log: RunLog
    decision: Decision
    fates: Mapping[str, Fate]
    said: Mapping[str, str]
    sentence: str

    @property
    def header(self) -> Mapping[str, Any]:
        return self.log.header

    @property
    def metric(self) -> str:
        return str(self.log.spec["metric"])

    @property
    def model(self) -> str:
        return model_name(self.log.model)

    @property
    def has_groups(self) -> bool:
        """Whether there is something to be fair to."""
        return any(np.isfinite(one.unfairness) for one in self.decision.measured.values())

    @cached_property
    def frames(self) -> dict[str, pl.DataFrame]:
        """By name, without empty ones except for the verdicts."""
        header = self.header
        records = {
            "verdicts": [_verdict(self)],
            "candidates": _candidates(self),
            "tests": _tests(self.decision),
            "report": _report(self),
            "parts": [
                {"task": task["name"], "role": task["role"], "part": part, **own}
                for task in header["tasks"]
                for part, own in task["parts"].items()
            ],
            "costs": list(header["costs"]),
            "windows": list(header.get("windows", ())),
        }
        model = pl.lit(self.log.model).alias("model")
        found = {name: pl.DataFrame(own, infer_schema_length=None) for name, own in records.items() if own}
        return {name: frame.select(model, pl.all()) for name, frame in found.items()}


def findings_of(log: RunLog) -> Findings:
    """Read a log."""
    decision, header = decide(log), log.header
    sentence = answer_sentence(decision, header)
    return Findings(log, decision, fates(decision, header), names_in_words(header), sentence)


def _verdict(found: Findings) -> dict[str, Any]:
    decision, header = found.decision, found.header
    clusters = sum(task["parts"]["guard"]["clusters"] for task in header["tasks"] if task["role"] == "task")
    return {
        "treatment": decision.chosen,
        "verdict": decision.answer,
        "sentence": found.sentence,
        "clusters": clusters,
        "more_clusters": sum(more_documents(decision, header).values()),
    }


def _candidates(found: Findings) -> list[dict[str, Any]]:
    decision, header = found.decision, found.header
    return [
        {
            "treatment": name,
            "words": found.said[name],
            "metric": found.metric,
            "quality": one.quality,
            **_ends("change_", one.gain),
            "psi": one.unfairness,
            **_ends("psi_change_", one.psi_change),
            "moved": header["changes"].get(name),
            "time": header["times"].get(name),
            "clusters": one.clusters,
            "front": name in decision.front,
            "outcome": found.fates[name].kind if name in found.fates else "",
            "because": found.fates[name].why if name in found.fates else "",
        }
        for name, one in decision.measured.items()
    ]


def _tests(decision: Decision) -> list[dict[str, Any]]:
    return [
        {
            "treatment": one.name,
            "claim": one.claim,
            "level": one.level,
            "gain_estimate": one.gain.estimate,
            "gain_lower": one.gain.lower(one.level),
            "task": task,
            "change_estimate": change.estimate,
            "change_lower": change.lower(one.level),
            "clusters": one.clusters[task],
            "outcome": one.finding,
        }
        for one in decision.tested
        for task, change in one.changes.items()
    ]


def _report(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "task": one.task,
            "treatment": one.name,
            "metric": found.metric,
            "before": one.before,
            "after": one.after,
            **_ends("change_", one.gain),
            "psi_before": one.psi_before,
            "psi_after": one.psi_after,
            **_ends("psi_change_", one.psi_change),
            "clusters": one.clusters,
        }
        for one in found.decision.reported
    ]


def _ends(prefix: str, change: Difference) -> dict[str, float]:
    found = change.interval()
    return {f"{prefix}{name}": float(getattr(found, name)) for name in ("estimate", "low", "high")}
