"""`tune`: which treatment to use for one's documents, if any."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.encoding.calling import call_of
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.study import Run, Study
from fairspan.runs.subject import Subject, Treated
from fairspan.studies.evaluate.prepare import PreparedEvaluation, prepare_evaluation
from fairspan.studies.evaluate.run import search_all
from fairspan.studies.tune.decision import decide
from fairspan.studies.tune.entries import Evaluated, TuneEntries
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.view import view_of, write_results


@dataclass(frozen=True)
class PreparedTuning:
    """A tuning that is ready to run: the evaluation of the task, and those of the guards."""

    subject: Subject
    options: TuneOptions
    evaluations: tuple[PreparedEvaluation, ...]

    @property
    def text_hashes(self) -> list[Any]:
        return [text_hash for item in self.evaluations for text_hash in item.text_hashes]

    @property
    def notes(self) -> list[str]:
        main, *guards = self.evaluations
        of_guards = [f"{item.info.names[0]}: {note}" for item in guards for note in item.notes]
        return [*main.notes, *of_guards]

    @property
    def scope(self) -> str:
        guards = len(self.evaluations) - 1
        more = f", and {guards} guard{'s' if guards > 1 else ''}" if guards else ""
        return f"{self.evaluations[0].scope}{more}"

    def describe(self, header: Header) -> Header:
        evaluated = [Evaluated(item.info, item.windows, item.entries) for item in self.evaluations]
        header = self.evaluations[0].describe(header)
        return replace(header, study=TuneEntries(evaluated))

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """Every candidate on the task, then the plain model and one candidate on each guard."""
        main, *guards = self.evaluations
        work = main.work(under)
        for guard in guards:
            name = guard.info.names[0]
            work += [replace(item, name=f"{name}: {item.name}") for item in guard.work(under)[:2]]
        return work


def _prepare(subject: Subject, options: TuneOptions, progress: Progress) -> PreparedTuning:
    """Read and measure, without embedding anything."""
    subject.transformer("tune")
    _ = options.checked
    evaluations = [prepare_evaluation(subject, item, progress) for item in options.evaluations]
    return PreparedTuning(evaluations[0].subject, options, tuple(evaluations))


def _measure(prepared: PreparedTuning, run: Run) -> None:
    """Every candidate on the task; then the choice on the guards, until one does not lose there."""
    _search(prepared, run, 0)
    while name := decide(_log_of(run)).unguarded:
        measured = set(run.writer.rows.filter(pl.col("task") > 0)["treatment"])
        names = [item for item in (PLAIN, name) if item not in measured]
        for number in range(1, len(prepared.evaluations)):
            _search(prepared, run, number, names)


def _search(
    prepared: PreparedTuning, run: Run, number: int, names: Sequence[str] | None = None
) -> None:
    """Evaluate the task or a guard, under all treatments or those that are named."""
    costs = run.header.part(TuneEntries).evaluated[number].entries.costs
    for rows, cost in search_all(prepared.evaluations[number], run, names):
        costs += [cost] if cost else []
        run.add(rows.with_columns(task=pl.lit(number, pl.Int32)))


def _log_of(run: Run) -> RunLog:
    return RunLog(run.writer.folder, run.header, run.writer.rows, view_of)


STUDY = Study(_prepare, _measure, view_of, write_results)


@call_of(TuneOptions)
def tune(options: TuneOptions) -> RunLog:
    """Evaluate candidates on your documents, and choose one that is shown to help, or none.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which
        `fairspan.calibrate` takes: that of the choice, or of the plain model.
    """
    return STUDY(options)
