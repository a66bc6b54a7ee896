"""`Study`: options and three functions; finds a finished run, or measures and logs it."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

import polars as pl

from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store, default_store
from fairspan.errors import DesignError, FairspanError
from fairspan.runs.embedder import batch_budget
from fairspan.runs.entries import as_json
from fairspan.runs.folder import DEFAULT_RUNS, HEADER, locked
from fairspan.runs.forecast import Forecast, forecast, pairs_of, stages_of
from fairspan.runs.header import Header, Timings, read_header
from fairspan.runs.identity import run_name
from fairspan.runs.log import LogKind, RunLog, read_log
from fairspan.runs.options import StudyOptions
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.run import Run
from fairspan.runs.subject import Subject, open_subject
from fairspan.runs.texts import Texts
from fairspan.runs.writer import LogWriter

Options = TypeVar("Options", bound=StudyOptions)
AnyTexts = TypeVar("AnyTexts", bound=Texts)


@dataclass(frozen=True)
class Study(Generic[Options, AnyTexts]):
    """A study, called with its options.

    Attributes:
        texts: reads and cuts everything that is to be embedded.
        rows: embeds it; each table of rows is saved before the next one is asked for.
        log: what is made of the rows.
        finish: what is done with a complete log, whether it was just measured or found.
    """

    texts: Callable[[Subject, Options, Progress], AnyTexts]
    rows: Callable[[AnyTexts, Run], Iterator[pl.DataFrame]]
    log: LogKind
    finish: Callable[[RunLog], None] = lambda log: None

    def __call__(self, options: Options) -> RunLog:
        """The log of these options: an existing one, or a new one."""
        log = self._run(options)
        self.finish(log)
        return log

    def forecast(self, options: Options) -> Forecast:
        """What a run would embed."""
        return forecast(self.read(options, as_progress(options.progress)))

    def read(self, options: Options, progress: Progress) -> AnyTexts:
        """Everything read and cut, and nothing embedded yet."""
        if isinstance(options.model, str | None):  # which takes long to load
            _ = options.checked
        subject = open_subject(
            options.model, name=options.name, loading=options.loading, progress=progress
        )
        return self.texts(subject, options, progress)

    def _run(self, options: Options) -> RunLog:
        """The log of the finished run, or of a new one."""
        progress = as_progress(options.progress)
        texts = self.read(options, progress)
        subject = texts.subject
        if subject.is_open:
            progress.stage("hashing the weights")
        name = run_name(texts)
        folder = Path(options.out) if options.out is not None else DEFAULT_RUNS / name
        fresh = options.fresh or subject.fingerprint is None
        if finished := self._finished(folder, name, options, fresh=fresh):
            return finished
        with locked(folder):
            # The process that held the lock may just have finished it.
            finished = self._finished(folder, name, options, fresh=fresh)
            return finished or self._measured(texts, name, folder, progress)

    def _measured(self, texts: AnyTexts, name: str, folder: Path, progress: Progress) -> RunLog:
        """Measure, under a log that says how the run ended, whatever happens."""
        subject = texts.subject
        options = texts.options
        tally = Tally(resumes=not options.fresh)
        started = time.monotonic()
        budget = batch_budget(subject.model, options.batch_tokens)
        place = ":memory:" if subject.fingerprint is None else options.store or default_store()
        writer = LogWriter(folder, _header(texts, name))
        try:
            with Store(place, fresh=options.fresh) as store:
                run = Run(store, budget, tally, progress, subject, writer)
                progress.start(sum(stage.tokens for stage in stages_of(texts)))
                run.announce(chain.from_iterable(pairs_of(texts).values()))
                for rows in self.rows(texts, run):
                    writer.add(rows)
                run.note_answers()
        except BaseException as error:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            # On a full disk this fails as well; the first error is the one to report.
            with suppress(FairspanError):
                writer.finish(status, _timings(tally, started), str(error) or None)
            raise
        finally:
            progress.stop()
        if tally.halved:
            writer.note(
                f"memory ran out and {tally.halved} batches were halved: fewer tokens in a batch "
                "would be faster"
            )
        writer.finish("complete", _timings(tally, started))
        return RunLog(folder, writer.header, writer.rows, self.log, options.analysis)

    def _finished(self, folder: Path, name: str, options: Options, *, fresh: bool) -> RunLog | None:
        """The complete log of this run, if the folder has it and it is wanted."""
        if not (folder / HEADER).exists():
            return None
        header = read_header(folder)
        if header.run != name:
            raise DesignError(
                f"{folder} holds the run {header.run}, which asked for something else: choose "
                "another folder with out."
            )
        if fresh or not header.complete:
            return None
        # Rows that were lost or written over are measured again.
        with suppress(FairspanError):
            return replace(read_log(folder, self.log), analysis=options.analysis)
        return None


def _header(texts: Texts, name: str) -> Header:
    """The header of a run that begins."""
    options = texts.options
    header = Header(
        verb=options.verb,
        run=name,
        model=texts.subject.info,
        token_unit=texts.subject.counter.unit,
        spec=options.asked,
        analysis=as_json(options.analysis),
        sources=tuple(options.sources),
        notes=tuple(texts.notes),
    )
    return texts.describe(header)


def _timings(tally: Tally, started: float) -> Timings:
    return Timings(
        seconds=round(time.monotonic() - started, 3),
        texts_computed=tally.computed,
        tokens_computed=tally.computed_tokens,
        texts_from_store=tally.stored,
        batches_halved=tally.halved,
    )
