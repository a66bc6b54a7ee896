"""`frames_of` a tuning: the answer, every candidate, positions and guards, from its rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN
from fairspan.report.frames import columns_of, frame_of
from fairspan.runs.log import RunLog
from fairspan.stats.choice import gain, quality, unfairness
from fairspan.stats.queries import column
from fairspan.stats.resampling import jackknife
from fairspan.studies.tune.answer import answer_of, in_full
from fairspan.studies.tune.decision import Decision, decide
from fairspan.studies.tune.vectors import vector_rows, vectors_sentence

UNFINISHED = "This tuning has not finished: run the same command again, which goes on from here."
_OUTCOMES = {"use": "use", "probably": "probably better", "keep": "preferred, and not better"}


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name, without empty ones; only the verdict if the tuning is unfinished."""
    verdict: dict[str, Any] = {
        "treatment": PLAIN,
        "verdict": "inconclusive",
        "sentence": UNFINISHED,
        "probability": None,
        "more": 0,
    }
    records: dict[str, list[dict[str, Any]]] = {}
    if log.status == "complete":
        decision = decide(log.rows, log.header)
        records["candidates"] = _candidates(decision)
        records["positions"] = list(_positions(decision))
        records["guards"] = [
            {"task": task, "treatment": decision.name, **columns_of(change, "change_")}
            for task, change in decision.changes.items()
        ]
        records["vectors"] = vector_rows(decision, log.rows, log.header)
        sentences = (answer_of(decision, log.header), vectors_sentence(records["vectors"]))
        advised = ("use",) if log.spec["strict"] else ("use", "probably")
        verdict = {
            "treatment": decision.name if decision.answer in advised else PLAIN,
            "verdict": decision.answer,
            "sentence": " ".join(filter(None, sentences)),
            "probability": decision.choice.probability if decision.choice else None,
            "more": decision.more_needed()[1],
        }
    records["verdicts"] = [verdict]
    model = pl.lit(log.model).alias("model")
    return {
        name: frame_of(listed).select(model, pl.all()) for name, listed in records.items() if listed
    }


def _candidates(decision: Decision) -> list[dict[str, Any]]:
    """Every treatment on all documents, the best first."""
    samples = list(decision.samples.values())
    records = [
        {
            "treatment": name,
            "means": in_full(treatment),
            "quality": quality(samples, name),
            **columns_of(None if name == PLAIN else gain(samples, PLAIN, name), "change_"),
            "psi": unfairness(samples, name),
            "outcome": _outcome(name, decision),
        }
        for name, treatment in decision.treatments.items()
    ]
    return sorted(records, key=lambda record: (-record["quality"], record["treatment"]))


def _outcome(name: str, decision: Decision) -> str:
    """What was decided on a treatment, in a few words."""
    if name in decision.lost:
        return f"loses on {decision.lost[name][0]}"
    if name == PLAIN:
        return "as it is"
    if name == decision.name:
        return _OUTCOMES[decision.answer]
    return "reference" if decision.treatments[name].chunks else ""


def _positions(decision: Decision) -> Iterator[dict[str, Any]]:
    """What the plain model and the choice find, by position, in documents that did not choose."""
    checked = decision.choice.checked if decision.choice else ()
    for task, sample in zip(decision.samples, checked, strict=False):
        if not sample.has_groups:
            continue
        for name in (PLAIN, decision.name):
            sums = sample.sums[name]
            for group in range(1, sums.sums.shape[1]):
                interval = jackknife(sums, column(group), [group])
                # A t interval may reach beyond 0 and 1, where no metric is.
                low, high = np.clip([interval.low, interval.high], 0, 1)
                columns = columns_of(replace(interval, low=low, high=high))
                yield {"task": task, "treatment": name, "group": group, **columns}
