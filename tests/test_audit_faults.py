"""Audits on the command line that are killed, interrupted, starved of disk, or run beside one another."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer

from tests.tiny import tiny_model, words

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="forks, signals and mounts as Linux has them"),
]

ROOT = Path(__file__).parents[1]

# Two treatments of 60 segments and 60 documents in batches of one or two texts: some 180 transactions in 3 seconds.
SEGMENTS, SETS, SIZE = 60, 15, 4
OPTIONS = ["--sets", str(SETS), "--treatments", "none,paper", "--measures", "representation,retention"]
OPTIONS += ["--corpus", "corpus", "--batch-tokens", "500", "--json"]
# Per treatment a vector for each segment and document, and the contextual ones of each document.
STORED = 2 * (SEGMENTS + 2 * SETS * SIZE)

# A process that has imported everything forks one child for each command, which then runs the command line as it is:
# importing torch anew for each of some twenty commands would take minutes.
_DRIVER = """
import json, os, sys, traceback
import polars, scipy.stats, torch, sentence_transformers
import fairspan.studies.audit.run, fairspan.studies.audit.config, fairspan.studies.audit.forecast
import fairspan.report.figures, fairspan.report.terminal
from fairspan.cli import main
torch.set_num_threads(1)

def run(job):
    os.chdir(job["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in ((1, job["stdout"]), (2, job["stderr"])):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
    sys.argv = ["fairspan", *job["words"]]
    code = 0
    try:
        exec(job["before"], {})
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    exec(job["after"], {})
    sys.stdout.flush(); sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    job = json.loads(line)
    if "wait" in job:
        print(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if child == 0:
        run(job)
    print(child, flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What stderr holds beside progress: stages end in an ellipsis, and transformers counts the weights."""
        return [
            line
            for line in self.stderr.replace("\r", "\n").splitlines()
            if line.strip() and not line.endswith("…") and not line.startswith("Loading weights")
        ]

    def failed_in_one_line(self, *said: str, code: int = 2) -> None:
        assert self.code == code, self.stderr
        assert "Traceback" not in self.stderr
        assert len(self.lines) == 1, self.stderr
        assert self.lines[0].startswith("fairspan: ")
        for part in said:
            assert part in self.lines[0]


@dataclass(frozen=True)
class Started:
    """A command that runs."""

    commands: Commands
    pid: int
    stdout: Path
    stderr: Path

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        code = self.commands.ask({"wait": self.pid})
        return Ended(code, self.stdout.read_text(encoding="utf-8"), self.stderr.read_text(encoding="utf-8"))


class Commands:
    """Starts commands."""

    def __init__(self, process: subprocess.Popen[str], logs: Path) -> None:
        self.process, self.logs, self.count = process, logs, 0

    def ask(self, job: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, folder: Path, *words: str | Path, before: str = "", after: str = "") -> Started:
        self.count += 1
        out, err = self.logs / f"{self.count}.out", self.logs / f"{self.count}.err"
        out.touch()
        err.touch()
        job = {"folder": str(folder), "words": list(map(str, words)), "stdout": str(out), "stderr": str(err)}
        return Started(self, self.ask({**job, "before": before, "after": after}), out, err)


def environment() -> dict[str, str]:
    """Without the user's own store, and wide enough for a line to stay one line."""
    own = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "400", "FAIRSPAN_STORE": "/dev/null/store"}
    return {**os.environ, **own}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", _DRIVER], cwd=ROOT, env=environment(), text=True, **pipes)
    yield Commands(process, tmp_path_factory.mktemp("said"))
    process.communicate()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a corpus."""
    place = tmp_path_factory.mktemp("place")
    tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "mean").save_pretrained(str(place / "model"))
    (place / "corpus").mkdir()
    lines = [json.dumps({"id": f"s{n}", "text": words(40 + n % 30, n)}) for n in range(SEGMENTS)]
    (place / "corpus" / "en.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def undisturbed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """The rows of the same command with a store of its own, in a process of its own from its first line on."""
    folder = tmp_path_factory.mktemp("undisturbed")
    words = ["audit", "model", *OPTIONS, "--out", str(folder / "run"), "--store", str(folder / "store.sqlite")]
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", *words]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert stored(folder / "store.sqlite") == STORED
    return pl.read_parquet(folder / "run" / "rows.parquet")


def audit_words(folder: Path, *more: str, store: Path | None = None, out: Path | None = None) -> list[str]:
    own = ["--out", str(out or folder / "run"), "--store", str(store or folder / "store.sqlite")]
    return ["audit", "model", *OPTIONS, *own, *more]


def stored(store: Path) -> int:
    """How many vectors the store holds, as another process sees it; 0 before there is one."""
    if not store.exists():
        return 0
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        return int(opened.execute("SELECT count(*) FROM vectors").fetchone()[0])
    return 0


def assert_sound(store: Path) -> None:
    with closing(sqlite3.connect(store)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def wait_for(store: Path, count: int) -> None:
    end = time.monotonic() + 60
    while stored(store) < count:
        assert time.monotonic() < end, f"the store did not reach {count} vectors"
        time.sleep(0.001)


def header_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def assert_same_bits(run: Path, expected: pl.DataFrame) -> None:
    """Every column the same, and every value to its last bit."""
    assert header_of(run)["status"] == "complete"
    rows = pl.read_parquet(run / "rows.parquet")
    assert rows.drop("value").equals(expected.drop("value"))
    assert rows["value"].to_numpy().tobytes() == expected["value"].to_numpy().tobytes()


def assert_goes_on(commands: Commands, place: Path, folder: Path, expected: pl.DataFrame) -> dict[str, Any]:
    """The same command again is all that it takes; its timings."""
    ended = commands.start(place, *audit_words(folder)).wait()
    assert ended.code == 0, ended.stderr
    assert_same_bits(folder / "run", expected)
    return header_of(folder / "run")["timings"]


def test_killed_ten_times_it_ends_with_the_same_bits(
    commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path
) -> None:
    """SIGKILL once before anything is stored and nine times at random amounts, across both treatments; what is stored
    only grows. The last command computes what is left, and every value is that of a run that nobody disturbed."""
    rng = random.Random(3)
    store = tmp_path / "store.sqlite"
    amounts = [0, *sorted(rng.sample(range(1, STORED - 80), 9))]
    before = 0
    for amount in amounts:
        started = commands.start(place, *audit_words(tmp_path))
        wait_for(store, amount)
        time.sleep(rng.uniform(0, 0.02 if amount else 0.5))
        started.signal(signal.SIGKILL)
        assert started.wait().code == -signal.SIGKILL, "it was over before it could be killed"
        after = stored(store)
        assert after >= max(amount, before)
        before = after
        if (tmp_path / "run" / "run.json").exists():
            assert header_of(tmp_path / "run")["status"] == "running"
    assert_sound(store)
    timings = assert_goes_on(commands, place, tmp_path, undisturbed)
    assert timings["texts_computed"] + timings["texts_from_store"] == 2 * (SEGMENTS + SETS * SIZE)
    assert timings["texts_from_store"] > 0
    assert stored(store) == STORED


def test_interrupted_it_says_so_in_one_line(commands: Commands, place: Path, tmp_path: Path) -> None:
    started = commands.start(place, *audit_words(tmp_path))
    wait_for(tmp_path / "store.sqlite", 50)
    started.signal(signal.SIGINT)
    started.wait().failed_in_one_line("interrupted. What was computed is kept", code=130)


def test_interrupted_it_goes_on(commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path) -> None:
    started = commands.start(place, *audit_words(tmp_path))
    wait_for(tmp_path / "store.sqlite", 50)
    started.signal(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
    header = header_of(tmp_path / "run")
    assert header["status"] == "interrupted"
    done = header["timings"]["texts_computed"]
    assert done >= 50 / 2
    timings = assert_goes_on(commands, place, tmp_path, undisturbed)
    # The interrupt may have come between a batch's storing and its counting.
    assert 0 <= timings["texts_from_store"] - done <= 8


# Before the command: from its 30th forward pass on, the model fails.
FAILING = """
from sentence_transformers import SentenceTransformer
plain, count = SentenceTransformer.forward, [0]
def failing(self, *args, **options):
    count[0] += 1
    if count[0] >= 30:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\\nCompile with TORCH_USE_CUDA_DSA")
    return plain(self, *args, **options)
SentenceTransformer.forward = failing
"""


def test_a_model_that_fails_on_a_batch(
    commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path
) -> None:
    ended = commands.start(place, *audit_words(tmp_path), before=FAILING).wait()
    ended.failed_in_one_line("the model failed on a batch", "illegal memory access", "the same command goes on")
    assert ended.stdout == ""
    header = header_of(tmp_path / "run")
    assert header["status"] == "failed"
    assert ended.lines[0] == f"fairspan: {header['error']}"
    assert header["timings"]["texts_computed"] > 29
    timings = assert_goes_on(commands, place, tmp_path, undisturbed)
    assert timings["texts_from_store"] == header["timings"]["texts_computed"]


def test_weights_that_are_not_numbers(commands: Commands, place: Path, tmp_path: Path) -> None:
    """One word's embedding is NaN, which only some texts have: the others' vectors are kept."""
    model = SentenceTransformer(str(place / "model"), device="cpu")
    embeddings = model[0].model.embeddings.word_embeddings.weight
    with torch.no_grad():
        embeddings[model.tokenizer.convert_tokens_to_ids("w7")] = float("nan")
    model.save_pretrained(str(tmp_path / "model"))
    texts = [words(40 + n % 30, n) for n in range(SEGMENTS)]
    assert 0 < sum("w7" in text.split() for text in texts) < SEGMENTS, "the premise"
    own = ["--corpus", str(place / "corpus"), "--out", "run", "--store", "store.sqlite"]
    ended = commands.start(tmp_path, "audit", "model", *OPTIONS, *own, "--treatments", "none").wait()
    ended.failed_in_one_line("holds NaN or infinity, or is all zero", "check the weights")
    assert header_of(tmp_path / "run")["status"] == "failed"
    assert_sound(tmp_path / "store.sqlite")
    assert stored(tmp_path / "store.sqlite") > 0
    ended = commands.start(tmp_path, "audit", "model", *OPTIONS, *own, "--treatments", "paper", "--out", "two").wait()
    ended.failed_in_one_line("contains NaN")


# Before the command: a mount of its own, seen by this process alone and gone with it.
_MOUNT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_USER, READ_ONLY, REMOUNT, BIND, PRIVATE = 0x20000, 0x10000000, 1, 32, 4096, 0x4C000
if libc.unshare(NEW_MOUNTS | (NEW_USER if os.geteuid() else 0)) or libc.mount(b"none", b"/", None, PRIVATE, None):
    os._exit(77)
def mount(source, kind, flags, options):
    if libc.mount(source, {folder!r}, kind, flags, options):
        os._exit(77)
"""


def small_disk(folder: Path, size: str) -> str:
    folder.mkdir()
    code = _MOUNT.replace("{folder!r}", repr(bytes(folder)))
    return code + f"mount(b'none', b'tmpfs', 0, b'size={size}')\n"


def read_only(folder: Path) -> str:
    code = _MOUNT.replace("{folder!r}", repr(bytes(folder)))
    return code + f"mount({bytes(folder)!r}, None, BIND, None)\nmount(None, None, BIND | REMOUNT | READ_ONLY, None)\n"


def copied(folder: Path, to: Path) -> str:
    return f"import shutil; shutil.copytree({str(folder)!r}, {str(to)!r})\n"


def skip_if_refused(ended: Ended) -> Ended:
    if ended.code == 77:
        pytest.skip("this system gives a process no mounts of its own")
    return ended


def test_a_store_on_a_full_disk(commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path) -> None:
    """A disk of 100 KiB; the run needs about twice that. What was stored can be taken to a larger disk."""
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    words = audit_words(tmp_path, store=disk / "store.sqlite")
    started = commands.start(place, *words, before=small_disk(disk, "100k"), after=copied(disk, saved))
    ended = skip_if_refused(started.wait())
    ended.failed_in_one_line("is full: what was stored before is kept", "run the same command again")
    header = header_of(tmp_path / "run")
    assert header["status"] == "failed"
    kept = stored(saved / "store.sqlite")
    assert header["timings"]["texts_computed"] <= kept < STORED
    assert_sound(saved / "store.sqlite")
    (tmp_path / "store.sqlite").write_bytes((saved / "store.sqlite").read_bytes())
    for log in saved.glob("store.sqlite-wal"):
        (tmp_path / log.name).write_bytes(log.read_bytes())
    timings = assert_goes_on(commands, place, tmp_path, undisturbed)
    assert timings["texts_from_store"] >= header["timings"]["texts_computed"] > 0


def test_a_log_on_a_full_disk(commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path) -> None:
    """Room for run.json and not for the rows: every vector is in the store."""
    disk, saved = tmp_path / "disk", tmp_path / "saved"
    words = audit_words(tmp_path, out=disk / "run")
    started = commands.start(place, *words, before=small_disk(disk, "12k"), after=copied(disk, saved))
    skip_if_refused(started.wait()).failed_in_one_line("cannot be written", "make room or choose another with --out")
    # What the folder holds is whole, and nothing half-written lies beside it.
    assert header_of(saved / "run")["status"] in ("running", "failed")
    assert sorted(file.name for file in (saved / "run").iterdir()) == ["run.json"]
    timings = assert_goes_on(commands, place, tmp_path, undisturbed)
    assert timings["texts_from_store"] >= SEGMENTS + SETS * SIZE


@pytest.mark.parametrize("exists", [True, False], ids=["with a store", "empty"])
def test_a_store_that_may_not_be_written(
    commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path, exists: bool
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    words = audit_words(tmp_path, store=disk / "store.sqlite")
    if exists:
        started = commands.start(place, *words)
        wait_for(disk / "store.sqlite", 50)
        started.signal(signal.SIGKILL)
        started.wait()
    before = stored(disk / "store.sqlite")
    ended = skip_if_refused(commands.start(place, *words, before=read_only(disk)).wait())
    ended.failed_in_one_line(str(disk), "choose another file with --store")
    assert header_of(tmp_path / "run")["status"] == "failed"
    assert stored(disk / "store.sqlite") == before
    if exists:
        again = commands.start(place, *words).wait()
        assert again.code == 0, again.stderr
        assert_same_bits(tmp_path / "run", undisturbed)


def test_a_log_that_may_not_be_written(commands: Commands, place: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    words = audit_words(tmp_path, out=disk / "run")
    ended = skip_if_refused(commands.start(place, *words, before=read_only(disk)).wait())
    ended.failed_in_one_line("cannot be written (Read-only file system)")
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("folders", [("run", "other"), ("run", "run")], ids=["two folders", "one folder"])
def test_two_audits_at_once(
    commands: Commands, place: Path, undisturbed: pl.DataFrame, tmp_path: Path, folders: tuple[str, str]
) -> None:
    """With one store. Whoever embeds a text first, both read the same vector."""
    started = [commands.start(place, *audit_words(tmp_path, out=tmp_path / folder)) for folder in folders]
    for one in started:
        ended = one.wait()
        assert ended.code == 0, ended.stderr
        assert ended.lines == []
    for folder in folders:
        assert_same_bits(tmp_path / folder, undisturbed)
        assert sorted(file.name for file in (tmp_path / folder).iterdir()) == ["rows.parquet", "run.json"]
    assert stored(tmp_path / "store.sqlite") == STORED
    assert_sound(tmp_path / "store.sqlite")
