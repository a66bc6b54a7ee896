"""The answer of METHODS §11 from rows alone, in words and as tidy frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.calibration.words import in_words
from fairspan.report.frames import columns_of, frame_of
from fairspan.report.text import number, with_bounds
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.stats.choice import (
    CHOSEN,
    Choice,
    Finding,
    Sample,
    choose,
    gain,
    judge,
    lacking,
    make_sample,
    quality,
    unfairness,
)
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import column
from fairspan.stats.resampling import jackknife
from fairspan.studies.tune.entries import TuneEntries

UNFINISHED = "This tuning has not finished: run the same command again, which goes on from here."
Answer = Literal["use", "probably", "keep"]
EVEN, READ = 0.1, 0.95
"""A PSI below it is called even in words; and a text of which so much is read is read whole."""
FEW_CHANGED = 20
"""Documents of a guard: if fewer change, those with a rare loss may not be among them."""
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to use, and what led to it.

    Attributes:
        samples: by task, what every arm got.
        guards: by guard, what the arms got that were measured there.
        choice: of the candidates that lose on no guard; None if all do.
        finding: what the figures say of it.
        lost: the candidates that lose on a guard, with the guard and the change there.
        unguarded: the arms that the guards are still to be measured under.
    """

    samples: Mapping[str, Sample]
    guards: Mapping[str, Sample]
    choice: Choice | None
    finding: Finding
    lost: Mapping[str, tuple[str, Interval]]
    unguarded: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.choice.name if self.choice else PLAIN

    @property
    def answer(self) -> Answer:
        return (
            "use" if self.finding == "use" else "probably" if self.finding == "probably" else "keep"
        )

    @property
    def changes(self) -> dict[str, Interval]:
        """By guard, and by task if there are several: what the choice changes there."""
        return _changes(self.samples, self.guards, self.choice) if self.choice else {}

    def doubtful(self, margin: float) -> dict[str, Interval]:
        """Those of the changes that may be a loss beyond the margin."""
        return {task: one for task, one in self.changes.items() if not one.low > -margin}


def decide(rows: pl.DataFrame, header: Header) -> Decision:
    """The decision from the rows and the header of a log, as far as they go."""
    roles = {task.name: task.is_guard for task in header.part(TuneEntries).tasks}
    found = {name: sample for name in roles if (sample := _sample(rows, name)) is not None}
    samples = {name: one for name, one in found.items() if not roles[name]}
    guards = {name: one for name, one in found.items() if roles[name]}
    treatments = [Treatment.from_dict(one) for one in header.spec["treatments"]]
    names = [one.name for one in treatments if one.name != PLAIN and not one.chunks]
    lost: dict[str, tuple[str, Interval]] = {}
    margin, seed = float(header.spec["margin"]), header.seed
    while left := [name for name in names if name not in lost]:
        choice = choose(list(samples.values()), PLAIN, left, seed)
        there = set.intersection(*(set(one.sums) for one in guards.values())) if guards else set()
        missing = tuple(name for name in (PLAIN, choice.name) if name not in there)
        if any(roles.values()) and missing:
            return Decision(samples, guards, choice, "open", lost, missing)
        changes = _changes(samples, guards, choice)
        finding = judge(choice, list(changes.values()), margin)
        if finding != "loss":
            return Decision(samples, guards, choice, finding, lost)
        where = min(changes, key=lambda task: changes[task].high)
        lost[choice.name] = where, changes[where]
    return Decision(samples, guards, None, "loss", lost)


def _changes(
    samples: Mapping[str, Sample], guards: Mapping[str, Sample], choice: Choice
) -> dict[str, Interval]:
    watched = {**(samples if len(samples) > 1 else {}), **guards}
    return {task: gain([sample], PLAIN, choice.name) for task, sample in watched.items()}


def _sample(rows: pl.DataFrame, task: str) -> Sample | None:
    """What every arm that was measured got on the same queries."""
    table = rows.filter(task=task)
    if not len(table):
        return None
    keys = ["lead", "later", "order", "query"]
    arms = {
        str(name): arm.sort(keys, nulls_last=True) for (name,), arm in table.group_by("treatment")
    }
    plain = arms[PLAIN]
    # By the position of the evidence, from 1; 0 where it is not known.
    groups = plain["position"].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    return make_sample(
        {name: arm["value"].to_numpy() for name, arm in arms.items()},
        groups,
        plain["set"].to_numpy(),
    )


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name, without empty ones; of a tuning that has not finished, that it has not."""
    header, records = log.header, dict[str, list[Record]]()
    verdict: Record = {
        "treatment": PLAIN,
        "verdict": "inconclusive",
        "sentence": UNFINISHED,
        "probability": None,
        "more": 0,
    }
    if log.status == "complete":
        decision = decide(log.rows, header)
        records["candidates"] = _candidates(decision, header)
        records["positions"] = _positions(decision)
        records["guards"] = [
            {"task": task, "treatment": decision.name, **columns_of(change, "change_")}
            for task, change in decision.changes.items()
        ]
        held = decision.answer == "use" or (
            decision.answer == "probably" and not header.spec["strict"]
        )
        verdict = {
            "treatment": decision.name if held else PLAIN,
            "verdict": decision.answer,
            "sentence": " ".join(_sentences(decision, header)),
            "probability": decision.choice.probability if decision.choice else None,
            "more": _more(decision, header)[1],
        }
    records["verdicts"] = [verdict]
    model = pl.lit(log.model).alias("model")
    return {name: frame_of(own).select(model, pl.all()) for name, own in records.items() if own}


def _candidates(decision: Decision, header: Header) -> list[Record]:
    """Every arm on all documents, the best first."""
    samples, found = list(decision.samples.values()), []
    for name in samples[0].sums:
        own = {"treatment": name, "means": in_full(name, header), "quality": quality(samples, name)}
        own |= columns_of(None if name == PLAIN else gain(samples, PLAIN, name), "change_")
        own["psi"] = unfairness(samples, name)
        found.append({**own, "outcome": _outcome(name, decision, header)})
    return sorted(found, key=lambda one: (-one["quality"], one["treatment"]))


def _outcome(name: str, decision: Decision, header: Header) -> str:
    if name in decision.lost:
        return f"loses on {decision.lost[name][0]}"
    if name == decision.name and decision.choice:
        return {"use": "use", "probably": "probably better", "keep": "preferred, and not better"}[
            decision.answer
        ]
    return "reference" if _treatment(name, header).chunks else "" if name != PLAIN else "as it is"


def _positions(decision: Decision) -> list[Record]:
    """What the plain model and the choice find by the group of the query."""
    found = []
    for task, sample in zip(
        decision.samples, decision.choice.crossed if decision.choice else (), strict=False
    ):
        for arm, name in ((PLAIN, PLAIN), (CHOSEN, decision.name)):
            for group in range(1, sample.sums[arm].sums.shape[1] if sample.has_groups else 0):
                own = jackknife(sample.sums[arm], column(group), [group])
                # No metric is below 0 or above 1, which a t interval does not know.
                ends = {
                    "low": float(np.clip(own.low, 0, 1)),
                    "high": float(np.clip(own.high, 0, 1)),
                }
                found.append(
                    {"task": task, "treatment": name, "group": group, **columns_of(own), **ends}
                )
    return found


def _treatment(name: str, header: Header) -> Treatment:
    given = [Treatment.from_dict(one) for one in header.spec["treatments"] if one["name"] == name]
    return given[0] if given else as_treatment(name)


def in_full(name: str, header: Header) -> str:
    """A treatment by its name, and what that means."""
    treatment = _treatment(name, header)
    if treatment.chunks:
        size = treatment.chunk_size()
        return f"{name} (averaged chunks {'as large as the window' if size == 'window' else f'of {size} tokens'})"
    return f"{name} ({in_words(treatment.calibration)})" if treatment.acts else f"the {name} model"


def _sentences(decision: Decision, header: Header) -> list[str]:
    """The answer: what to do, why, what it costs, and what calibration.json holds."""
    choice, metric, margin = (
        decision.choice,
        str(header.spec["metric"]),
        float(header.spec["margin"]),
    )
    gone = [
        f"{name} loses {metric} on {task}: {with_bounds(change, '+.3f')}."
        for name, (task, change) in decision.lost.items()
    ]
    if choice is None:
        return ["Keep the plain model: every candidate loses on a guard.", *gone]
    before, after = (quality(choice.crossed, name) for name in (PLAIN, CHOSEN))
    found = f"{metric} {number(before)} → {number(after)} ({with_bounds(choice.gain, '+.3f')}"
    what, more = _more(decision, header)
    settle = (
        f"About {more:,} more {what} would settle it."
        if more
        else "More of the same would hardly settle it."
    )
    details = [
        _evenness(choice),
        _cost(header),
        _crossing(choice),
        *gone,
        _few(decision),
        _chunks(decision, header),
    ]
    doubtful = decision.doubtful(margin)
    match decision.finding:
        case "use":
            said = [f"Use {in_full(choice.name, header)}: {found}).", *details]
        case "probably" if doubtful and choice.gain.low > 0:
            where = ", ".join(
                f"{task} ({with_bounds(one, '+.3f')})" for task, one in doubtful.items()
            )
            doubt = f"A loss beyond −{margin:g} is not ruled out on {where}. {settle}"
            said = [
                f"Probably use {in_full(choice.name, header)}: {found}).",
                doubt,
                *details,
                _holds(header),
            ]
        case "probably":
            sure = number(choice.probability, ".0%")
            said = [f"{in_full(choice.name, header)} is probably better: {found}, {sure}).", settle]
            said += [*details, _holds(header)]
        case _:
            best, change = _best(choice)
            figures = f"{in_full(best, header)} changes {metric} ({number(before)}) by {with_bounds(change, '+.3f')}"
            said = [
                f"Keep the plain model: no candidate is shown to find more. The best, {figures}.",
                settle,
            ]
            if decision.finding == "no gain":
                ruled_out = f"A gain above {margin:g} is ruled out: {figures}, and no other more."
                said = [f"Keep the plain model: no difference that matters. {ruled_out}"]
            said += [*gone, _chunks(decision, header)]
    return [one for one in said if one]


def _best(choice: Choice) -> tuple[str, Interval]:
    """The candidate that gains most of those that change anything, and its gain on all documents."""
    acting = {
        name: one for name, one in choice.gains.items() if one.standard_error > 0
    } or choice.gains
    name = max(acting, key=lambda own: acting[own].estimate)
    return name, acting[name]


def _evenness(choice: Choice) -> str:
    """How evenly things are found, where that is known."""
    before, after = (unfairness(choice.crossed, name) for name in (PLAIN, CHOSEN))
    if not np.isfinite(before) or not np.isfinite(after):
        return ""
    figures = f"PSI {number(before, '.2f')} → {number(after, '.2f')}"
    if after <= EVEN < before:
        return f"What is asked for is found as well at the end of a document as at its beginning ({figures})."
    return f"It is found {'more evenly' if after < before else 'less evenly'} ({figures})."


def _cost(header: Header) -> str:
    cost = header.part(TuneEntries).costs
    if not cost:
        return ""
    read = cost["read"]
    because = (
        f", since the plain model reads only {number(read, '.0%')} of the text"
        if read < READ
        else ""
    )
    again = f"{cost['changed']:,} of {cost['documents']:,} documents need a new vector"
    return f"Embedding takes {cost['time']:.2f} × the time{because}; {again}; the index keeps its size."


def _crossing(choice: Choice) -> str:
    """That the halves prefer different candidates, so that the figures are not those of one."""
    one, two = choice.preferred
    return f"One half of the documents prefers {one}, the other {two}." if one != two else ""


def _few(decision: Decision) -> str:
    """That so little changes on a guard that a rare loss may be missing."""
    found = {task: one.changed(PLAIN, decision.name) for task, one in decision.guards.items()}
    return " ".join(
        f"On {task}, only {changed} of {decision.guards[task].clusters} documents change: a rare loss may be missing."
        for task, changed in found.items()
        if 0 < changed < FEW_CHANGED
    )


def _holds(header: Header) -> str:
    held = (
        "the plain model, as strict asks"
        if header.spec["strict"]
        else "it; with strict it would not"
    )
    return f"{CALIBRATION_FILE} holds {held}."


def _chunks(decision: Decision, header: Header) -> str:
    """That averaged chunks are better than the choice, if they are."""
    samples, held = (
        list(decision.samples.values()),
        decision.name if decision.answer != "keep" else PLAIN,
    )
    found = {
        name: gain(samples, held, name)
        for name in samples[0].sums
        if _treatment(name, header).chunks
    }
    better = {name: with_bounds(one, "+.3f") for name, one in found.items() if one.low > 0}
    return " ".join(f"{name} finds more than {held}: {change}." for name, change in better.items())


def _more(decision: Decision, header: Header) -> tuple[str, int]:
    """How many more of what would settle it; 0 where that is not known."""
    choice, margin = decision.choice, float(header.spec["margin"])
    if choice is None or decision.finding in ("use", "no gain"):
        return "", 0
    clusters = {task.name: task.clusters for task in header.part(TuneEntries).tasks}
    wanting = decision.doubtful(margin)
    if choice.gain.low > 0 and wanting:
        more = {
            task: lacking(one, clusters[task], one.estimate + margin) or 0
            for task, one in wanting.items()
        }
        task = max(more, key=lambda own: more[own])
        return f"queries in {task}", more[task]
    found = _best(choice)[1]
    if decision.finding == "probably":
        found = max(choice.gain, choice.gains[choice.name], key=lambda one: one.standard_error)
    gap = max(found.estimate, margin - found.estimate)
    return "documents", lacking(found, sum(clusters[task] for task in decision.samples), gap) or 0
