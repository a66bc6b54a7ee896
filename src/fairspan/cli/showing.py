"""Results on stdout, for people or as JSON, and into files; progress on stderr, with the time left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer
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
from rich.table import Table

from fairspan.cli.options import print_json
from fairspan.errors import FairspanError
from fairspan.model.source import DEFAULT_MODEL
from fairspan.report.result import Result
from fairspan.report.text import duration
from fairspan.runs.progress import Progress as AnyProgress

if TYPE_CHECKING:
    from fairspan.encoding.encoder import AnyModel
    from fairspan.runs.forecast import Forecast
    from fairspan.runs.log import RunLog

LINE_SECONDS = 30
"""Between two lines of progress where there is no terminal."""


def show(
    result: Result, *, as_json: bool, picture: Path | None, ending: str = "", verbose: bool = False
) -> None:
    """Print a result, draw its picture, and print where that is."""
    from fairspan.report.terminal import print_view

    if as_json:
        print_json(result.to_dict())
    else:
        print_view(Console(), result.view, ending=ending, verbose=verbose)
    if picture is not None:
        from fairspan.report.files import write_file
        from fairspan.report.style import figure_bytes

        write_file(picture, figure_bytes(result.figure(), picture.suffix.lower().removeprefix(".")))
        typer.echo(f"picture: {picture}", err=as_json)


def require_folder(folder: Path, target: Path | None = None) -> None:
    """Raise before a model is loaded if no folder can be made there, or nothing be written into it."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise FairspanError(f"{target or folder} cannot be written: {error.strerror}.") from None
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise FairspanError(
            f"{target or folder} cannot be written: {there} is no folder that you may write into."
        )


def require_file(file: Path) -> None:
    """Raise if no file can be written there."""
    if file.is_dir():
        raise FairspanError(f"{file} cannot be written: it is a folder.")
    require_folder(file.parent, file)


def print_forecast(found: Forecast) -> None:
    """What a run would do: one line per treatment or stage, the notes, and how long it takes or what is sent."""
    console, table = Console(), Table()
    first, *others = (name for name in found.rows[0] if found.sending is None or name != "seconds")
    table.add_column("")
    for name in others:
        table.add_column(
            "time" if name == "seconds" else found.unit if name == "tokens" else name,
            justify="right",
        )
    for row in found.rows:
        cells = [
            duration(row[name]) if name == "seconds" else _counted(row[name]) for name in others
        ]
        table.add_row(row[first], *cells)
    console.print(table)
    for note in found.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    console.print(found.sentence, soft_wrap=True)
    if found.sending:
        console.print(found.sending.words, soft_wrap=True)


def _counted(value: float | str | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def say_unfinished(logs: Sequence[RunLog]) -> None:
    """Warn on stderr of runs that are not complete."""
    for log in logs:
        if log.unfinished:
            typer.echo(f"note: {log.run}: {log.unfinished}", err=True)


class TerminalProgress(AnyProgress):
    """A bar if stderr is a terminal; if it is a file or a pipe, a line per stage and every 30 s how far it is."""

    def __init__(self) -> None:
        self._stage, self._found = "", ""
        self._over = Event()
        self.console = Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
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
        if name == self._stage:
            return
        self._stage = name
        if self._task is not None and self.console.is_terminal:
            self._task.description = name
        else:
            self.console.print(f"{name} …", style="dim", highlight=False)

    def start(self, total: int) -> None:
        """Counted work begins; a total of 0 is not known."""
        self._clear()
        self._bar.add_task(self._stage or "encoding", total=total or None)
        self._bar.start()

    def advance(self, amount: float) -> None:
        if self._task is not None:
            self._bar.advance(self._task.id, amount)

    def reach(self, file: Path, done: int, found: str) -> None:
        """So many bytes of a file are read, and what was found in them."""
        if f"reading {file.name}" != self._stage:
            self.stop()
            self.stage(f"reading {file.name}")
            self.start(file.stat().st_size)
        self.advance(done - int(self._task.completed if self._task else 0))
        self.say(found)

    def say(self, found: str) -> None:
        self._found = found
        if self._task is not None:
            self._task.description = f"{self._stage}: {found}"

    def stop(self) -> None:
        self._bar.stop()
        self._clear()

    def _clear(self) -> None:
        for task in self._bar.task_ids:
            self._bar.remove_task(task)

    def print_lines(self) -> None:
        """Until `end`, print every 30 s what is done and what remains. Not for a terminal, which has its bar."""
        while not self._over.wait(LINE_SECONDS):
            self.console.print(self.line, style="dim", highlight=False, soft_wrap=True)

    @property
    def line(self) -> str:
        """Such as "paper: 1,200 of 3,600 tokens, about 4 min left …" or "embedding: 81,920 rows, 31 % done …"."""
        task = self._task
        if task is None or not task.completed:
            return f"{self._stage} …"
        share = f", {task.percentage:.0f} % done" if task.total else ""
        tokens = f"{task.completed:,.0f} of {task.total or 0:,.0f} tokens"
        left = (
            "" if task.time_remaining is None else f", about {duration(task.time_remaining)} left"
        )
        return f"{self._stage}: {f'{self._found}{share}' if self._found else tokens}{left} …"

    def end(self) -> None:
        self._over.set()


def say_loading(progress: TerminalProgress, model: AnyModel) -> None:
    """Say what is loaded before the import of what loads it, which takes many seconds."""
    remote = model is not None and not isinstance(model, str)
    progress.stage("preparing the requests" if remote else f"loading {model or DEFAULT_MODEL}")
    import transformers

    # transformers' own bar for reading a local file says nothing that "loading" does not.
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def running(picture: Path | None, *, kept: bool = True) -> Iterator[TerminalProgress]:
    """Progress of a study that draws a picture, if one is wanted, and whose vectors are kept if it is interrupted."""
    from fairspan.report.style import require_drawing

    progress = TerminalProgress()
    progress.stage("checking the command")
    if picture is not None:
        require_drawing(picture)
        require_file(picture)
    if not progress.console.is_terminal:
        Thread(target=progress.print_lines, daemon=True).start()
    try:
        yield progress
    except KeyboardInterrupt:
        # Typer would end without a message.
        advice = (
            " What was computed is kept: the same command continues from there." if kept else ""
        )
        typer.echo(f"fairspan: interrupted.{advice}", err=True)
        raise typer.Exit(130) from None
    finally:
        progress.end()
