"""`Run`: what every study does around its work: find a finished run, write the log, keep what was computed."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fairspan import __version__
from fairspan.calibration.treatment import Treatment
from fairspan.encoding.corrected import CorrectedEncoder
from fairspan.encoding.encoder import ChunkEncoder, Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill, reads_to_end, refuse_unread_end
from fairspan.encoding.store import Store, default_store
from fairspan.errors import DesignError, LogError
from fairspan.report.view import View
from fairspan.runs.bases import Treated, embed_through
from fairspan.runs.fit_part import FitPart
from fairspan.runs.folder import header_file, locked
from fairspan.runs.log import LogWriter, RunLog, read_header, read_log, rewrite_header
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.request import DEFAULT_RUNS, Spec, answer, slug
from fairspan.runs.sending import Pair, plan_sending
from fairspan.runs.subject import Subject


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where a run goes and how.

    Attributes:
        out: its folder; None for one in `fairspan-runs` that belongs to the model and the spec.
        store: the file that keeps vectors; None for one in the user's cache folder.
        batch_tokens: tokens in a batch, padding included.
        fresh: measure again although the folder holds a complete run.
        request: what finds the log of the same request without a model; see `fairspan.runs.request`.
    """

    out: Path | str | None = None
    store: Path | str | None = None
    batch_tokens: int | None = None
    fresh: bool = False
    progress: Progress = field(default_factory=Silent)
    request: str | None = None

    def answer(self, model: Any, show: Callable[[RunLog], View]) -> RunLog | None:
        """The log that answers the request for a model or the name it is given, if it is complete and wanted."""
        return None if self.fresh else answer(self.request, model, self.out, show)


class Prepared(Protocol):
    """A study with everything read and built, and nothing embedded yet."""

    @property
    def subject(self) -> Subject: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def fit(self) -> FitPart: ...
    @property
    def decisive(self) -> list[Any]:
        """What else decides the result: fingerprints of what was read."""

    @property
    def header(self) -> dict[str, Any]:
        """What the log says of this kind of study, with its verb and its notes."""


def run_name(prepared: Prepared) -> str:
    """The name of a run's folder: the model's, and a hash of everything that decides the result."""
    subject = prepared.subject
    decisive = [__version__, prepared.spec.to_dict(), subject.decisive, prepared.decisive, *prepared.fit.decisive]
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    return f"{slug(subject.name)}-{digest[:8]}"


class Run:
    """One study while it runs: where its texts are embedded and its rows and notes go.

    A study that sets `partial` had to leave something out, and goes on with it when it is asked for again.
    """

    def __init__(
        self, prepared: Prepared, writer: LogWriter, store: Store, budget: int, tally: Tally, progress: Progress
    ) -> None:
        self.prepared, self.subject = prepared, prepared.subject
        self.writer, self.store, self.budget, self.tally, self.progress = writer, store, budget, tally, progress
        self.embed = embed_through(store, budget=budget, tally=tally, progress=progress.advance)
        self._again = embed_through(store, budget=budget, tally=tally, progress=_unreported)
        self._bases: set[Treatment] = set()
        self._fitted: set[Treatment] = set()
        self.advance: Callable[[int], None] = progress.advance
        self.header = writer.header
        self.add = writer.add
        self.partial = False
        self.label = {"run": self.header["run"], "model": prepared.subject.name}

    def note(self, text: str) -> None:
        """Add a note to the log, once."""
        if text not in self.header["notes"]:
            self.header["notes"].append(text)

    def under(self, treatment: Treatment) -> Treated:
        again = treatment.languages is not None and treatment.base in self._fitted
        if treatment.languages is not None:
            self._fitted.add(treatment.base)
        return self.subject.under(treatment, fit=self.prepared.fit, embed=self._again if again else self.embed)

    def begin(self, treatment: Treatment) -> None:
        """From here on texts are embedded under this treatment. Vectors of the same base have been reported."""
        self.advance = _unreported if treatment.base in self._bases else self.progress.advance
        self._bases.add(treatment.base)

    def fill(self, encoder: Encoder, texts: Sequence[Text]) -> None:
        """Embed what the store does not have."""
        if isinstance(encoder, CorrectedEncoder) and (untouched := encoder.untouched(texts)):
            self.note(f"{encoder.correction.method}: texts left as they are, wholly or in part: {untouched}")
        fill(encoder, texts, self.store, budget=self.budget, tally=self.tally, progress=self.advance)

    def read(self, keys: Sequence[bytes]) -> list[np.ndarray]:
        found = self.store.get(keys)
        return [found[key] for key in keys]

    def announce(self, pairs: Iterable[Pair]) -> None:
        """Say what is going to be sent to an endpoint, if the model is one."""
        if isinstance(self.subject.model, Endpoint):
            found = plan_sending(self.subject.model, pairs, self.store, budget=self.budget, tally=self.tally)
            self.header["sending"] = asdict(found)
            self.progress.stage(found.words)

    def prove_whole(self, encoder: Encoder, texts: Sequence[Text], *, may_cut: bool = False) -> None:
        """Raise if the model does not read the longest of the texts that fit its window to the end.

        Of an endpoint that `may_cut` texts it is noted instead. What it answers is kept.
        """
        if isinstance(encoder, CorrectedEncoder):
            encoder = encoder.alone
        if isinstance(encoder, ChunkEncoder):
            texts, encoder = [chunk for own in encoder.chunks(texts) for chunk in own], encoder.alone
        fitting = (text for text in texts if encoder.window is None or text.length <= encoder.window)
        longest = max(fitting, key=lambda text: text.length, default=None)
        if longest is None:
            return
        if not isinstance(self.subject.model, Endpoint):
            if self.store.missing([encoder.key(longest)]):
                refuse_unread_end(encoder, longest, self.tally)
        elif not may_cut:
            refuse_unread_end(encoder, longest, self.tally, self.store)
        elif not reads_to_end(encoder, longest, self.tally, self.store):
            self.note(
                f"the endpoint does not read the longest document ({len(longest.text):,} characters) to the end: the "
                "vectors of such documents are those of their beginning"
            )


def _unreported(tokens: int) -> None:
    """Takes the place of a progress for what was reported before."""


def run_study(
    prepared: Prepared, measure: Callable[[Run], None], options: RunOptions, show: Callable[[RunLog], View]
) -> RunLog:
    """Find the finished run, or measure under a log that says how it ended, whatever happens."""
    subject = prepared.subject
    subject.budget(options.batch_tokens)
    if subject.is_open:
        options.progress.stage("hashing the weights")
    name = run_name(prepared)
    folder = Path(options.out) if options.out is not None else DEFAULT_RUNS / name
    fresh = options.fresh or subject.fingerprint is None
    done = _finished(folder, name, show, fresh=fresh)
    if done is not None:
        _renew(done, options.request)
        return done
    with locked(folder):
        # Whoever held the lock before may just have finished it.
        return _finished(folder, name, show, fresh=fresh) or _measured(prepared, measure, options, show, folder, name)


def _measured(
    prepared: Prepared,
    measure: Callable[[Run], None],
    options: RunOptions,
    show: Callable[[RunLog], View],
    folder: Path,
    name: str,
) -> RunLog:
    subject, progress = prepared.subject, options.progress
    writer = LogWriter(folder, {**_header(prepared, name), "request": options.request})
    tally, started, budget = Tally(), time.monotonic(), subject.budget(options.batch_tokens)
    try:
        with Store(":memory:" if subject.fingerprint is None else options.store or default_store()) as store:
            run = Run(prepared, writer, store, budget, tally, progress)
            measure(run)
            _note_answers(run, fresh=options.fresh)
    except BaseException as error:
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        # Where the disk is full the header cannot be written either; the first error is the one to report.
        with suppress(LogError):
            writer.finish(status, error=str(error) or None, timings=_timings(tally, started))
        raise
    finally:
        progress.stop()
    if tally.halved:
        note = f"memory ran out and {tally.halved} batches were halved: fewer tokens in a batch would be faster"
        writer.header["notes"].append(note)
    writer.finish("partial" if run.partial else "complete", timings=_timings(tally, started))
    return RunLog(folder, writer.header, writer.rows, show)


def _note_answers(run: Run, *, fresh: bool) -> None:
    """What became known of an endpoint while it was measured."""
    if not isinstance(run.subject.model, Endpoint):
        return
    run.header["model"] = run.subject.description
    names = run.subject.model.received.models
    if len(names) > 1:
        run.note(f"the answers of the endpoint name several models: {', '.join(names)}")
    if fresh and not run.tally.computed:
        run.note("all vectors came from the store: name another store to ask the endpoint again")


def _header(prepared: Prepared, name: str) -> Mapping[str, Any]:
    spec, own = prepared.spec.to_dict(), prepared.header
    return {
        "run": name,
        "model": prepared.subject.description,
        "token_unit": prepared.subject.counter.unit,
        "seed": spec.get("seed", spec.get("design", {}).get("seed")),
        "spec": spec,
        **own,
        "notes": [*own["notes"], *prepared.fit.notes],
    }


def _finished(folder: Path, name: str, show: Callable[[RunLog], View], *, fresh: bool) -> RunLog | None:
    """The complete log of this very run, if the folder holds it and it is wanted."""
    if not header_file(folder).exists():
        return None
    header = read_header(folder)
    if header.get("run") != name:
        raise DesignError(
            f"{folder} holds the run {header.get('run')}, which asked for something else: choose another folder with "
            "[[out=]]."
        )
    if fresh or header.get("status") != "complete":
        return None
    # Rows that were lost or written over are measured again.
    with suppress(LogError):
        return read_log(folder, show)
    return None


def _renew(log: RunLog, request: str | None) -> None:
    """Note that a log answers this request too: its files were touched, and are found to be the same."""
    if request is None or log.header.get("request") == request:
        return
    with suppress(LogError), locked(log.folder):
        rewrite_header(log.folder, {"request": request})


def _timings(tally: Tally, started: float) -> dict[str, Any]:
    return {
        "seconds": round(time.monotonic() - started, 3),
        "texts_computed": tally.computed,
        "tokens_computed": tally.computed_tokens,
        "texts_from_store": tally.found,
        "batches_halved": tally.halved,
    }
