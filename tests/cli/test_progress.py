"""Progress on stderr: a bar in a terminal, lines elsewhere, and what is left of either."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from fairspan.cli.progress import TerminalProgress

Clocked = tuple[TerminalProgress, Callable[[float], None]]


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Clocked:
    """Progress, and what lets seconds pass for it."""
    clock = [100.0]
    monkeypatch.setattr("fairspan.cli.progress.time.monotonic", lambda: clock[0])
    progress = TerminalProgress()
    progress.bar.get_time = lambda: clock[0]  # type: ignore[method-assign]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    return progress, wait


def test_off_a_terminal_there_is_a_line_every_ten_seconds(
    clocked: Clocked, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many stages and batches there are."""
    progress, wait = clocked
    progress.stage("loading")
    progress.start(1000)
    for number in range(1, 9):
        wait(5)
        progress.stage(f"stage {number}")
        progress.advance(100)
    assert capsys.readouterr().err.splitlines() == [
        "loading …",
        "stage 2: 100 of 1,000 tokens, about 45 s left …",
        "stage 4: 300 of 1,000 tokens, about 35 s left …",
        "stage 6: 500 of 1,000 tokens, about 25 s left …",
        "stage 8: 700 of 1,000 tokens, about 15 s left …",
    ]


def test_progress_says_what_remains(clocked: Clocked) -> None:
    """A tenth of what was to do in five seconds leaves 45; less what was stored."""
    progress, wait = clocked
    progress.stage("embedding")
    assert progress.line == "embedding …"
    progress.start(1000)
    wait(5)
    progress.advance(100)
    assert progress.line == "embedding: 100 of 1,000 tokens, about 45 s left …"
    progress.advance(100, stored=True)
    assert progress.line == "embedding: 100 of 900 tokens, about 40 s left …"
    progress.say("4,096 rows, 2,000 tokens/s")
    assert progress.line == "embedding: 4,096 rows, 2,000 tokens/s, 11 % done, about 40 s left …"
    progress.stop()
    progress.stage("statistics")
    assert progress.line == "statistics …"


RUN = """
import sys, time
from fairspan.cli.progress import running
with running() as progress:
    progress.stage("embedding")
    progress.start(1000)
    progress.advance(10)
    time.sleep(0.3)
    print("ready", flush=True)
    if sys.argv[1] == "fails":
        raise ValueError("a reason")
    time.sleep(60)
"""
HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("waits", 130, "fairspan: interrupted. What was computed is kept"),
        ("fails", 1, "ValueError: a reason"),
    ],
)
def test_the_bar_stops_and_the_cursor_comes_back(how: str, code: int, said: str) -> None:
    """In a terminal of its own, after Ctrl-C and after an error."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-c", RUN, how]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, env=environment)
    os.close(end)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if how == "waits":
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == code
    process.stdout.close()
    written = os.read(terminal, 100_000).decode()
    os.close(terminal)
    before, _, after = written.rpartition(HIDDEN)
    assert "embedding" in after, before
    assert said in after.partition(SHOWN)[2]
