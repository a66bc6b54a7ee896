"""`Decision`: which treatment to use, by the rule of METHODS §11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.retrieval.indexes import index_of
from fairspan.runs.header import Header
from fairspan.stats.choice import Choice, Finding, Sample, choose, gain, judge, lacking, make_sample
from fairspan.stats.intervals import Interval
from fairspan.studies.tune.entries import TuneEntries

Answer = Literal["use", "probably", "keep"]
_ANSWERS: dict[Finding, Answer] = {"use": "use", "probably": "probably"}


@dataclass(frozen=True, slots=True)
class Decision:
    """What to use, and the numbers that led to it.

    Attributes:
        treatments: by name, all that were measured on the tasks.
        samples, guards: results by task and by guard.
        lost: the candidates that lose on a guard, with the guard and the change there.
        choice: among the other candidates; None if there are none.
        unguarded: the treatments that the guards are still to be measured under.
    """

    margin: float
    treatments: Mapping[str, Treatment]
    samples: Mapping[str, Sample]
    guards: Mapping[str, Sample]
    lost: Mapping[str, tuple[str, Interval]]
    choice: Choice | None = None
    finding: Finding = "loss"
    unguarded: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.choice.name if self.choice else PLAIN

    @property
    def answer(self) -> Answer:
        return _ANSWERS.get(self.finding, "keep")

    @property
    def advised(self) -> str:
        """The choice if it is better or probably better, otherwise the plain model."""
        return PLAIN if self.answer == "keep" else self.name

    @property
    def must_not_lose(self) -> dict[str, Sample]:
        """The guards, and the tasks if there are several."""
        return {**(self.samples if len(self.samples) > 1 else {}), **self.guards}

    @property
    def changes(self) -> dict[str, Interval]:
        """What the choice changes where it must not lose."""
        if self.choice is None:
            return {}
        samples = self.must_not_lose.items()
        return {task: gain([sample], PLAIN, self.choice.name) for task, sample in samples}

    @property
    def doubtful(self) -> dict[str, Interval]:
        """Those of the changes that may be a loss beyond the margin."""
        changes = self.changes.items()
        return {task: change for task, change in changes if not change.low > -self.margin}

    def more_needed(self) -> tuple[str, int]:
        """What would settle an open question, and how many more; 0 where that is not known."""
        choice = self.choice
        if choice is None or self.finding in ("use", "no gain"):
            return "", 0
        if choice.gain.low > 0 and self.doubtful:
            samples = self.must_not_lose
            more = {
                task: lacking(change, samples[task].clusters, change.estimate + self.margin) or 0
                for task, change in self.doubtful.items()
            }
            task = max(more, key=more.__getitem__)
            return f"queries in {task}", more[task]
        _, change = best_candidate(choice)
        if self.finding == "probably":
            gains = (choice.gain, choice.gains[choice.name])
            change = max(gains, key=lambda interval: interval.standard_error)
        gap = max(change.estimate, self.margin - change.estimate)
        clusters = sum(sample.clusters for sample in self.samples.values())
        return "documents", lacking(change, clusters, gap) or 0


def best_candidate(choice: Choice) -> tuple[str, Interval]:
    """The candidate that gains most of those that change anything, and its gain."""
    return max(
        choice.gains.items(), key=lambda item: (item[1].standard_error > 0, item[1].estimate)
    )


def decide(rows: pl.DataFrame, header: Header) -> Decision:
    """The decision from the rows and the header of a log, as far as they go."""
    searched = header.part(TuneEntries).tasks
    guard_names = [task.name for task in searched if task.is_guard]
    rows = rows.filter(part=index_of(1))
    measured = set(rows.select("task", "treatment").unique().rows())
    results = {
        task.name: sample_of(rows.filter(task=task.name), "treatment")
        for task in searched
        if (task.name, PLAIN) in measured
    }
    guards = {name: results.pop(name) for name in guard_names if name in results}
    samples = list(results.values())
    asked = {table["name"]: Treatment.from_dict(table) for table in header.spec["treatments"]}
    treatments = {name: asked.get(name) or as_treatment(name) for name in samples[0].sums}
    candidates = [name for name in asked if name != PLAIN and not asked[name].chunks]
    lost: dict[str, tuple[str, Interval]] = {}
    decision = Decision(float(header.spec["margin"]), treatments, results, guards, lost)
    # A candidate that loses on a guard makes room for the next.
    while left := [name for name in candidates if name not in lost]:
        choice = choose(samples, PLAIN, left, header.seed)
        chosen = replace(decision, choice=choice)
        pairs = [(guard, name) for name in (PLAIN, choice.name) for guard in guard_names]
        unguarded = dict.fromkeys(name for guard, name in pairs if (guard, name) not in measured)
        if unguarded:
            return replace(chosen, finding="open", unguarded=tuple(unguarded))
        changes = chosen.changes
        finding = judge(choice, list(changes.values()), decision.margin)
        if finding != "loss":
            return replace(chosen, finding=finding)
        guard = min(changes, key=lambda task: changes[task].high)
        lost[choice.name] = (guard, changes[guard])
    return decision


def sample_of(rows: pl.DataFrame, arm: str) -> Sample:
    """The results of every arm, which that column names, on the same queries of a task."""
    ordered = rows.sort(arm, "lead", "later", "order", "query", nulls_last=True)
    by_arm = {str(rows[arm][0]): rows for rows in ordered.partition_by(arm)}
    queries = next(iter(by_arm.values()))
    # By the position of the evidence, from 1; 0 where it is not known.
    groups = queries["position"].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    values = {name: rows["value"].to_numpy() for name, rows in by_arm.items()}
    return make_sample(values, groups, queries["set"].to_numpy())
