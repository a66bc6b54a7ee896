"""Progress on stderr, with the time left."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class TerminalProgress:
    """A bar where stderr is a terminal, one line a stage where it is a file or a pipe."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None

    def stage(self, name: str) -> None:
        if self._task is not None and self._console.is_terminal:
            self._bar.update(self._task, description=name)
        else:
            self._console.print(f"{name} …", style="dim", highlight=False)

    def start(self, total: int) -> None:
        self._task = self._bar.add_task("encoding", total=total)
        self._bar.start()

    def advance(self, amount: int) -> None:
        if self._task is not None:
            self._bar.advance(self._task, amount)

    def stop(self) -> None:
        self._bar.stop()
        self._task = None
