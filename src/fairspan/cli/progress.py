"""Progress of a command on stderr, with the time left, and how it ends if it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from fairspan.cli.showing import require_file, say
from fairspan.model.source import DEFAULT_MODEL
from fairspan.report.text import duration, printable
from fairspan.runs.progress import LINE_SECONDS
from fairspan.runs.progress import Progress as AnyProgress

if TYPE_CHECKING:
    from fairspan.encoding.encoder import AnyModel


class _Left(ProgressColumn):
    """The time that remains."""

    def render(self, task: Task) -> Text:
        left = _seconds_left(task)
        return Text("" if left is None else f"{duration(left)} left")


def _seconds_left(task: Task) -> float | None:
    """By the speed so far, without what was stored; None if nothing was done yet."""
    worked: float = task.completed - task.fields["stored"]
    if not worked or task.total is None:
        return None
    return max(0.0, task.total - task.completed) * (task.elapsed or 0.0) / worked


class TerminalProgress(AnyProgress):
    """A bar if stderr is a terminal; in a file or a pipe at most one line every ten seconds.

    After ten seconds of counted work one line says how long all of it takes.
    """

    def __init__(self) -> None:
        """A bar that `start` begins."""
        self._stage = ""
        self._result = ""
        self._printed = -float(LINE_SECONDS)
        self._forecast_due = True
        self.over = Event()
        self.console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            _Left(),
            console=self.console,
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
        if self._task is not None:
            self._task.description = name
        elif self.console.is_terminal:
            self._print(f"{name} …")
        else:
            self._print_if_due(f"{name} …")

    def start(self, total: int) -> None:
        self._clear()
        self._bar.add_task(self._stage or "encoding", total=total or None, stored=0.0)
        self._bar.start()

    def advance(self, amount: float, stored: bool = False) -> None:
        if self._task is not None:
            self._task.fields["stored"] += amount * stored
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

    def note(self, line: str) -> None:
        self._print(f"{printable(line)} …")

    def stop(self) -> None:
        self._bar.stop()
        self._clear()

    def _clear(self) -> None:
        for task in self._bar.task_ids:
            self._bar.remove_task(task)

    def print_lines(self) -> None:
        """Until the command ends, print the forecast once, and what is done if there is no bar."""
        while not self.over.wait(1):
            forecast = self.forecast
            if forecast is not None and self._print_if_due(forecast):
                self._forecast_due = False
            elif not self.console.is_terminal:
                self._print_if_due(self.line)

    def _print_if_due(self, line: str) -> bool:
        """Print a line if the last one is old enough, and say whether it was."""
        due = time.monotonic() - self._printed >= LINE_SECONDS
        if due:
            self._print(line)
        return due

    def _print(self, line: str) -> None:
        self._printed = time.monotonic()
        self.console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    @property
    def forecast(self) -> str | None:
        """Such as "3,600 tokens take about 6 min by the speed so far …"; None if it is not due."""
        task = self._task
        left = None if task is None else _seconds_left(task)
        if not self._forecast_due or task is None or left is None:
            return None
        elapsed = task.elapsed or 0.0
        if min(elapsed, left) < LINE_SECONDS:
            return None
        work = f"{self._stage} takes" if self._result else f"{task.total:,.0f} tokens take"
        return f"{work} about {duration(elapsed + left)} by the speed so far …"

    @property
    def line(self) -> str:
        """Such as "paper: 1,200 of 3,600 tokens, about 4 min left …"."""
        task = self._task
        if task is None or not task.completed:
            return f"{self._stage} …"
        done = f"{task.completed:,.0f} of {max(task.total or 0, task.completed):,.0f} tokens"
        if self._result:
            share = f", {task.percentage:.0f} % done" if task.total else ""
            done = f"{self._result}{share}"
        left = _seconds_left(task)
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
    if progress.console.is_terminal:
        progress.stage("checking the command")
    if picture is not None:
        from fairspan.report.drawing import require_drawing

        require_drawing(picture)
        require_file(picture)
    Thread(target=progress.print_lines, daemon=True).start()
    try:
        yield progress
    except KeyboardInterrupt:
        advice = " What was computed is kept: the same command continues from there."
        say(f"fairspan: interrupted.{advice if kept else ''}")
        raise SystemExit(130) from None
    finally:
        progress.over.set()
