"""Progress of a command on stderr, with the time left, and how it ends if it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fairspan.cli.showing import require_file, say
from fairspan.model.source import DEFAULT_MODEL
from fairspan.report.text import duration, printable
from fairspan.runs.progress import Progress as AnyProgress

if TYPE_CHECKING:
    from fairspan.encoding.encoder import AnyModel

LINE_SECONDS = 30
"""Between two lines of progress where there is no terminal."""


class TerminalProgress(AnyProgress):
    """A bar if stderr is a terminal; in a file or a pipe one line per stage, and one every 30 s."""

    def __init__(self) -> None:
        """A bar that `start` begins."""
        self._stage = ""
        self._result = ""
        self.over = Event()
        self.console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            speed_estimate_period=120,
            transient=True,
            disable=not self.console.is_terminal,
        )

    @property
    def _task(self) -> Task | None:
        """The counted work that is under way."""
        return next(iter(self._bar.tasks), None)

    def stage(self, name: str) -> None:
        """Show what begins, beside the bar or in a line."""
        name = printable(name)
        if name == self._stage:
            return
        self._stage = name
        if self._task is not None and self.console.is_terminal:
            self._task.description = name
        else:
            self._print(f"{name} …")

    def start(self, total: int) -> None:
        self._clear()
        self._bar.add_task(self._stage or "encoding", total=total or None)
        self._bar.start()

    def advance(self, amount: float) -> None:
        if self._task is not None:
            self._bar.advance(self._task.id, amount)

    def reach(self, file: Path, done: int, result: str) -> None:
        """Report how many bytes of a file are read, and what came out of them."""
        stage = printable(f"reading {file.name}")
        if stage != self._stage:
            self.stop()
            self.stage(stage)
            self.start(file.stat().st_size)
        self.advance(done - int(self._task.completed if self._task else 0))
        self.say(result)

    def say(self, result: str) -> None:
        self._result = result
        if self._task is not None:
            self._task.description = f"{self._stage}: {result}"

    def stop(self) -> None:
        self._bar.stop()
        self._clear()

    def _clear(self) -> None:
        for task in self._bar.task_ids:
            self._bar.remove_task(task)

    def print_lines(self) -> None:
        """Until the command ends, print every 30 s what is done and what remains."""
        while not self.over.wait(LINE_SECONDS):
            self._print(self.line)

    def _print(self, line: str) -> None:
        self.console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    @property
    def line(self) -> str:
        """Such as "paper: 1,200 of 3,600 tokens, about 4 min left …"."""
        task = self._task
        if task is None or not task.completed:
            return f"{self._stage} …"
        done = f"{task.completed:,.0f} of {task.total or 0:,.0f} tokens"
        if self._result:
            share = f", {task.percentage:.0f} % done" if task.total else ""
            done = f"{self._result}{share}"
        left = task.time_remaining
        return f"{self._stage}: {done}{'' if left is None else f', about {duration(left)} left'} …"


def say_loading(progress: TerminalProgress, model: AnyModel) -> None:
    """Say what is loaded before the import of what loads it, which takes many seconds."""
    remote = model is not None and not isinstance(model, str)
    progress.stage("preparing the requests" if remote else f"loading {model or DEFAULT_MODEL}")
    import transformers

    # transformers' own bar for reading a local file says nothing that "loading" does not.
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def running(picture: Path | None = None, *, kept: bool = True) -> Iterator[TerminalProgress]:
    """Progress of a command, after a check that `picture` can be drawn.

    An interrupted command can be continued where its results are `kept`.
    """
    progress = TerminalProgress()
    progress.stage("checking the command")
    if picture is not None:
        from fairspan.report.style import require_drawing

        require_drawing(picture)
        require_file(picture)
    if not progress.console.is_terminal:
        Thread(target=progress.print_lines, daemon=True).start()
    try:
        yield progress
    except KeyboardInterrupt:
        advice = " What was computed is kept: the same command continues from there."
        say(f"fairspan: interrupted.{advice if kept else ''}")
        raise SystemExit(130) from None
    finally:
        progress.over.set()
