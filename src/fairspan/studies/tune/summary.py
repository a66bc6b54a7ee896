"""What a tuning says should be used, by the rules of METHODS §11: the decision from rows alone, and tidy frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.calibration.words import in_words
from fairspan.report.frames import columns_of, frame_of, interval
from fairspan.report.text import number, with_bounds
from fairspan.retrieval.task import FIFTHS
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import round_up
from fairspan.stats.choice import (
    LEAST_CLUSTERS,
    Finding,
    Listed,
    Sample,
    Tested,
    alphas,
    confirm,
    gain,
    make_sample,
    psi_change,
    quality,
    shortlist,
    unfairness,
)
from fairspan.studies.tune.options import REFERENCE

TUNE, GUARD, REPORT = "tune", "guard", "report"
UNFINISHED = "This tuning has not finished: run the same command again, which goes on from here."
Answer = Literal["use", "keep", "inconclusive"]
ADVICE: dict[Finding, Answer] = {"use": "use", "no gain": "keep", "loss": "keep", "undecided": "inconclusive"}
Record = dict[str, Any]
Header = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to use, and what led to it.

    Attributes:
        listed: candidates to test on the guard part, in order, as the part that is tuned on prefers them.
        tested: those that were tested, up to the first that passed.
        few: by task, how many clusters its guard part lacks for anything to be decided.
    """

    listed: tuple[Listed, ...]
    tested: tuple[Tested, ...]
    few: Mapping[str, int]

    @property
    def answer(self) -> Answer:
        if self.few:
            return "inconclusive"
        found = [ADVICE[one.finding] for one in self.tested]
        return "use" if "use" in found else "inconclusive" if "inconclusive" in found else "keep"

    @property
    def chosen(self) -> str:
        """The candidate to use; the plain model unless the answer is "use"."""
        return self.tested[-1].name if self.answer == "use" else PLAIN

    @property
    def deciding(self) -> Tested | None:
        """The test that the answer rests on: the one that passed, else the first that is open, else the first."""
        wanted = [one for one in self.tested if ADVICE[one.finding] == self.answer]
        return next(iter([*wanted, *self.tested]), None)

    @property
    def looked_at(self) -> str | None:
        """The candidate that figures are reported for."""
        return self.chosen if self.answer == "use" else self.tested[0].name if self.tested else None

    @property
    def untested(self) -> str | None:
        """The candidate to test next. On few clusters nothing is decided, and one test says how many are missing."""
        if self.answer == "use" or len(self.tested) == len(self.listed) or (self.tested and self.few):
            return None
        return self.listed[len(self.tested)].name

    @property
    def lacking(self) -> dict[str, int]:
        """By task, how many more clusters of its guard part would decide; empty where more of them would not."""
        found = self.deciding.lacking if self.deciding else None
        return {**self.few, **(found or {})}


def decide(rows: pl.DataFrame, header: Header) -> Decision:
    """The decision from the rows and the header of a log, as far as they go."""
    tuned, guard = samples_of(rows, header, TUNE), samples_of(rows, header, GUARD)
    names = [name for name in _measured(tuned.values(), header) if name != REFERENCE]
    kept = [Sample({name: sample.sums[name] for name in names}) for sample in tuned.values()]
    listed = shortlist(kept, PLAIN, {PLAIN: 0.0, **header["changes"]})
    own = {task: sample for task, sample in guard.items() if task in tuned}
    guards = {task: sample for task, sample in guard.items() if task not in tuned}
    margin, tested = float(header["spec"]["margin"]), list[Tested]()
    for one, alpha in zip(listed, alphas(len(listed)), strict=True):
        if one.name not in _measured(guard.values(), header):
            break
        tested.append(confirm(one, PLAIN, own, guards, margin=margin, alpha=alpha))
    clusters = {str(task["name"]): task["parts"][GUARD]["clusters"] for task in header["tasks"]}
    few = {task: LEAST_CLUSTERS - count for task, count in clusters.items() if count < LEAST_CLUSTERS}
    return Decision(tuple(listed), tuple(tested), few)


def _measured(samples: Iterable[Sample], header: Header) -> list[str]:
    """What was measured on all of some samples: the plain model, candidates in their order, the reference."""
    names = [*(str(one["name"]) for one in header["spec"]["treatments"]), REFERENCE]
    found = list(samples)
    return [name for name in names if found and all(name in sample.sums for sample in found)]


def samples_of(rows: pl.DataFrame, header: Header, part: str) -> dict[str, Sample]:
    """By task, what every arm that was measured in a part got on the same queries."""
    own, found = rows.filter(split=part), {}
    for task in (str(one["name"]) for one in header["tasks"]):
        table = own.filter(task=task).with_columns(
            arm=pl.when(pl.col("part") == "whole").then("treatment").otherwise("part")
        )
        if not len(table):
            continue
        keys = ["lead", "later", "order", "query"]
        arms = {str(name): arm.sort(keys, nulls_last=True) for (name,), arm in table.group_by("arm")}
        values = {name: arm["value"].to_numpy() for name, arm in arms.items()}
        plain = arms[PLAIN]
        found[task] = make_sample(values, _groups(plain, header["spec"]["fairness"]), plain["set"].to_numpy())
    return found


def _groups(rows: pl.DataFrame, fairness: str | None) -> np.ndarray:
    """The group of every query, from 1; 0 where it is not known."""
    match fairness or "position":
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


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name, without empty ones; of a tuning that has not finished, that it has not."""
    header, records = log.header, dict[str, list[Record]]()
    verdict = {"treatment": PLAIN, "verdict": "inconclusive", "sentence": UNFINISHED, "more_clusters": 0}
    if log.status == "complete":
        decision = decide(log.rows, header)
        records["report"] = _report(log.rows, header, decision)
        records["candidates"] = _candidates(log.rows, header, decision)
        records["tests"] = _tests(decision)
        sentence, more = _sentence(decision, header, records["report"]), more_documents(decision, header)
        verdict = {"treatment": decision.chosen, "verdict": decision.answer, "sentence": sentence}
        verdict["more_clusters"] = sum(more.values())
    records["verdicts"] = [verdict]
    model = pl.lit(log.model).alias("model")
    return {name: frame_of(own).select(model, pl.all()) for name, own in records.items() if own}


def _figures(samples: Sequence[Sample], name: str) -> Record:
    """What an arm gets on some samples, and how that differs from the plain model on the same queries."""
    is_plain = name == PLAIN
    return {
        "quality": quality(samples, name),
        **columns_of(None if is_plain else gain(samples, PLAIN, name), "change_"),
        "psi": unfairness(samples, name),
        **columns_of(None if is_plain else psi_change(samples, PLAIN, name), "psi_change_"),
        "clusters": sum(sample.clusters for sample in samples),
    }


def _candidates(rows: pl.DataFrame, header: Header, decision: Decision) -> list[Record]:
    """Every arm on the part that is tuned on, the best candidate first."""
    samples = list(samples_of(rows, header, TUNE).values())
    found = [
        {
            "treatment": name,
            **_figures(samples, name),
            "moved": header["changes"].get(name),
            "outcome": _outcome(name, decision, header),
        }
        for name in _measured(samples, header)
    ]
    order = {PLAIN: -1, REFERENCE: 1}
    return sorted(found, key=lambda one: (order.get(one["treatment"], 0), -one["quality"]))


def _tests(decision: Decision) -> list[Record]:
    return [
        {
            "treatment": one.name,
            "task": task,
            "claim": one.claim,
            "level": one.level,
            "gain": one.gain.estimate,
            "gain_lower": one.gain.lower(one.level),
            "change": change.estimate,
            "change_lower": change.lower(one.level),
            "clusters": one.clusters[task],
            "changed": one.changed[task],
            "verdict": ADVICE[one.finding],
        }
        for one in decision.tested
        for task, change in one.changes.items()
    ]


def _report(rows: pl.DataFrame, header: Header, decision: Decision) -> list[Record]:
    """The plain model, the candidate that was looked at and the reference on the part that nothing was decided on."""
    arms = [PLAIN, *([decision.looked_at] if decision.looked_at else []), REFERENCE]
    return [
        {"task": task, "treatment": name, **_figures([sample], name)}
        for task, sample in samples_of(rows, header, REPORT).items()
        for name in arms
        if name in sample.sums
    ]


def names_in_words(header: Header) -> dict[str, str]:
    """Every treatment as a sentence names it."""
    found = {str(one["name"]): in_words(Treatment.from_dict(one).calibration) for one in header["spec"]["treatments"]}
    return {**found, REFERENCE: f"the mean of chunks of {header['spec']['chunk_tokens']} tokens"}


def _sentence(decision: Decision, header: Header, report: Sequence[Record]) -> str:
    """The answer: what to do, with the figures of the report part, or why."""
    said = names_in_words(header)
    if decision.answer == "use":
        return f"Use {said[decision.chosen]}: {_use(decision.chosen, header, report)}."
    tests = decision.tested if decision.answer == "keep" else tuple(filter(None, [decision.deciding]))
    why = "; ".join(f"{said[one.name]} {_finding(one, header)}" for one in tests)
    why = why or "on the part that is tuned on, no candidate is better or fairer by more than one standard error"
    if decision.answer == "keep":
        return f"Keep the plain model: {why}."
    if decision.few:
        parts = {task["name"]: task["parts"][GUARD]["clusters"] for task in header["tasks"]}
        counts = ", ".join(f"{parts[task]} of {task}" for task in decision.few)
        why += f"; {LEAST_CLUSTERS} clusters of queries are needed to decide, and the guard part has {counts}"
    more = more_documents(decision, header)
    wanted = ", ".join(f"{count:,} more documents with their queries in {task}" for task, count in more.items())
    ending = f"about {wanted} would decide" if more else "more of the same data would not decide it"
    return f"Keep the plain model for now: {why}; {ending}."


def _use(chosen: str, header: Header, report: Sequence[Record]) -> str:
    """What the chosen candidate gets on the report part, beside the plain model."""
    guards = [str(task["name"]) for task in header["tasks"] if task["role"] == "guard"]
    plain, own = ({one["task"]: one for one in report if one["treatment"] == name} for name in (PLAIN, chosen))
    words, metric = [], str(header["spec"]["metric"])
    for task in (task for task in own if task not in guards):
        before, after = plain[task], own[task]
        where = f"on {task} " if len(own) - len(guards) > 1 else ""
        change = with_bounds(interval(after, "change_"), "+.3f")
        said = f"{where}{metric} {number(before['quality'])} → {number(after['quality'])} ({change})"
        if np.isfinite(before["psi"]):
            said += f", PSI {number(before['psi'], '.2f')} → {number(after['psi'], '.2f')}"
        words.append(said)
    if guards:
        words.append(f"not worse than −{header['spec']['margin']:g} on {', '.join(guards)}")
    return "; ".join([*words, f"embedding takes {header['times'][chosen]:.2f} × the time"])


def more_documents(decision: Decision, header: Header) -> dict[str, int]:
    """By task, how many more clusters in all parts together would decide; empty where that is not known."""
    found = {}
    for task in header["tasks"]:
        more = decision.lacking.get(task["name"], 0)
        if more:
            counts = [part["clusters"] for part in task["parts"].values()]
            found[str(task["name"])] = round_up(more * sum(counts) // task["parts"][GUARD]["clusters"])
    return found


def _finding(one: Tested, header: Header) -> str:
    """What a test on the guard part showed."""
    level, metric, margin = one.level, str(header["spec"]["metric"]), float(header["spec"]["margin"])
    what, sign = (metric, 1) if one.claim == "quality" else ("PSI", -1)
    moved = f"{what} {number(sign * one.gain.estimate, '+.3f')}"
    unsure = [task for task, change in one.changes.items() if not change.lower(level) > -margin]
    if one.finding == "loss":
        task, change = min(one.changes.items(), key=lambda item: item[1].upper(level))
        return f"loses {metric} on {task} ({number(change.estimate, '+.3f')}, at most {change.upper(level):+.3f})"
    if one.finding == "no gain":
        return f"gains nothing that matters on the guard part ({moved})"
    if not one.gain.lower(level) > 0:
        return f"is not shown to gain on the guard part ({moved}), and a gain is not ruled out"
    doubt = f", and a loss beyond −{margin:g} on {', '.join(unsure)} is not ruled out" if unsure else ""
    return f"gains on the guard part ({moved}){doubt}"


def _outcome(name: str, decision: Decision, header: Header) -> str:
    """What became of an arm, and why."""
    tested = {one.name: one for one in decision.tested}
    if name in (PLAIN, REFERENCE):
        return "baseline" if name == PLAIN else "reference"
    if name in tested:
        return _finding(tested[name], header)
    if not decision.listed:
        return f"not better than {PLAIN} by more than a standard error"
    if any(one.name == name for one in decision.listed):
        return "would have been tested next"
    rule = decision.listed[0].preference
    if name not in rule.near:
        return f"worse than {rule.best} by more than a standard error"
    if name not in rule.fair:
        return "as good, and less fair by more than a standard error"
    return f"as good and as fair, and moves the vectors more than {rule.chosen}"
