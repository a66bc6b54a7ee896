"""`tune`: which treatment to use for one's documents, if any."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment
from fairspan.encoding.calling import call_of
from fairspan.runs.embedder import Pair
from fairspan.runs.header import Header
from fairspan.runs.log import RunLog
from fairspan.runs.options import Analysis
from fairspan.runs.progress import Progress
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.runs.subject import Subject
from fairspan.runs.treated import Treated
from fairspan.studies.evaluate.entries import IndexCost
from fairspan.studies.evaluate.run import search_all
from fairspan.studies.evaluate.texts import SearchTexts, search_texts
from fairspan.studies.tune.decision import decide
from fairspan.studies.tune.entries import Evaluated, TuneEntries
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.view import LOG, write_results


@dataclass(frozen=True)
class TuneTexts:
    """What a tuning embeds: for the evaluation of the task, and for those of the guards."""

    subject: Subject
    options: TuneOptions
    evaluations: tuple[SearchTexts, ...]

    @property
    def text_hashes(self) -> list[Any]:
        return [text_hash for item in self.evaluations for text_hash in item.text_hashes]

    @property
    def notes(self) -> list[str]:
        main, *guards = self.evaluations
        of_guards = [f"{item.info.names[0]}: {note}" for item in guards for note in item.notes]
        return [*main.notes, *of_guards]

    def describe(self, header: Header) -> Header:
        evaluated = [Evaluated(item.info, item.windows, item.entries) for item in self.evaluations]
        header = self.evaluations[0].describe(header)
        return replace(header, study=TuneEntries(tuple(evaluated)))

    def stages(self, under: Callable[[Treatment], Treated]) -> dict[str, list[Pair]]:
        """Every candidate on the task, then the plain model and one candidate on each guard."""
        main, *guards = self.evaluations
        stages = main.stages(under)
        for guard in guards:
            of_guard = list(guard.stages(under).items())[:2]
            stages |= {f"{guard.info.names[0]}: {name}": pairs for name, pairs in of_guard}
        return stages


def _texts(subject: Subject, options: TuneOptions, progress: Progress) -> TuneTexts:
    """Read and measure, without embedding anything."""
    subject.transformer("tune")
    _ = options.checked
    evaluations = [search_texts(subject, item, progress) for item in options.evaluations]
    return TuneTexts(evaluations[0].subject, options, tuple(evaluations))


def _rows(texts: TuneTexts, run: Run) -> Iterator[pl.DataFrame]:
    """Every candidate on the task; then the choice on the guards, until one does not lose there."""
    yield from _search(texts, run, 0)
    while name := decide(_log_of(run)).unguarded:
        measured = set(run.writer.rows.filter(pl.col("task") > 0)["treatment"])
        names = [item for item in (PLAIN, name) if item not in measured]
        for number in range(1, len(texts.evaluations)):
            yield from _search(texts, run, number, names)


def _search(
    texts: TuneTexts, run: Run, number: int, names: Sequence[str] | None = None
) -> Iterator[pl.DataFrame]:
    """Evaluate the task or a guard, under all treatments or those that are named."""
    for rows, cost in search_all(texts.evaluations[number], run, names):
        if cost:
            _add_cost(run, number, cost)
        yield rows.with_columns(task=pl.lit(number, pl.Int32))


def _add_cost(run: Run, number: int, cost: IndexCost) -> None:
    """Add what an index takes to the header's entries of an evaluation."""
    evaluated = list(run.header.part(TuneEntries).evaluated)
    entries = evaluated[number].entries
    entries = replace(entries, costs=(*entries.costs, cost))
    evaluated[number] = replace(evaluated[number], entries=entries)
    run.writer.change(study=TuneEntries(tuple(evaluated)))


def _log_of(run: Run) -> RunLog:
    return RunLog(run.writer.folder, run.header, run.writer.rows, LOG, Analysis())


STUDY = Study(_texts, _rows, LOG, write_results)


@call_of(TuneOptions)
def tune(options: TuneOptions) -> RunLog:
    """Evaluate candidates on your documents, and choose one that is shown to help, or none.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which
        `fairspan.calibrate` takes: that of the choice, or of the plain model.
    """
    return STUDY(options)
