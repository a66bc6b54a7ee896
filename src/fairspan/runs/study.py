"""`Study`: what every study does around its work: find a finished run, write the log, keep what was computed."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.chunks import innermost
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill, reads_to_end
from fairspan.encoding.store import Store, default_store
from fairspan.errors import DesignError, FairspanError
from fairspan.report.view import View
from fairspan.runs.bases import Pair, Treated, embed_through
from fairspan.runs.folder import HEADER, locked
from fairspan.runs.forecast import Forecast, forecast
from fairspan.runs.header import Header, Timings, read_header
from fairspan.runs.identity import Identity
from fairspan.runs.key import DEFAULT_RUNS, key_of, known_log
from fairspan.runs.log import LogWriter, RunLog, read_log
from fairspan.runs.options import StudyOptions
from fairspan.runs.prepared import Prepared
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.sending import plan_sending
from fairspan.runs.subject import batch_budget, open_subject

Options = TypeVar("Options", bound=StudyOptions)
Ready = TypeVar("Ready", bound=Prepared)


@dataclass(frozen=True)
class Study(Generic[Options, Ready]):
    """A study, called with its options.

    Attributes:
        prepare: reads and builds everything that is to be embedded.
        measure: embeds it and adds rows to the log.
        view: what a log shows.
        finish: what is done with a complete log, whether it was just measured or found.
    """

    prepare: Callable[[Any, Options, Progress], Ready]
    measure: Callable[[Ready, "Run"], None]
    view: Callable[[RunLog], View]
    finish: Callable[[RunLog], None] = lambda log: None

    def __call__(self, options: Options) -> RunLog:
        """The log of these options: the one that is there, or a new one."""
        log = known_log(options, self.view) or self._run(options)
        self.finish(log)
        return log

    def forecast(self, options: Options) -> Forecast:
        """What a run would do, without doing it."""
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
        """Find the finished run, or measure under a log that says how it ended, whatever happens."""
        progress = as_progress(options.progress)
        prepared = self.ready(options, progress)
        subject = prepared.subject
        if subject.is_open:
            progress.stage("hashing the weights")
        name = Identity.of(prepared).run_name
        folder = Path(options.out) if options.out is not None else DEFAULT_RUNS / name
        fresh = options.fresh or subject.fingerprint is None
        done = self._finished(folder, name, fresh=fresh)
        if done is None:
            with locked(folder):
                # The process that held the lock may just have finished it.
                done = self._finished(folder, name, fresh=fresh) or self._measured(
                    prepared, name, folder, progress
                )
        return done

    def _measured(self, prepared: Ready, name: str, folder: Path, progress: Progress) -> RunLog:
        subject, options = prepared.subject, prepared.options
        tally, started, budget = (
            Tally(),
            time.monotonic(),
            batch_budget(subject.model, options.batch_tokens),
        )
        writer = LogWriter(folder, _header(prepared, name))
        try:
            with Store(
                ":memory:" if subject.fingerprint is None else options.store or default_store()
            ) as store:
                run = Run(prepared, writer, store, budget, tally, progress)
                self.measure(prepared, run)
                _note_answers(run, fresh=options.fresh)
        except BaseException as error:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            # Where the disk is full the header cannot be written either; the first error is the one to report.
            with suppress(FairspanError):
                writer.finish(status, _timings(tally, started), str(error) or None)
            raise
        finally:
            progress.stop()
        if tally.halved:
            run.note(
                f"memory ran out and {tally.halved} batches were halved: fewer tokens in a batch would be faster"
            )
        writer.finish("complete", _timings(tally, started))
        return RunLog(folder, writer.header, writer.rows, self.view)

    def _finished(self, folder: Path, name: str, *, fresh: bool) -> RunLog | None:
        """The complete log of this very run, if the folder holds it and it is wanted."""
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


class Run:
    """One study while it runs: where its texts are embedded and its rows and notes go."""

    def __init__(
        self,
        prepared: Prepared,
        writer: LogWriter,
        store: Store,
        budget: int,
        tally: Tally,
        progress: Progress,
    ) -> None:
        self.prepared, self.subject = prepared, prepared.subject
        self.writer, self.store, self.budget, self.tally, self.progress = (
            writer,
            store,
            budget,
            tally,
            progress,
        )
        self.embed = embed_through(store, budget=budget, tally=tally, progress=progress.advance)
        self.add = writer.add
        self.label = {"run": self.header.run, "model": prepared.subject.name}

    @property
    def header(self) -> Header:
        return self.writer.header

    def note(self, text: str) -> None:
        """Add a note to the log, once."""
        if text not in self.header.notes:
            self.header.notes.append(text)

    def under(self, treatment: Treatment) -> Treated:
        return self.subject.under(treatment, fit=self.prepared.fit, embed=self.embed)

    def fill(self, encoder: Encoder, texts: Sequence[Text]) -> None:
        """Embed what the store does not have."""
        fill(
            encoder,
            texts,
            self.store,
            budget=self.budget,
            tally=self.tally,
            progress=self.progress.advance,
        )

    def read(self, keys: Sequence[bytes]) -> list[np.ndarray]:
        found = self.store.get(keys)
        return [found[key] for key in keys]

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Say what is going to be sent to an endpoint, if the model is one."""
        if isinstance(self.subject.model, Endpoint):
            found = plan_sending(
                self.subject.model, pairs, self.store, budget=self.budget, tally=self.tally
            )
            self.writer.header = replace(self.header, sending=found)
            self.progress.stage(found.words)

    def prove_whole(
        self, encoder: Encoder, texts: Sequence[Text], *, may_cut: bool = False
    ) -> None:
        """Raise if the model does not read the longest of the texts that fit its window to the end.

        Of an endpoint that `may_cut` texts it is noted instead. What it answers is kept.
        """
        encoder, texts = innermost(encoder, texts)
        fitting = (
            text for text in texts if encoder.window is None or text.length <= encoder.window
        )
        longest = max(fitting, key=lambda text: text.length, default=None)
        remote = isinstance(self.subject.model, Endpoint)
        if longest is None or (not remote and not self.store.missing([encoder.key(longest)])):
            return
        if reads_to_end(encoder, longest, self.tally, self.store if remote else None):
            return
        if not (remote and may_cut):
            raise FairspanError(
                f"the model does not read its longest document ({len(longest.text)} characters) to the end: the "
                "vector stays the same without the last words. Raise the limit of the model or its tokenizer, or use "
                "shorter documents."
            )
        self.note(
            f"the endpoint does not read the longest document ({len(longest.text):,} characters) to the end: "
            "vectors of such documents cover only their beginning"
        )


def _note_answers(run: Run, *, fresh: bool) -> None:
    """What became known of an endpoint while it was measured."""
    if not isinstance(run.subject.model, Endpoint):
        return
    run.writer.header = replace(run.header, model=run.subject.info)
    names = run.subject.model.received.models
    if len(names) > 1:
        run.note(f"the answers of the endpoint name several models: {', '.join(names)}")
    if fresh and not run.tally.computed:
        run.note("all vectors came from the store: name another store to ask the endpoint again")


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
        notes=[*prepared.notes, *prepared.fit.notes],
    )
    return prepared.describe(header)


def _timings(tally: Tally, started: float) -> Timings:
    return Timings(
        seconds=round(time.monotonic() - started, 3),
        texts_computed=tally.computed,
        tokens_computed=tally.computed_tokens,
        texts_from_store=tally.found,
        batches_halved=tally.halved,
    )
