"""Progress of a command on stderr, with the time left, and how it ends if it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from fairspan.cli.showing import say
from fairspan.model.source import DEFAULT_MODEL
from fairspan.report.text import duration, printable
from fairspan.runs.progress import LINE_SECONDS, Progress

if TYPE_CHECKING:
    from fairspan.encoding.encoder import AnyModel

# Seconds over which speed is measured: a batch of long texts can take a minute.
_PERIOD = 600


class TerminalProgress(Progress):
    """rich's bar if stderr is a terminal; in a file or a pipe at most one line every ten seconds.

    What was stored before is not counted, since it says nothing about speed.
    """

    def __init__(self) -> None:
        """A bar of one task, which is shown while `bar` is entered."""
        self.console = Console(stderr=True)
        self.bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            redirect_stdout=False,
            speed_estimate_period=_PERIOD,
            disable=not self.console.is_terminal,
        )
        self._id = self.bar.add_task("starting", total=None)
        self._stage = ""
        self._result = ""
        self._printed = -float(LINE_SECONDS)

    @property
    def _task(self) -> Task:
        return self.bar.tasks[0]

    def stage(self, name: str) -> None:
        if printable(name) != self._stage:
            self._stage = printable(name)
            self.say("")

    def start(self, total: int) -> None:
        self.bar.reset(self._id, total=total or None)
        self.advance(0)  # speed is counted from here

    def advance(self, amount: float, stored: bool = False) -> None:
        if not stored:
            self.bar.advance(self._id, amount)
        elif self._task.total is not None:
            self._task.total -= amount
        self._print_if_due()

    def say(self, result: str) -> None:
        self._result = result
        self.bar.update(self._id, description=f"{self._stage}: {result}" if result else self._stage)
        self._print_if_due()

    def note(self, line: str) -> None:
        self._print(f"{printable(line)} …")

    def stop(self) -> None:
        self.bar.reset(self._id, total=None)

    def _print_if_due(self) -> None:
        """Where there is no bar, print a line if the last one is old enough."""
        if self.bar.disable and time.monotonic() - self._printed >= LINE_SECONDS:
            self._printed = time.monotonic()
            self._print(self.line)

    def _print(self, line: str) -> None:
        self.console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)

    @property
    def line(self) -> str:
        """Such as "paper: 1,200 of 3,600 tokens, about 4 min left …"."""
        task = self._task
        if not task.completed:
            return f"{self._stage} …"
        parts = [f"{task.completed:,.0f} of {max(task.total or 0, task.completed):,.0f} tokens"]
        if self._result:
            parts = [self._result]
            if task.total:
                parts.append(f"{task.percentage:.0f} % done")
        if task.time_remaining is not None:
            parts.append(f"about {duration(task.time_remaining)} left")
        return f"{self._stage}: {', '.join(parts)} …"


def say_loading(progress: TerminalProgress, model: AnyModel) -> None:
    """Say what is loaded before the import of what loads it, which takes many seconds."""
    remote = model is not None and not isinstance(model, str)
    progress.stage("preparing the requests" if remote else f"loading {model or DEFAULT_MODEL}")
    import transformers

    # transformers' own bar for reading a local file says nothing that "loading" does not.
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def running(*, kept: bool = True) -> Iterator[TerminalProgress]:
    """Progress of a command, whose bar goes away however the command ends.

    An interrupted command can be continued where its results are `kept`.
    """
    progress = TerminalProgress()
    try:
        with progress.bar:
            yield progress
    except KeyboardInterrupt:
        advice = " What was computed is kept: the same command continues from there."
        say(f"fairspan: interrupted.{advice if kept else ''}")
        raise SystemExit(130) from None
