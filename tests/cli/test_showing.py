"""Output is UTF-8 whatever the encoding of the terminal, and no verb ends in a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.builders.commands import ROOT, Run
from tests.builders.tiny import words

# A view with every kind of chart and table, under names that are markup and Chinese, in the
# terminal and as an error.
SHOWN = """
import sys
from rich.console import Console
from fairspan.cli import write_utf8
from fairspan.report.terminal import print_view
from tests.report.example import view
write_utf8()
for hostile in (False, True):
    print_view(Console(width=100), view(hostile=hostile), ending="log: a/b …")
print("β2 = −0.04 … 校准")
print("fairspan: ± …", file=sys.stderr)
"""


def test_everything_that_is_shown_in_a_terminal() -> None:
    """One that is not in UTF-8, and has no letter for most of this."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "PYTHONPATH": path}
    command = [sys.executable, "-c", SHOWN]
    done = subprocess.run(command, capture_output=True, env={**os.environ, **settings})
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[-1] == "β2 = −0.04 … 校准"
    assert done.stderr.decode().strip() == "fairspan: ± …"


def test_names_of_files_are_shown_and_not_obeyed(save_tiny: Callable[[], Path], run: Run) -> None:
    """Neither by a terminal, nor as rich's markup, in notes, forecasts, progress and errors."""
    name = "[red] \x1b[31m\x9b2J.txt"
    shown = "[red] \ufffd[31m\ufffd2J.txt"
    folder = Path("\x1b]0;[bold]")
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.md").write_text(words(30, number))
    (folder / name).write_bytes(b"\xff")
    model = save_tiny()
    forecast = run("audit", model, "--corpus", folder, "--dry-run", "--sizes", "3").ok
    failed = run("audit", model, "--corpus", folder / name)
    failed.is_one_line(f"{shown}: not UTF-8. Save the file as UTF-8.")
    assert f"left out: {shown}: not UTF-8" in forecast.out
    for done in (forecast, failed, run("embed", model, folder, "out").ok):
        assert not {"\x1b", "\x9b"} & {*done.out, *done.err}
