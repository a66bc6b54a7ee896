"""`Study`: finds a finished run, or measures and logs it; `Run`: a study while it runs."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.chunks import innermost
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, reads_to_end
from fairspan.encoding.store import Store, default_store
from fairspan.errors import DesignError, FairspanError
from fairspan.report.view import View
from fairspan.runs.folder import HEADER, locked
from fairspan.runs.forecast import Forecast, forecast, plan_sending, total_tokens
from fairspan.runs.header import Header, Timings, read_header
from fairspan.runs.identity import Identity, key_of
from fairspan.runs.levelling import find_common
from fairspan.runs.log import DEFAULT_RUNS, LogWriter, RunLog, known_log, read_log
from fairspan.runs.options import StudyOptions
from fairspan.runs.prepared import Prepared
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.subject import Embedder, Pair, Subject, Treated, batch_budget, open_subject

Options = TypeVar("Options", bound=StudyOptions)
Ready = TypeVar("Ready", bound=Prepared)


@dataclass(frozen=True)
class Run(Embedder):
    """One study while it runs: where its texts are embedded, and its rows go."""

    prepared: Prepared
    writer: LogWriter

    @property
    def subject(self) -> Subject:
        return self.prepared.subject

    @property
    def header(self) -> Header:
        return self.writer.header

    @property
    def label(self) -> dict[str, str]:
        """The columns that all rows of the run share."""
        return {"run": self.header.run, "model": self.subject.name}

    def add(self, rows: pl.DataFrame) -> None:
        self.writer.add(rows)

    def note(self, text: str) -> None:
        """Add a note to the log, once."""
        if text not in self.header.notes:
            self.header.notes.append(text)

    def under(self, treatment: Treatment) -> Treated:
        common = find_common(self.subject, treatment, self.embed)
        return self.subject.under(treatment, common=common)

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Say what is going to be sent to an endpoint, if the model is one."""
        model = self.subject.model
        if isinstance(model, Endpoint):
            sending = plan_sending(model, pairs, self.store, budget=self.budget, tally=self.tally)
            self.writer.header = replace(self.header, sending=sending)
            self.progress.note(sending.words)

    def prove_whole(
        self, encoder: Encoder, texts: Sequence[Text], *, may_cut: bool = False
    ) -> None:
        """Raise if the longest of the texts that fit the model's window is not read to the end.

        For an endpoint that `may_cut` texts it is noted instead, and its answer is kept.
        """
        encoder, texts = innermost(encoder, texts)
        window = encoder.window
        fitting = (text for text in texts if window is None or text.length <= window)
        longest = max(fitting, key=lambda text: text.length, default=None)
        remote = isinstance(self.subject.model, Endpoint)
        if longest is None or (not remote and not self.store.missing([encoder.key(longest)])):
            return
        if reads_to_end(encoder, longest, self.tally, self.store if remote else None):
            return
        if not (remote and may_cut):
            raise FairspanError(
                f"the model does not read its longest document ({len(longest.text)} characters) to "
                "the end: the vector stays the same without the last words. Raise the limit of the "
                "model or its tokenizer, or use shorter documents."
            )
        self.note(
            f"the endpoint does not read the longest document ({len(longest.text):,} characters) "
            "to the end: vectors of such documents cover only their beginning"
        )

    def note_answers(self) -> None:
        """Write what became known of an endpoint while it was measured."""
        model = self.subject.model
        if not isinstance(model, Endpoint):
            return
        self.writer.header = replace(self.header, model=self.subject.info)
        names = model.received.models
        if len(names) > 1:
            self.note(f"the answers of the endpoint name several models: {', '.join(names)}")


@dataclass(frozen=True)
class Study(Generic[Options, Ready]):
    """A study, called with its options.

    Attributes:
        prepare: reads and builds everything that is to be embedded.
        measure: embeds it and adds rows to the log.
        finish: what is done with a complete log, whether it was just measured or found.
    """

    prepare: Callable[[Any, Options, Progress], Ready]
    measure: Callable[[Ready, Run], None]
    view: Callable[[RunLog], View]
    finish: Callable[[RunLog], None] = lambda log: None

    def __call__(self, options: Options) -> RunLog:
        """The log of these options: an existing one, or a new one."""
        log = known_log(options, self.view) or self._run(options)
        self.finish(log)
        return log

    def forecast(self, options: Options) -> Forecast:
        progress = as_progress(options.progress)
        prepared = self.ready(options, progress)
        progress.stage("timing a few texts")
        return forecast(prepared)

    def ready(self, options: Options, progress: Progress) -> Ready:
        """Everything read and built, and nothing embedded yet."""
        if isinstance(options.model, str | None):  # which takes long to load
            _ = options.checked
        subject = open_subject(
            options.model, name=options.name, loading=options.loading, progress=progress
        )
        return self.prepare(subject, options, progress)

    def _run(self, options: Options) -> RunLog:
        """The log of the finished run, or of a new one."""
        progress = as_progress(options.progress)
        prepared = self.ready(options, progress)
        subject = prepared.subject
        if subject.is_open:
            progress.stage("hashing the weights")
        name = Identity.of(prepared).run_name
        folder = Path(options.out) if options.out is not None else DEFAULT_RUNS / name
        fresh = options.fresh or subject.fingerprint is None
        if finished := self._finished(folder, name, fresh=fresh):
            return finished
        with locked(folder):
            # The process that held the lock may just have finished it.
            finished = self._finished(folder, name, fresh=fresh)
            return finished or self._measured(prepared, name, folder, progress)

    def _measured(self, prepared: Ready, name: str, folder: Path, progress: Progress) -> RunLog:
        """Measure, under a log that says how the run ended, whatever happens."""
        subject = prepared.subject
        options = prepared.options
        tally = Tally(resumes=not options.fresh)
        started = time.monotonic()
        budget = batch_budget(subject.model, options.batch_tokens)
        place = ":memory:" if subject.fingerprint is None else options.store or default_store()
        writer = LogWriter(folder, _header(prepared, name))
        try:
            with Store(place, fresh=options.fresh) as store:
                run = Run(store, budget, tally, progress, prepared, writer)
                progress.start(total_tokens(prepared))
                self.measure(prepared, run)
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
            run.note(
                f"memory ran out and {tally.halved} batches were halved: fewer tokens in a batch "
                "would be faster"
            )
        writer.finish("complete", _timings(tally, started))
        return RunLog(folder, writer.header, writer.rows, self.view)

    def _finished(self, folder: Path, name: str, *, fresh: bool) -> RunLog | None:
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
            return read_log(folder, self.view)
        return None


def _header(prepared: Prepared, name: str) -> Header:
    """The header of a run that begins."""
    options = prepared.options
    header = Header(
        verb=options.verb,
        run=name,
        key=key_of(options),
        model=prepared.subject.info,
        token_unit=prepared.subject.counter.unit,
        seed=options.asked.get("seed", 0),
        spec=options.asked,
        sources=options.sources,
        notes=list(prepared.notes),
    )
    return prepared.describe(header)


def _timings(tally: Tally, started: float) -> Timings:
    return Timings(
        seconds=round(time.monotonic() - started, 3),
        texts_computed=tally.computed,
        tokens_computed=tally.computed_tokens,
        texts_from_store=tally.stored,
        batches_halved=tally.halved,
    )
