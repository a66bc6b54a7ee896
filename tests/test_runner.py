"""What every verb that measures owes its user: one log, one store, and a run that goes on wherever it was stopped."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import DesignError, EncodingError, FairspanError, LogError, StoreError
from fairspan.runs.folder import locked
from fairspan.runs.log import FORMAT
from fairspan.studies.logs import read_log
from tests.commands import Commands, Ended, assert_sound, files_in, header_of, stored, wait_for
from tests.verbs import STRONG, TUNE, VERBS, Verb, write_articles

Make = Callable[..., SentenceTransformer]
Call = Callable[..., fairspan.RunLog]


def name_of(value: Any) -> str | None:
    return value.name if isinstance(value, Verb) else None


@pytest.fixture(params=[*VERBS, pytest.param(TUNE, marks=pytest.mark.slow)], ids=name_of)
def verb(request: pytest.FixtureRequest) -> Verb:
    found: Verb = request.param
    return found


# For what the runner does alike, whatever is measured: folders, renames, locks and disks.
any_verb = pytest.mark.parametrize("verb", VERBS[:1], indirect=True, ids=name_of)
# For what depends on how a study measures, and takes seconds.
mostly_slow_verbs = pytest.mark.parametrize(
    "verb",
    [VERBS[0], *(pytest.param(verb, marks=pytest.mark.slow) for verb in (*VERBS[1:], TUNE))],
    indirect=True,
    ids=name_of,
)


@pytest.fixture(scope="module")
def place(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a corpus."""
    place = tmp_path_factory.mktemp("place")
    make_tiny("bert", "mean").save_pretrained(str(place / "model"), create_model_card=False)
    write_articles(place / "corpus")
    return place


@pytest.fixture(scope="module")
def model(place: Path) -> SentenceTransformer:
    return SentenceTransformer(str(place / "model"), device="cpu")


def called(verb: Verb, model: SentenceTransformer, place: Path, folder: Path) -> Call:
    """The verb's function with all it writes in that folder."""
    own = {"corpus": str(place / "corpus"), "out": folder / "run", "store": folder / "store.sqlite", "name": "model"}
    return lambda **changes: verb.measure(model, **{**verb.asked, **own, **changes})


@dataclass(frozen=True)
class Whole:
    """A run from beginning to end, and its forward passes. Its folder is read by many tests and changed by none."""

    log: fairspan.RunLog
    passes: int


@pytest.fixture(scope="module")
def whole(
    model: SentenceTransformer, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Verb], Whole]:
    """Measured once for each verb."""
    found: dict[str, Whole] = {}

    def measure(verb: Verb) -> Whole:
        if verb.name not in found:
            with pytest.MonkeyPatch.context() as patch:
                count = on_forward(patch, lambda number: None)
                log = called(verb, model, place, tmp_path_factory.mktemp("undisturbed"))()
            assert {"none", STRONG} <= set(log.rows["treatment"])
            assert count[0] > 20, "the premise: there is a middle"
            found[verb.name] = Whole(log, count[0])
        return found[verb.name]

    return measure


@pytest.fixture
def undisturbed(verb: Verb, whole: Callable[[Verb], Whole]) -> fairspan.RunLog:
    return whole(verb).log


@pytest.fixture
def passes(verb: Verb, whole: Callable[[Verb], Whole]) -> int:
    return whole(verb).passes


@pytest.fixture
def anew(verb: Verb, model: SentenceTransformer, place: Path, tmp_path: Path) -> Call:
    """The call in an empty folder."""
    return called(verb, model, place, tmp_path)


@pytest.fixture
def again(anew: Call, undisturbed: fairspan.RunLog, tmp_path: Path) -> Call:
    """The call where it has already run."""
    shutil.copytree(undisturbed.folder.parent, tmp_path, dirs_exist_ok=True)
    return anew


def assert_same(log: fairspan.RunLog, expected: fairspan.RunLog) -> None:
    """Every row to the last bit, and all that the header holds of results."""
    assert (log.status, log.header["error"], log.notes) == ("complete", None, expected.notes)
    assert log.run == expected.run
    assert_same_bits(log.rows, expected.rows)
    assert log.header.get("geometry") == expected.header.get("geometry")
    assert read_log(log.folder).rows.equals(log.rows)


def assert_same_bits(rows: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Whatever the run is called: its name holds how the corpus was named."""
    assert rows.drop("run", "value").equals(expected.drop("run", "value"))
    assert rows["value"].to_numpy().tobytes() == expected["value"].to_numpy().tobytes()


def on_forward(monkeypatch: pytest.MonkeyPatch, check: Callable[[int], None]) -> list[int]:
    """Call `check` with the number of every forward pass before it; the list counts them."""
    plain, count = SentenceTransformer.forward, [0]

    def counted(self: SentenceTransformer, *args: Any, **options: Any) -> Any:
        count[0] += 1
        check(count[0])
        return plain(self, *args, **options)

    monkeypatch.setattr(SentenceTransformer, "forward", counted)
    return count


def never(number: int) -> None:
    raise AssertionError("nothing was to be embedded")


# What the same call finds again


def test_a_complete_run_returns_at_once(
    again: Call, undisturbed: fairspan.RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_forward(monkeypatch, never)
    log = again()
    assert log.rows.equals(undisturbed.rows)
    assert log.header == json.loads(json.dumps(undisturbed.header))


@any_verb
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
    again: Call,
    undisturbed: fairspan.RunLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], Any],
) -> None:
    damage(tmp_path / "run" / "rows.parquet")
    with pytest.raises(LogError) as error:
        read_log(tmp_path / "run")
    assert "\n" not in str(error.value)
    log = again()
    assert_same(log, undisturbed)
    assert log.header["timings"]["texts_computed"] == 0


def test_fresh_measures_again(again: Call, undisturbed: fairspan.RunLog, tmp_path: Path) -> None:
    """Rows that were changed are believed, until they are measured again. Vectors still come from the store."""
    undisturbed.rows.with_columns(value=0.0).write_parquet(tmp_path / "run" / "rows.parquet")
    assert (again().rows["value"] == 0).all()
    log = again(fresh=True)
    assert_same(log, undisturbed)
    assert log.header["timings"]["texts_computed"] == 0


@pytest.mark.parametrize("written", ["{", "[]", "{}", json.dumps({"format": FORMAT + 1})])
def test_a_damaged_or_newer_header_is_refused_and_kept(
    again: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """What cannot be read may be worth something to whoever wrote it."""
    (tmp_path / "run" / "run.json").write_text(written, encoding="utf-8")
    on_forward(monkeypatch, never)
    with pytest.raises(LogError) as error:
        again()
    assert "\n" not in str(error.value)
    assert (tmp_path / "run" / "run.json").read_text(encoding="utf-8") == written


def test_another_spec_in_the_same_folder_is_refused(
    verb: Verb, again: Call, undisturbed: fairspan.RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when told to measure anew, and before anything is embedded."""
    on_forward(monkeypatch, never)
    for other in verb.others:
        for fresh in (False, True):
            with pytest.raises(
                DesignError, match=f"holds the run {undisturbed.run}, which asked for something else"
            ) as error:
                again(**other, fresh=fresh)
            assert "\n" not in str(error.value)
    assert read_log(tmp_path / "run").rows.equals(undisturbed.rows)


def test_another_verbs_folder_is_refused(
    verb: Verb, again: Call, model: SentenceTransformer, place: Path, tmp_path: Path
) -> None:
    other = next(one for one in VERBS if one != verb)
    with pytest.raises(DesignError, match="which asked for something else"):
        called(other, model, place, tmp_path)()


def test_the_default_folder_and_store(
    verb: Verb, anew: Call, tmp_path: Path, undisturbed: fairspan.RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRSPAN_STORE", str(tmp_path / "default.sqlite"))
    log = anew(out=None, store=None)
    assert log.folder == Path("fairspan-runs") / log.run
    assert log.run == undisturbed.run
    assert log.run.startswith("model-")
    assert stored(tmp_path / "default.sqlite") == stored(undisturbed.folder.parent / "store.sqlite")
    on_forward(monkeypatch, never)
    assert anew(out=None, store=None).rows.equals(log.rows)


@pytest.mark.parametrize("tokens", [0, -1])
def test_batches_of_no_tokens_are_refused(anew: Call, tmp_path: Path, tokens: int) -> None:
    with pytest.raises(DesignError, match="batch_tokens must be a whole number of at least 1"):
        anew(batch_tokens=tokens)
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_another_batch_size_shares_the_store(again: Call, tmp_path: Path) -> None:
    log = again(out=tmp_path / "other", batch_tokens=1000)
    assert log.header["timings"]["texts_computed"] == 0


# Measured again beside what is there


@pytest.mark.parametrize(
    ("verb", "share"),
    [
        *product(VERBS[:1], [0.0, 0.7]),
        *(pytest.param(verb, 0.7, marks=pytest.mark.slow) for verb in (*VERBS[1:], TUNE)),
    ],
    indirect=["verb"],
    ids=name_of,
)
def test_a_fresh_run_that_is_stopped_leaves_the_finished_one(
    again: Call,
    undisturbed: fairspan.RunLog,
    passes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
) -> None:
    """Before its first rows and after them. Without its store the fresh run embeds everything."""
    (tmp_path / "store.sqlite").unlink()

    def stop(number: int) -> None:
        if number > share * passes:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        on_forward(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            again(fresh=True)
    kept = read_log(tmp_path / "run")
    assert kept.rows.equals(undisturbed.rows)
    assert kept.header == json.loads(json.dumps(undisturbed.header))
    assert kept.newer.startswith("a later measurement, started 20")
    assert kept.newer.endswith("was interrupted: this is the one before it")
    assert kept.view.notes[0] == kept.newer
    assert again().newer == kept.newer, "the same call without fresh answers from the finished log"
    computed = header_of(tmp_path / "run" / ".newer")["timings"]["texts_computed"]
    log = again(fresh=True)
    assert_same(log, undisturbed)
    total = undisturbed.header["timings"]["texts_computed"]
    assert log.header["timings"]["texts_computed"] == total - computed, "it went on from what was stored"
    assert files_in(tmp_path / "run") == ["rows.parquet", "run.json"]
    assert read_log(tmp_path / "run").newer == ""


@any_verb
@pytest.mark.parametrize("moved", [0, 1])
def test_a_process_that_ends_between_two_renames(
    again: Call, undisturbed: fairspan.RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """The new log counts from the moment at which its header says complete, wherever its two files are."""
    folder, rename, count = tmp_path / "run", Path.replace, [0]

    def killed(self: Path, target: Path) -> Path:
        if self.parent.name == ".newer" and target.parent == folder:
            count[0] += 1
            if count[0] > moved:
                raise SystemExit
        return rename(self, target)

    undisturbed.rows.with_columns(value=0.0).write_parquet(folder / "rows.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(SystemExit):
            again(fresh=True)
    assert len(files_in(folder)) == 3, "the premise: something is still beside"
    started = header_of(folder / ".newer")["started"]
    for log in (read_log(folder), again()):
        assert_same_bits(log.rows, undisturbed.rows)
        assert (log.header["started"], log.newer) == (started, "")
    assert_same(again(fresh=True), undisturbed)
    assert files_in(folder) == ["rows.parquet", "run.json"]


@any_verb
def test_an_unfinished_log_stays_until_there_are_as_many_rows(
    anew: Call, passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after its first treatment, then at once: the first treatment's rows can still be read."""
    found = []
    for share in (0.7, 0.0):

        def stop(number: int, share: float = share) -> None:
            if number > share * passes:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            on_forward(patch, stop)
            with pytest.raises(KeyboardInterrupt):
                anew(store=tmp_path / f"{share}.sqlite")
        found.append(read_log(tmp_path / "run"))
    assert len(found[0].rows) > 0
    assert found[1].rows.equals(found[0].rows)
    assert [bool(log.newer) for log in found] == [False, True]


_HOLDER = """
import sys, time
from pathlib import Path
from fairspan.runs.folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@any_verb
def test_a_folder_that_another_process_writes(
    again: Call, undisturbed: fairspan.RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names the process, nothing embedded, nothing changed; SIGKILL gives the folder back."""
    folder = tmp_path / "run"
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (folder / ".newer").mkdir()
        running = {**undisturbed.header, "status": "running", "process": holder.pid}
        (folder / ".newer" / "run.json").write_text(json.dumps(running), "utf-8")
        before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        with monkeypatch.context() as patch:
            on_forward(patch, never)
            assert again().rows.equals(undisturbed.rows), "what is complete can be read meanwhile"
            with pytest.raises(LogError, match="another process is writing") as error:
                again(fresh=True)
        since = undisturbed.header["started"][:16].replace("T", " ")
        assert f"(process {holder.pid}, since {since} UTC): wait until it has finished" in str(error.value)
        assert "\n" not in str(error.value)
        assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    finally:
        holder.kill()
        holder.communicate()
    assert_same(again(fresh=True), undisturbed)


# Stopped in the middle


@pytest.mark.parametrize(
    ("verb", "share"),
    [
        *product(VERBS[:1], [0.0, 0.3, 0.7]),
        *product(VERBS[1:], [0.7]),
        *(pytest.param(verb, 0.3, marks=pytest.mark.slow) for verb in (*VERBS[1:], TUNE)),
    ],
    indirect=["verb"],
    ids=name_of,
)
def test_an_interrupted_run_goes_on(
    verb: Verb,
    anew: Call,
    undisturbed: fairspan.RunLog,
    passes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
) -> None:
    """In the first pass, in the first treatment and in the second: nothing that was stored is embedded twice."""

    def stop(number: int) -> None:
        if number > share * passes:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        on_forward(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            anew()
    header = header_of(tmp_path / "run")
    assert (header["status"], header["error"]) == ("interrupted", None)
    first = 0.2 if verb == TUNE else 0.5
    assert (header["rows"] > 0) == (share > first), "the first treatment's rows are on disk once it is measured"
    done = header["timings"]["texts_computed"]
    assert (done > 0) == (share > 0)
    log = anew()
    assert_same(log, undisturbed)
    total = undisturbed.header["timings"]["texts_computed"]
    assert log.header["timings"]["texts_computed"] == total - done


@mostly_slow_verbs
def test_a_failed_run_says_why_and_goes_on(
    verb: Verb,
    anew: Call,
    undisturbed: fairspan.RunLog,
    passes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(number: int) -> None:
        if number > 0.7 * passes:
            raise ValueError("a bad\nbatch")

    with monkeypatch.context() as patch:
        on_forward(patch, fail)
        with pytest.raises(EncodingError, match="the model failed on a batch") as error:
            anew()
    assert "\n" not in str(error.value)
    header = header_of(tmp_path / "run")
    assert (header["status"], header["error"]) == ("failed", str(error.value))
    assert header["finished"] is not None
    part = read_log(tmp_path / "run").rows
    assert set(part["treatment"]) & {"none", STRONG} == {"none", *([STRONG] if verb == TUNE else [])}
    assert_same(anew(), undisturbed)


def test_vectors_that_are_not_numbers(anew: Call, model: SentenceTransformer, tmp_path: Path) -> None:
    """One word's embedding is NaN, which only some texts have: the others' vectors are kept."""
    table = model[0].model.embeddings.word_embeddings.weight
    number = model.tokenizer.convert_tokens_to_ids("w7")
    kept = table[number].detach().clone()
    try:
        with torch.no_grad():
            table[number] = torch.nan
        # A tuning calibrates the model before it embeds anything, and finds it there.
        with pytest.raises(FairspanError, match=r"holds NaN or infinity|contains NaN") as error:
            # The model's shape and name are as before, its fingerprint is not.
            anew()
    finally:
        with torch.no_grad():
            table[number] = kept
    assert "\n" not in str(error.value)
    header = header_of(tmp_path / "run")
    assert (header["status"], header["error"]) == ("failed", str(error.value))
    assert_sound(tmp_path / "store.sqlite")


@mostly_slow_verbs
def test_memory_that_runs_out_is_a_note(anew: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SentenceTransformer.forward

    def small(self: SentenceTransformer, features: Any, **options: Any) -> Any:
        if len(features["input_ids"]) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(self, features, **options)

    monkeypatch.setattr(SentenceTransformer, "forward", small)
    monkeypatch.setattr("gc.collect", lambda: 0)  # which takes most of a second in a process full of models
    log = anew(batch_tokens=500)
    assert log.header["timings"]["batches_halved"] > 0
    assert any("memory ran out and" in note for note in log.notes)


# A store or a folder that cannot be used


@pytest.mark.parametrize("damage", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_store_is_one_line_and_left_alone(again: Call, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "store.sqlite").write_bytes(damage)
    with pytest.raises(StoreError, match="is not a store, or is damaged: move it away") as error:
        again(fresh=True)
    assert "\n" not in str(error.value)
    assert (tmp_path / "store.sqlite").read_bytes() == damage
    assert header_of(tmp_path / "run" / ".newer")["status"] == "failed"
    assert header_of(tmp_path / "run")["status"] == "complete"


def test_a_store_that_is_damaged_inside(again: Call, undisturbed: fairspan.RunLog, tmp_path: Path) -> None:
    """Pages of zeros behind a sound first one: an error of our own, or every vector as it was."""
    file = tmp_path / "store.sqlite"
    content = bytearray(file.read_bytes())
    assert len(content) > 3 * 4096, "the premise: several pages"
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(FairspanError) as error:
        again(fresh=True)
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_be_made_is_one_line(
    anew: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    on_forward(monkeypatch, never)
    with pytest.raises(LogError, match="cannot be written") as error:
        anew(out=tmp_path / "file" / "run")
    assert "\n" not in str(error.value)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


@any_verb
def test_rows_that_cannot_be_written(
    anew: Call, undisturbed: fairspan.RunLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full half-way through the second file: the first stands, and nothing half-written beside it."""
    plain, count = pl.DataFrame.write_parquet, [0]

    def full(self: pl.DataFrame, file: Path, *args: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] > 1:
            file.write_bytes(b"PAR1 and then")
            raise OSError(28, "No space left on device")
        plain(self, file, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(LogError, match=r"cannot be written \(No space left on device\)") as error:
            anew()
    assert "\n" not in str(error.value)
    part = read_log(tmp_path / "run")
    assert part.status == "failed"
    assert_same_bits(part.rows, undisturbed.rows.head(len(part.rows)))
    assert files_in(tmp_path / "run") == ["rows.parquet", "run.json"]
    assert_same(anew(), undisturbed)


# Processes. Each waits a little after every batch, so that a signal comes in the middle however fast the machine is.

processes = pytest.mark.skipif(sys.platform != "linux", reason="forks, signals and mounts as Linux has them")
_SLOWLY = """
import time
from fairspan.encoding.store import Store
put = Store.put
def slowly(self, vectors):
    put(self, vectors)
    time.sleep(0.01)
Store.put = slowly
"""
# From its 20th forward pass on, the model fails.
_FAILING = """
from sentence_transformers import SentenceTransformer
plain, count = SentenceTransformer.forward, [0]
def failing(self, *args, **options):
    count[0] += 1
    if count[0] >= 20:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\\nCompile with TORCH_USE_CUDA_DSA")
    return plain(self, *args, **options)
SentenceTransformer.forward = failing
"""
# A mount of its own, seen by this process alone and gone with it.
_MOUNT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_USER, READ_ONLY, REMOUNT, BIND, PRIVATE = 0x20000, 0x10000000, 1, 32, 4096, 0x4C000
if libc.unshare(NEW_MOUNTS | (NEW_USER if os.geteuid() else 0)) or libc.mount(b"none", b"/", None, PRIVATE, None):
    os._exit(77)
def mount(source, kind, flags, options):
    if libc.mount(source, FOLDER, kind, flags, options):
        os._exit(77)
"""


def small_disk(folder: Path, size: str) -> str:
    folder.mkdir()
    return f"FOLDER = {bytes(folder)!r}\n{_MOUNT}\nmount(b'none', b'tmpfs', 0, b'size={size}')\n"


def read_only(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    bound = "mount(FOLDER, None, BIND, None)\nmount(None, None, BIND | REMOUNT | READ_ONLY, None)\n"
    return f"FOLDER = {bytes(folder)!r}\n{_MOUNT}\n{bound}"


def copied(folder: Path, to: Path) -> str:
    return f"import shutil; shutil.copytree({str(folder)!r}, {str(to)!r})\n"


class Shell:
    """One verb's command, with all it writes in one folder unless told otherwise."""

    def __init__(self, commands: Commands, verb: Verb, place: Path, folder: Path, expected: fairspan.RunLog) -> None:
        self.commands, self.verb, self.place, self.folder, self.expected = commands, verb, place, folder, expected
        self.run, self.store = folder / "run", folder / "store.sqlite"

    def start(self, *, before: str = "", after: str = "", **changes: Any) -> Any:
        own = {"out": self.run, "store": self.store, "json": True, **changes}
        return self.commands.start(self.place, *self.verb.typed(**own), before=before, after=after)

    def goes_on(self, **changes: Any) -> dict[str, Any]:
        """The same command again is all that it takes; its timings."""
        ended = self.start(**changes).wait()
        assert ended.code == 0, ended.stderr
        run = changes.get("out", self.run)
        self.is_complete(run)
        return header_of(run)["timings"]

    def is_complete(self, run: Path) -> None:
        assert header_of(run)["status"] == "complete"
        assert_same_bits(pl.read_parquet(run / "rows.parquet"), self.expected.rows)
        assert files_in(run) == ["rows.parquet", "run.json"]

    @property
    def total(self) -> int:
        return stored(self.expected.folder.parent / "store.sqlite")


@pytest.fixture
def shell(commands: Commands, verb: Verb, place: Path, tmp_path: Path, undisturbed: fairspan.RunLog) -> Shell:
    return Shell(commands, verb, place, tmp_path, undisturbed)


def skip_if_refused(ended: Ended) -> Ended:
    if ended.code == 77:
        pytest.skip("this system gives a process no mounts of its own")
    return ended


@processes
@pytest.mark.slow
def test_killed_four_times_it_ends_with_the_same_bits(shell: Shell) -> None:
    """SIGKILL before anything is stored and at random amounts; what is stored only grows, and stays sound."""
    rng = random.Random(3)
    amounts = [0, *sorted(rng.sample(range(1, 4 * shell.total // 5), 3))]
    before = 0
    for amount in amounts:
        started = shell.start(before=_SLOWLY)
        wait_for(shell.store, amount)
        time.sleep(rng.uniform(0, 0.02 if amount else 0.5))
        started.signal(signal.SIGKILL)
        assert started.wait().code == -signal.SIGKILL, "it was over before it could be killed"
        after = stored(shell.store)
        assert after >= max(amount, before)
        before = after
        if (shell.run / "run.json").exists():
            assert header_of(shell.run)["status"] == "running"
    assert_sound(shell.store)
    timings = shell.goes_on()
    assert timings["texts_from_store"] > 0
    assert stored(shell.store) == shell.total


@any_verb
@processes
@pytest.mark.slow
def test_interrupted_it_says_so_in_one_line_and_goes_on(shell: Shell) -> None:
    started = shell.start(before=_SLOWLY)
    wait_for(shell.store, 20)
    started.signal(signal.SIGINT)
    started.wait().failed_in_one_line("interrupted. What was computed is kept", code=130)
    header = header_of(shell.run)
    assert header["status"] == "interrupted"
    done = header["timings"]["texts_computed"]
    assert done >= 10
    # The interrupt may have come between a batch's storing and its counting.
    left = shell.expected.header["timings"]["texts_computed"] - done
    assert left - 8 <= shell.goes_on()["texts_computed"] <= left


@any_verb
@processes
@pytest.mark.slow
def test_a_model_that_fails_on_a_batch(shell: Shell) -> None:
    ended = shell.start(before=_FAILING).wait()
    ended.failed_in_one_line("the model failed on a batch", "illegal memory access", "the same command continues")
    header = header_of(shell.run)
    assert header["status"] == "failed"
    assert ended.lines[0] == f"fairspan: {header['error']}"
    done = header["timings"]["texts_computed"]
    assert done > 0
    assert shell.goes_on()["texts_computed"] == shell.expected.header["timings"]["texts_computed"] - done


@any_verb
@processes
@pytest.mark.slow
def test_a_store_on_a_full_disk(shell: Shell, tmp_path: Path) -> None:
    """The store of a whole run does not fit. What was stored can be taken to a larger disk."""
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    started = shell.start(store=disk / "store.sqlite", before=small_disk(disk, "64k"), after=copied(disk, saved))
    ended = skip_if_refused(started.wait())
    ended.failed_in_one_line("is full: what was stored before is kept", "run the same again")
    header = header_of(shell.run)
    assert header["status"] == "failed"
    kept = stored(saved / "store.sqlite")
    assert header["timings"]["texts_computed"] <= kept < shell.total
    assert_sound(saved / "store.sqlite")
    for file in saved.glob("store.sqlite*"):
        shutil.copy(file, tmp_path / file.name)
    assert shell.goes_on()["texts_from_store"] >= header["timings"]["texts_computed"] > 0


@any_verb
@processes
@pytest.mark.slow
def test_a_log_on_a_full_disk(shell: Shell, tmp_path: Path) -> None:
    """Room for run.json, but not for all rows: what was embedded is in the store."""
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    started = shell.start(out=disk / "run", before=small_disk(disk, "12k"), after=copied(disk, saved))
    skip_if_refused(started.wait()).failed_in_one_line("cannot be written", "make room or choose another with --out")
    # What the folder holds is whole, and nothing half-written lies beside it.
    assert header_of(saved / "run")["status"] in ("running", "failed")
    left = set(files_in(saved / "run"))
    assert "run.json" in left <= {"run.json", "rows.parquet"}
    if "rows.parquet" in left:
        part = pl.read_parquet(saved / "run" / "rows.parquet")
        assert_same_bits(part, shell.expected.rows.head(len(part)))
    assert shell.goes_on()["texts_from_store"] > 0


@processes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "exists"), [(VERBS[0], True), *((verb, False) for verb in VERBS)], indirect=["verb"], ids=name_of
)
def test_a_store_that_may_not_be_written(shell: Shell, tmp_path: Path, exists: bool) -> None:
    disk = tmp_path / "disk"
    store = disk / "store.sqlite"
    disk.mkdir()
    if exists:
        started = shell.start(store=store, before=_SLOWLY)
        wait_for(store, 20)
        started.signal(signal.SIGKILL)
        started.wait()
    before = stored(store)
    ended = skip_if_refused(shell.start(store=store, before=read_only(disk)).wait())
    if exists:
        ended.failed_in_one_line(str(disk), "choose another file with --store")
        assert header_of(shell.run)["status"] == "failed"
    else:
        ended.failed_in_one_line(
            f"{store} cannot be written: no permission to write into {disk}: choose another place"
        )
    assert stored(store) == before
    if exists:
        shell.goes_on(store=store)


@any_verb
@processes
@pytest.mark.slow
def test_a_store_that_may_not_be_written_and_holds_everything(shell: Shell, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    shell.goes_on(store=disk / "store.sqlite")
    ended = shell.start(store=disk / "store.sqlite", out=tmp_path / "other", before=read_only(disk)).wait()
    assert skip_if_refused(ended).code == 0, ended.stderr
    shell.is_complete(tmp_path / "other")
    assert header_of(tmp_path / "other")["timings"]["texts_computed"] == 0


@processes
@pytest.mark.slow
def test_a_log_that_may_not_be_written(shell: Shell, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    ended = skip_if_refused(shell.start(out=disk / "run", before=read_only(disk)).wait())
    ended.failed_in_one_line(f"cannot be written: no permission to write into {disk}: choose another place")
    assert list(disk.iterdir()) == []


@any_verb
@processes
@pytest.mark.slow
def test_two_processes_at_once(shell: Shell, tmp_path: Path) -> None:
    """With one store. Whoever embeds a text first, both read the same vector."""
    folders = ("run", "other")
    for started in [shell.start(out=tmp_path / folder) for folder in folders]:
        ended = started.wait()
        assert ended.code == 0, ended.stderr
        assert ended.lines == []
    for folder in folders:
        shell.is_complete(tmp_path / folder)
    assert stored(shell.store) == shell.total
    assert_sound(shell.store)


@any_verb
@processes
@pytest.mark.slow
def test_two_processes_on_one_folder(shell: Shell) -> None:
    """The second is refused, names the first and changes nothing, though its own store would fail."""
    first = shell.start(before=_SLOWLY)
    wait_for(shell.store, 5)
    first.signal(signal.SIGSTOP)
    shell.start(store=shell.place).wait().failed_in_one_line("another process is writing", f"(process {first.pid}, ")
    first.signal(signal.SIGCONT)
    assert header_of(shell.run)["status"] == "running"
    ended = first.wait()
    assert ended.code == 0, ended.stderr
    shell.is_complete(shell.run)


@any_verb
@processes
@pytest.mark.slow
def test_fresh_and_killed_the_finished_log_is_there(shell: Shell, tmp_path: Path) -> None:
    """SIGKILL at three moments of a fresh run without a store, then to its end."""
    shell.goes_on()
    rng = random.Random(8)
    for number in range(3):
        store = tmp_path / f"fresh{number}.sqlite"
        started = shell.start(before=_SLOWLY, fresh=True, store=store)
        wait_for(store, rng.randrange(4 * shell.total // 5))
        started.signal(signal.SIGKILL)
        assert started.wait().code == -signal.SIGKILL, "it was over before it could be killed"
        log = read_log(shell.run)
        assert (log.status, log.newer != "") == ("complete", True)
        assert_same_bits(log.rows, shell.expected.rows)
    shell.goes_on(fresh=True, store=store)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on, and says that nothing keeps others out."""

    def refuse(self: Any) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr("filelock.FileLock._acquire", refuse)
    with pytest.warns(UserWarning, match="has no locks"), locked(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
