"""`Decision`: which treatment to use, from the evaluations of a tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from fairspan.calibration.treatment import PLAIN
from fairspan.retrieval.indexes import WHOLE
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.stats.choice import CrossCheck, cross_check, prefer
from fairspan.stats.gains import is_worse
from fairspan.studies.evaluate.measures import SearchArm, metrics_of, sorted_rows
from fairspan.studies.evaluate.options import SearchAnalysis
from fairspan.studies.evaluate.verdicts import Verdict, verdicts_of
from fairspan.studies.evaluate.view import LOG as EVALUATION
from fairspan.studies.tune.entries import TuneEntries


@dataclass(frozen=True, slots=True)
class Decision:
    """What to use, and what led to it.

    Attributes:
        verdicts: on every candidate, as `evaluate` gives them.
        lost: candidates that lose on a guard, with the guard and its verdict there.
        guarded: the verdicts on the choice on all guards.
        name: what to use; None if no candidate is shown to help.
        unguarded: what is still to be measured on the guards before that is known.
    """

    verdicts: Mapping[str, Verdict]
    lost: Mapping[str, tuple[str, Verdict]]
    guarded: Mapping[str, Verdict]
    name: str | None = None
    unguarded: str | None = None
    check: CrossCheck | None = None

    @property
    def best(self) -> Verdict:
        """The verdict on the choice, or else on the candidate that gains most and loses nowhere."""
        if self.name is not None:
            return self.verdicts[self.name]
        harmless = [item for item in self.verdicts.values() if not is_worse(item.verdict)]
        kept = [item for item in harmless if item.treatment not in self.lost]
        listed = kept or harmless or [*self.verdicts.values()]
        return max(listed, key=lambda verdict: verdict.overall.change.estimate)


def evaluation_of(log: RunLog, number: int = 0) -> RunLog:
    """One of a tuning's evaluations as a log of its own: that of the task, or of a guard."""
    evaluated = log.header.part(TuneEntries).evaluated[number]
    header = replace(
        log.header, task=evaluated.task, windows=evaluated.windows, study=evaluated.entries
    )
    rows = log.rows.filter(pl.col("task") == number)
    analysis = SearchAnalysis(margin=log.spec["margin"])
    return replace(log, header=header, rows=rows, kind=EVALUATION, analysis=analysis)


def decide(log: RunLog) -> Decision:
    """The decision from the rows so far.

    Of the candidates that `evaluate` shows to be better, and that lose on no guard, it takes the
    one that changes least within the margin of the best.
    """
    main = evaluation_of(log)
    margin = float(log.spec["margin"])
    verdicts = {verdict.treatment: verdict for verdict in verdicts_of(main, margin)}
    distances = _distances(main.header)
    guards = [evaluation_of(log, n) for n in range(1, len(log.header.part(TuneEntries).evaluated))]
    decision = Decision(verdicts, {}, {})
    better = [name for name, verdict in verdicts.items() if verdict.verdict == "better"]
    while left := [name for name in better if name not in decision.lost]:
        quality = {name: verdicts[name].overall.after for name in left}
        name = prefer(quality, distances, margin)
        if any(name not in guard.measured for guard in guards):
            return replace(decision, unguarded=name)
        guarded = {
            guard.header.searched.names[0]: verdict
            for guard in guards
            for verdict in verdicts_of(guard, margin)
            if verdict.treatment == name
        }
        losses = [(guard, item) for guard, item in guarded.items() if is_worse(item.verdict)]
        if not losses:
            check = _cross_check(main, left, distances, margin)
            return replace(decision, name=name, guarded=guarded, check=check)
        decision = replace(decision, lost={**decision.lost, name: losses[0]})
    return decision


def _distances(header: Header) -> dict[str, float]:
    """How far each candidate moves documents."""
    return {cost.treatment: cost.distance or 0.0 for cost in header.study.costs}


def _cross_check(
    log: RunLog, names: list[str], distances: Mapping[str, float], margin: float
) -> CrossCheck:
    metric = metrics_of(log)[0]
    tables = {name: sorted_rows(log, metric, SearchArm(name, WHOLE)) for name in (PLAIN, *names)}
    values = {name: table["value"].to_numpy() for name, table in tables.items()}
    clusters = tables[PLAIN]["cluster"].to_numpy()
    return cross_check(values, clusters, PLAIN, names, distances, margin, log.spec["seed"])
