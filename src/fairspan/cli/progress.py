"""Progress on stderr, with the time left."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
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

INTERRUPTED = "fairspan: interrupted."
KEPT = " What was computed is kept: the same command continues from there."


class TerminalProgress:
    """A bar if stderr is a terminal, one line per stage if it is a file or a pipe."""

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


@contextmanager
def running(*, kept: bool = True) -> Iterator[TerminalProgress]:
    """Progress of a study.

    Args:
        kept: whether what was computed is kept when it is interrupted.
    """
    import transformers

    # transformers' own bar for reading a local file says nothing that "loading" does not.
    transformers.utils.logging.disable_progress_bar()
    try:
        yield TerminalProgress()
    except KeyboardInterrupt:
        # Typer would end without a message.
        typer.echo(INTERRUPTED + (KEPT if kept else ""), err=True)
        raise typer.Exit(130) from None
