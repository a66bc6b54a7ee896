"""`Decision`: what a tuning's rows say should be used, by the rules of METHODS §11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.retrieval.measured import FIFTHS
from fairspan.runs.log import RunLog
from fairspan.stats.choice import (
    LEAST_CLUSTERS,
    Listed,
    Sample,
    Tested,
    alphas,
    confirm,
    front,
    gain,
    make_sample,
    psi_change,
    quality,
    shortlist,
    unfairness,
)
from fairspan.stats.difference import Difference

TUNE, GUARD, REPORT = "tune", "guard", "report"
PLAIN, REFERENCE = "none", "chunk-mean"

Answer = Literal["use", "do nothing", "inconclusive", "unfinished"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate on the data that is tuned on, in the last round that it was part of.

    Attributes:
        gain, psi_change: from the plain model, on the same queries.
        rounds_left: how many more rounds there were; 0 for the candidates that one was chosen from.
    """

    name: str
    quality: float
    unfairness: float
    gain: Difference
    psi_change: Difference
    clusters: int
    rounds_left: int


@dataclass(frozen=True, slots=True)
class Reported:
    """A candidate beside the plain model on the part of one task that nothing was decided on."""

    task: str
    name: str
    before: float
    after: float
    gain: Difference
    psi_before: float
    psi_after: float
    psi_change: Difference
    clusters: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What to use, and everything that led to it.

    Attributes:
        chosen: the candidate to use; the plain model unless the answer is "use".
        listed: candidates to test on the guard part, in order, as the part that is tuned on prefers them.
        tested: those that were tested, up to the first that passed.
        front: the Pareto front of quality and fairness on the part that is tuned on.
        chosen_from: how many candidates were measured on all of that part.
        lacking: by task, how many more clusters of its guard part would decide; None where that is not known.
        looked_at: the candidate that figures are reported for: the chosen one, or the one that was tested first.
    """

    answer: Answer
    chosen: str
    measured: Mapping[str, Measured]
    listed: tuple[Listed, ...]
    tested: tuple[Tested, ...]
    front: tuple[str, ...]
    chosen_from: int
    lacking: Mapping[str, int] | None
    looked_at: str | None
    reported: tuple[Reported, ...]


def decide(log: RunLog) -> Decision:
    """Read a log; also one that has not finished, as far as it goes."""
    if log.verb != "tune":
        raise LogError(f"the run {log.run} is a run of {log.verb}, not a tuning.")
    return decide_on(log.rows, log.header)


def decide_on(rows: pl.DataFrame, header: Mapping[str, Any]) -> Decision:
    """The decision from rows and the header of a log."""
    done = header["parts_done"]
    measured = measured_on_tune(rows, header)
    listed = tuple(shortlisted(rows, header)) if TUNE in done else ()
    tested = list[Tested]()
    for one, alpha in zip(listed, alphas(len(listed)), strict=True):
        result = tested_on_guard(rows, header, one, alpha)
        if result is None:
            break
        tested.append(result)
        if result.finding == "use":
            break
    kept = {name: one for name, one in measured.items() if name != REFERENCE and name not in header["left_out"]}
    finalists = {name: one for name, one in kept.items() if not one.rounds_left}
    answer, lacking = _answer(tested, header, chosen_from=len(finalists) - 1)
    chosen = tested[-1].name if answer == "use" else PLAIN
    looked_at = chosen if answer == "use" else tested[0].name if tested else None
    return Decision(
        answer,
        chosen,
        measured,
        listed,
        tuple(tested),
        tuple(front({name: (one.quality, one.unfairness) for name, one in finalists.items()})),
        len(finalists) - 1,
        lacking,
        looked_at,
        tuple(_reported(rows, header, [*([looked_at] if looked_at else []), REFERENCE])),
    )


def guards_of(header: Mapping[str, Any]) -> list[str]:
    return [str(task["name"]) for task in header["tasks"] if task["role"] == "guard"]


def shortlisted(rows: pl.DataFrame, header: Mapping[str, Any]) -> list[Listed]:
    """The candidates to test on the guard part, in order."""
    last = max(rows.filter(split=TUNE)["round"].unique().to_list())
    samples = list(samples_of(rows, header, TUNE, last).values())
    names = [name for name in samples[0].sums if name != REFERENCE and name not in header["left_out"]]
    kept = [Sample({name: sample.sums[name] for name in names}) for sample in samples]
    return shortlist(kept, PLAIN, {PLAIN: 0.0, **header["changes"]})


def tested_on_guard(rows: pl.DataFrame, header: Mapping[str, Any], listed: Listed, alpha: float) -> Tested | None:
    """One candidate on the guard parts of all tasks; None if it has not been measured on all of them."""
    samples = samples_of(rows, header, GUARD)
    if len(samples) < len(header["tasks"]) or any(listed.name not in one.sums for one in samples.values()):
        return None
    guards = guards_of(header)
    own = {task: sample for task, sample in samples.items() if task not in guards}
    others = {task: samples[task] for task in guards}
    return confirm(listed, PLAIN, own, others, epsilon=float(header["spec"]["epsilon"]), alpha=alpha)


def _answer(
    tested: Sequence[Tested], header: Mapping[str, Any], *, chosen_from: int
) -> tuple[Answer, Mapping[str, int] | None]:
    if GUARD not in header["parts_done"]:
        return "unfinished", {}
    if not chosen_from:
        return "inconclusive", None
    clusters = {task["name"]: task["parts"][GUARD]["clusters"] for task in header["tasks"]}
    few = {task: LEAST_CLUSTERS - count for task, count in clusters.items() if count < LEAST_CLUSTERS}
    if few:
        lacking = tested[0].lacking if tested else few
        return "inconclusive", few if lacking is None else {**few, **lacking}
    if tested and tested[-1].finding == "use":
        return "use", {}
    open_ones = [one for one in tested if one.finding == "undecided"]
    return ("inconclusive", open_ones[0].lacking) if open_ones else ("do nothing", {})


def measured_on_tune(rows: pl.DataFrame, header: Mapping[str, Any]) -> dict[str, Measured]:
    """Every arm in the last round that it was part of, the plain model first."""
    rounds = sorted(rows.filter(split=TUNE)["round"].unique().to_list(), reverse=True)
    total = len(header["tasks"][0]["rounds"])
    found: dict[str, Measured] = {}
    for number in rounds:
        by_task = samples_of(rows, header, TUNE, number)
        samples = list(by_task.values())
        if not samples or PLAIN not in samples[0].sums:
            continue
        everywhere = [name for name in samples[0].sums if all(name in sample.sums for sample in samples)]
        for name in everywhere:
            if name not in found:
                found[name] = Measured(
                    name,
                    quality(samples, name),
                    unfairness(samples, name),
                    gain(samples, PLAIN, name),
                    psi_change(samples, PLAIN, name),
                    sum(sample.clusters for sample in samples),
                    total - 1 - number,
                )
    order = [PLAIN, *(one["name"] for one in header["spec"]["treatments"]), REFERENCE]
    return {name: found[name] for name in dict.fromkeys(order) if name in found}


def _reported(rows: pl.DataFrame, header: Mapping[str, Any], names: Sequence[str]) -> list[Reported]:
    found = []
    for task, sample in samples_of(rows, header, REPORT).items():
        for name in names:
            if name in sample.sums and PLAIN in sample.sums:
                own = [sample]
                found.append(
                    Reported(
                        task,
                        name,
                        quality(own, PLAIN),
                        quality(own, name),
                        gain(own, PLAIN, name),
                        unfairness(own, PLAIN),
                        unfairness(own, name),
                        psi_change(own, PLAIN, name),
                        sample.clusters,
                    )
                )
    return found


def samples_of(rows: pl.DataFrame, header: Mapping[str, Any], part: str, number: int = 0) -> dict[str, Sample]:
    """By task, what every arm that was measured in a part, or in a round of it, got on the same queries."""
    own = rows.filter(split=part, round=number)
    fairness = header["spec"]["fairness"] or "position"
    found = {}
    for task in (str(one["name"]) for one in header["tasks"]):
        table = own.filter(task=task).with_columns(
            arm=pl.when(pl.col("part") == "whole").then("treatment").otherwise("part")
        )
        if not len(table):
            continue
        keys = ["lead", "later", "order", "query"]
        arms = {
            str(name): arm.sort(keys, nulls_last=True) for (name,), arm in table.group_by("arm", maintain_order=True)
        }
        first = next(iter(arms.values()))
        values = {name: arm["value"].to_numpy() for name, arm in arms.items() if len(arm) == len(first)}
        found[task] = make_sample(values, _groups(first, fairness), first["set"].to_numpy())
    return found


def _groups(rows: pl.DataFrame, fairness: str) -> np.ndarray:
    """The group of every query, from 1; 0 where it is not known."""
    match fairness:
        case "position":
            labels = rows["position"]
        case "language":
            on_page = pl.when(pl.col("position") == 1).then("lead").otherwise("later")
            labels = rows.select(pl.coalesce(on_page, "language"))["lead"]
        case _:
            # Documents of one length are in one group.
            ranks = rows["tokens"].rank("average").to_numpy()
            labels = pl.Series(np.ceil(ranks / len(rows) * FIFTHS).astype(np.int64))
    codes = labels.rank("dense").fill_null(0).cast(pl.Int64)
    return codes.to_numpy()
