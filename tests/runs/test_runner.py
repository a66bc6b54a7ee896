"""What `Study` owes every study: one log, one store, and a run that can go on."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch
from filelock import FileLock
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment, as_treatments
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.errors import DesignError, FairspanError
from fairspan.report.view import View
from fairspan.runs import log as logs
from fairspan.runs.folder import locked
from fairspan.runs.header import FORMAT, Header
from fairspan.runs.log import LogKind, RunLog
from fairspan.runs.options import StudyOptions
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.runs.subject import Subject
from tests.builders.commands import files_in, header_of, stored
from tests.builders.saying import said_by
from tests.builders.verbs import VERBS, Recorder, Verb

TEXTS = 8


class Model:
    """Vectors that depend on nothing but the text. Before every call `check` hears its number."""

    identity: str | None = "a model of these tests"

    def __init__(self, check: Callable[[int], None] = lambda number: None) -> None:
        self.check, self.calls = check, 0

    def encode(self, texts: list[str]) -> np.ndarray:
        self.calls += 1
        self.check(self.calls)
        return np.stack(
            [np.random.default_rng(zlib.crc32(text.encode())).normal(size=4) for text in texts]
        )


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """A study of two treatments. Every text is a batch of its own."""

    verb: ClassVar[str] = "audit"
    seed: int = 0
    batch_tokens: int | None = 10

    @property
    def all_treatments(self) -> tuple[Treatment, ...]:
        return as_treatments(["plain", "chunk-mean"])


@dataclass(frozen=True)
class Ready:
    subject: Subject
    options: Options
    text_hashes: tuple[()] = ()
    notes: tuple[()] = ()

    def describe(self, header: Header) -> Header:
        return header

    def stages(self, under: Any) -> dict[str, list[Any]]:
        return {}


def rows_of(texts: Ready, run: Run) -> Iterator[pl.DataFrame]:
    for treatment in texts.options.all_treatments:
        begin = f"{treatment.name} {texts.options.seed}"
        read = [Text(f"{begin} {number}", 10) for number in range(TEXTS)]
        vectors = run.embed(run.under(treatment).documents, read)
        values = vectors.sum(axis=1).astype(float)
        yield pl.DataFrame({"treatment": treatment.name, "value": values})


def view(log: RunLog) -> View:
    return View("title", "heading", (), (), {"verdicts": pl.DataFrame()})


LOG = LogKind({"treatment": pl.String(), "value": pl.Float64()}, view)
STUDY: Study[Options, Ready] = Study(
    lambda subject, options, progress: Ready(subject, options), rows_of, LOG
)


def read(folder: Path) -> RunLog:
    return logs.read_log(folder, LOG)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(
        Model(), out=tmp_path / "run", store=tmp_path / "store.sqlite", name="model", progress=False
    )


@pytest.fixture
def done(options: Options) -> RunLog:
    """A run from beginning to end in the folder of the test."""
    log = STUDY(options)
    assert (log.status, len(log.rows)) == ("complete", 2 * TEXTS)
    return log


def under(options: Options, check: Callable[[int], None], **changes: Any) -> RunLog:
    """The same asked again, of a model that is watched."""
    return STUDY(replace(options, model=Model(check), **changes))


def never(number: int) -> None:
    raise AssertionError("nothing was to be embedded")


def after(calls: int, error: BaseException) -> Callable[[int], None]:
    def check(number: int) -> None:
        if number > calls:
            raise error

    return check


def assert_same(log: RunLog, expected: RunLog) -> None:
    """Every row to the last bit, here and on disk."""
    assert (log.status, log.header.error, log.notes) == ("complete", None, expected.notes)
    assert log.run == expected.run
    assert_same_bits(log.rows, expected.rows)
    assert read(log.folder).rows.equals(log.rows)
    assert files_in(log.folder) == ["rows.parquet", "run.json"]


def anything(number: int) -> None:
    """Any call is fine."""


def assert_same_bits(rows: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert rows.drop("value").equals(expected.drop("value"))
    assert rows["value"].to_numpy().tobytes() == expected["value"].to_numpy().tobytes()


# What the same call finds again


def test_a_complete_run_returns_at_once(options: Options, done: RunLog, tmp_path: Path) -> None:
    for log in (under(options, never), under(options, never, batch_tokens=1000)):
        assert log.rows.equals(done.rows)
        assert log.header.to_json() == done.header.to_json()
    elsewhere = under(options, never, out=tmp_path / "other")
    assert elsewhere.header.timings.texts_computed == 0, "all from the store"


def test_the_default_folder_and_store(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "default.sqlite"))
    log = STUDY(replace(options, out=None, store=None))
    assert log.folder == Path("fairspan-runs") / log.run
    assert log.run.startswith("audit-model-")
    assert stored(tmp_path / "default.sqlite") >= 2 * TEXTS
    assert under(options, never, out=None, store=None).rows.equals(log.rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b"PAR1"),
        lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
        lambda file: pl.read_parquet(file).head(3).write_parquet(file),
    ],
    ids=["gone", "replaced", "cut", "fewer"],
)
def test_damaged_rows_are_measured_again_from_the_store(
    options: Options, done: RunLog, damage: Callable[[Path], Any]
) -> None:
    damage(done.folder / "rows.parquet")
    said_by(read, done.folder)
    assert_same(under(options, never), done)


def test_fresh_measures_again(options: Options, done: RunLog, tmp_path: Path) -> None:
    """Rows and vectors that were changed are believed, until they are measured again."""
    done.rows.with_columns(value=0.0).write_parquet(done.folder / "rows.parquet")
    assert (under(options, never).rows["value"] == 0).all()
    with Store(options.store or "") as store, store._connection as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(length(vector))")
    log = under(options, anything, fresh=True)
    assert log.header.timings.texts_computed == 2 * TEXTS, "as if nothing were stored"
    assert_same(log, done)
    assert_same_bits(under(options, never, out=tmp_path / "other").rows, done.rows)


@pytest.mark.parametrize("written", ["{", "[]", "{}", json.dumps({"format": FORMAT + 1})])
def test_a_damaged_or_newer_header_is_refused_and_kept(
    options: Options, done: RunLog, written: str
) -> None:
    """What cannot be read may be worth something to whoever wrote it."""
    (done.folder / "run.json").write_text(written, encoding="utf-8")
    said_by(under, options, never)
    assert (done.folder / "run.json").read_text(encoding="utf-8") == written


@pytest.mark.parametrize("fresh", [False, True])
def test_another_study_in_the_same_folder_is_refused(
    options: Options, done: RunLog, fresh: bool
) -> None:
    """Also when told to measure anew, and before anything is embedded."""
    for other in ({"seed": 1}, {"name": "another"}):
        said = said_by(under, options, never, fresh=fresh, **other, kind=DesignError)
        assert f"holds the run {done.run}, which asked for something else" in said
        assert "choose another folder" in said
    assert read(done.folder).rows.equals(done.rows)


# Measured again where there is a log


@pytest.mark.parametrize("calls", [0, TEXTS + 3])
def test_a_fresh_run_that_is_stopped_leaves_the_finished_one(
    options: Options, done: RunLog, calls: int
) -> None:
    """Before its first rows and after them."""
    with pytest.raises(KeyboardInterrupt):
        under(options, after(calls, KeyboardInterrupt()), fresh=True)
    said = said_by(under, options, after(calls, ValueError("a bad batch")), fresh=True)
    assert "continues" not in said, "it would begin again"
    for kept in (read(done.folder), under(options, never)):
        assert kept.rows.equals(done.rows)
        assert kept.header.to_json() == done.header.to_json()
    assert_same(under(options, anything, fresh=True), done)


@pytest.mark.parametrize("moved", [0, 1])
def test_a_process_that_ends_between_two_renames(
    options: Options, done: RunLog, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """Each file is whole and of this run, and the next fresh run takes its place."""
    folder, rename, count = done.folder, Path.replace, [0]

    def killed(self: Path, target: Path) -> Path:
        count[0] += target.parent == folder
        if target.parent == folder and count[0] > moved:
            raise SystemExit
        return rename(self, target)

    old = done.rows.with_columns(value=0.0)
    old.write_parquet(folder / "rows.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(SystemExit):
            under(options, anything, fresh=True)
    for log in (read(folder), under(options, never)):
        assert_same_bits(log.rows, done.rows if moved else old)
        assert log.header.started == done.header.started
    assert_same(under(options, anything, fresh=True), done)


def test_a_folder_that_another_process_writes(options: Options, done: RunLog) -> None:
    """One line, nothing embedded, nothing changed. A lock is that of the opened file."""
    with FileLock(done.folder / ".lock"):
        complete = under(options, never)
        assert complete.rows.equals(done.rows), "what is complete can be read meanwhile"
        before = {file: file.read_bytes() for file in done.folder.iterdir()}
        said = said_by(under, options, never, fresh=True)
        assert re.search("another process is writing .*: wait until it has finished", said)
        assert {file: file.read_bytes() for file in done.folder.iterdir()} == before
    assert_same(under(options, anything, fresh=True), done)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on, and says that nothing keeps others out."""

    def refuse(self: Any) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr("filelock.FileLock._acquire", refuse)
    with pytest.warns(UserWarning, match="has no locks"), locked(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


# Stopped in the middle


@pytest.mark.parametrize("calls", [0, TEXTS + 3])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError("a bad\nbatch")], ids=["stopped", "failed"]
)
def test_a_run_that_ends_early_says_so_and_goes_on(
    options: Options, tmp_path: Path, calls: int, error: BaseException
) -> None:
    """In the first call, and in the second treatment."""
    with pytest.raises((KeyboardInterrupt, FairspanError)) as raised:
        under(options, after(calls, error))
    header = header_of(tmp_path / "run")
    ended = (header["status"], header["error"])
    if isinstance(error, KeyboardInterrupt):
        assert ended == ("interrupted", None)
    else:
        assert ended == ("failed", str(raised.value))
        assert "the model failed on a batch" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert ("the same command continues" in str(raised.value)) == (calls > 0)
    assert header["finished"] is not None
    assert header["rows"] == (TEXTS if calls > TEXTS else 0), "rows of a finished treatment"
    assert header["timings"]["texts_computed"] == calls
    log = under(options, anything)
    assert log.header.timings.texts_computed == 2 * TEXTS - calls
    assert_same(log, STUDY(replace(options, out=tmp_path / "whole", store=tmp_path / "other.db")))


def test_memory_that_runs_out_is_a_note(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    # It takes most of a second in a process full of models.
    monkeypatch.setattr("gc.collect", lambda: 0)

    def small(number: int) -> None:
        if number == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    log = under(options, small, batch_tokens=500)
    assert log.header.timings.batches_halved > 0
    assert any("memory ran out and" in note for note in log.notes)


# A store or a folder that cannot be used


@pytest.mark.parametrize(
    "damage", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 4000, None]
)
def test_a_damaged_store_is_one_line_and_left_alone(
    options: Options, done: RunLog, damage: bytes | None
) -> None:
    """No database at all, or pages of zeros behind a sound first one."""
    file = Path(options.store or "")
    content = file.read_bytes()
    assert len(content) > 4096, "the premise: several pages"
    file.write_bytes(damage or content[:4096] + bytes(len(content) - 4096))
    said = said_by(under, options, anything, fresh=True)
    if damage is not None:
        assert re.search(r"cannot be used .*its contents are kept", said)
        assert file.read_bytes() == damage
    assert header_of(done.folder)["status"] == "complete"


def test_a_folder_that_cannot_be_made_is_one_line(options: Options, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    assert "cannot be written" in said_by(under, options, never, out=tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


def test_rows_that_cannot_be_written(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full half-way through the second file: the first stands."""
    plain, count = pl.DataFrame.write_parquet, [0]

    def full(self: pl.DataFrame, file: Path, *args: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] > 1:
            file.write_bytes(b"PAR1 and then")
            raise OSError(28, "No space left on device")
        plain(self, file, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full)
        reason = "cannot be written (No space left on device): make room or choose another with out"
        assert reason in said_by(STUDY, options)
    part = read(tmp_path / "run")
    assert (part.status, len(part.rows)) == ("failed", TEXTS)
    assert files_in(tmp_path / "run") == ["rows.parquet", "run.json"]
    assert_same_bits(part.rows, under(options, never).rows.head(TEXTS))


# The verbs themselves


def called(verb: Verb, place: Path, folder: Path, **changes: Any) -> RunLog:
    """The verb with all that it writes in that folder."""
    own = {"corpus": str(place / "corpus"), "name": "model", "progress": False}
    own |= {"out": folder / "run", "store": folder / "store.sqlite"}
    model = SentenceTransformer(str(place / "model"), device="cpu")
    return verb.measure(model, **{**verb.asked, **own, **changes})


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
@pytest.mark.slow
def test_every_verb_goes_on_and_answers_from_its_log(
    verb: Verb, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at 70 % it ends with the same bits, and progress counts all that there is to do. A
    tuning: tests/studies/tune/test_tune.py."""
    forward, passes, most = SentenceTransformer.forward, [0], [10**9]

    def counted(self: SentenceTransformer, *args: Any, **given: Any) -> Any:
        passes[0] += 1
        if passes[0] > most[0]:
            raise KeyboardInterrupt
        return forward(self, *args, **given)

    monkeypatch.setattr(SentenceTransformer, "forward", counted)
    first, rest = Recorder(), Recorder()
    whole = called(verb, place, tmp_path / "whole", progress=first)
    assert passes[0] > 20, "the premise: there is a middle"
    passes[0], most[0] = 0, int(0.7 * passes[0])
    with pytest.raises(KeyboardInterrupt):
        called(verb, place, tmp_path)
    done, most[0] = header_of(tmp_path / "run"), 10**9
    assert (done["status"], done["rows"] > 0) == ("interrupted", True)
    log = called(verb, place, tmp_path, progress=rest)
    assert_same_bits(log.rows, whole.rows)
    assert first.total == first.done == rest.total == rest.done > 0
    assert first.skipped == 0 < rest.skipped < rest.done
    assert (first.stopped, rest.stopped) == (1, 1)
    left = whole.header.timings.texts_computed - done["timings"]["texts_computed"]
    assert log.header.timings.texts_computed == left
    most[0] = 0
    assert called(verb, place, tmp_path).header.to_json() == log.header.to_json()
