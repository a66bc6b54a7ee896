"""The command line: in this process, and in processes that can be killed or starved."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from fairspan.cli import app

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """How a command in this process ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.err.strip().splitlines()[-1]

    @property
    def ok(self) -> Said:
        assert self.code == 0, self.err
        return self

    def is_one_line(self, said: str) -> None:
        """A user's mistake: exit code 2, nothing on stdout, one line on stderr after what may be
        progress."""
        assert self.code == 2, self.err
        assert self.out == ""
        assert self.last.startswith("fairspan: ")
        assert said in self.last
        assert self.err.count("fairspan: ") == 1
        assert "Traceback" not in self.err


Run = Callable[..., Said]


def options_of(verb: str) -> set[str]:
    """The names in Python of all options and arguments of a command."""
    options = app[verb].assemble_argument_collection()
    return {option.field_info.name for option in options if option.names}


def example_lines(text: str) -> list[str]:
    """The commands in a help text."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("fairspan ")]


def forbid_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: Any, **options: Any) -> Any:
        raise AssertionError("nothing was to be embedded")

    for name in ("encode", "encode_document", "encode_query", "forward"):
        monkeypatch.setattr(SentenceTransformer, name, forbidden)


# A process that has imported everything forks one child for each command, which then runs the
# command line as it is: importing torch anew for each of some forty commands would take minutes.
_DRIVER = """
import json, os, sys, traceback
import polars, scipy.stats, torch, sentence_transformers
from fairspan import audit, collapse, evaluate, tune
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
    """How a command in a process of its own ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What stderr holds beside progress: stages end in an ellipsis, and transformers counts the
        weights."""
        return [
            line
            for line in self.stderr.replace("\r", "\n").splitlines()
            if line.strip() and not line.endswith("…") and not line.startswith("Loading weights")
        ]


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
        return Ended(code, self.stdout.read_text("utf-8"), self.stderr.read_text("utf-8"))


class Commands:
    """Starts commands in processes of their own."""

    def __init__(self, logs: Path) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        # Without the user's own store, and wide enough for a line to stay one line.
        own = {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "400",
            "FAIRSPAN_STORE": "/dev/null/store",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER], cwd=ROOT, env={**os.environ, **own}, **pipes
        )
        self.logs, self.count = logs, 0

    def ask(self, job: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, folder: Path, *words: str | Path, before: str = "") -> Started:
        """Run `fairspan` with these words in the folder, after some code of the test."""
        self.count += 1
        out, err = self.logs / f"{self.count}.out", self.logs / f"{self.count}.err"
        out.touch()
        err.touch()
        job = {"folder": str(folder), "words": list(map(str, words)), "before": before}
        return Started(self, self.ask({**job, "stdout": str(out), "stderr": str(err)}), out, err)


def stored(store: Path) -> int:
    """How many vectors the store holds, as another process sees it; 0 before there is one."""
    if not store.exists():
        return 0
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened,
    ):
        return int(opened.execute("SELECT count(*) FROM vectors").fetchone()[0])
    return 0


def header_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def files_in(run: Path) -> list[str]:
    """What a run left in its folder, beside the lock that every writer leaves there and what a
    tuning adds."""
    return sorted(
        file.name
        for file in run.iterdir()
        if file.name not in (".lock", "calibration.json", "tune.html")
    )
