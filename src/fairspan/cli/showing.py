"""Results on stdout, for people or as JSON, and into files; notes on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.cli.options import Showing
from fairspan.errors import FairspanError
from fairspan.report.text import printable

if TYPE_CHECKING:
    from fairspan.report.result import Result
    from fairspan.runs.forecast import Forecast
    from fairspan.runs.log import RunLog


def put(text: str) -> None:
    """Print a line on stdout; a name in it may hold what a terminal would obey."""
    print(printable(text))


def say(text: str) -> None:
    """Print a line on stderr, beside the result."""
    print(printable(text), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print a result for programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def print_result(facts: Any, sentences: Iterable[str], *, as_json: bool) -> None:
    """Print a result in sentences, or its facts as JSON."""
    if as_json:
        print_json(facts)
    else:
        put("\n".join(sentences))


def require_picture(picture: Path | None) -> None:
    """Raise before anything is measured if the picture cannot be drawn or written."""
    if picture is not None:
        from fairspan.report.drawing import require_drawing

        require_drawing(picture)
        require_file(picture)


def show(result: Result, showing: Showing, ending: str = "") -> None:
    """Print a result, draw its picture, and print where that is."""
    from rich.console import Console

    from fairspan.report.terminal import print_view

    if showing.as_json:
        print_json(result.to_dict())
    else:
        print_view(Console(), result.view, ending=ending, verbose=showing.verbose)
    picture = showing.picture
    if picture is not None:
        from fairspan.report.drawing import figure_bytes
        from fairspan.report.files import write_file

        write_file(picture, figure_bytes(result.figure(), picture.suffix.lower().removeprefix(".")))
        say_where("picture", picture, as_json=showing.as_json)


def say_where(what: str, file: Path, *, as_json: bool) -> None:
    """Print where a file was written: on stderr if stdout holds JSON."""
    line = f"{what}: {file}"
    if as_json:
        say(line)
    else:
        put(line)


def require_folder(folder: Path, target: Path | None = None) -> None:
    """Raise before a model is loaded if the folder cannot be made or written into."""
    try:
        existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise FairspanError(f"{target or folder} cannot be written: {error.strerror}.") from None
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise FairspanError(
            f"{target or folder} cannot be written: "
            f"{existing} is no folder that you may write into."
        )


def require_file(file: Path) -> None:
    """Raise if the file cannot be written."""
    if file.is_dir():
        raise FairspanError(f"{file} cannot be written: it is a folder.")
    require_folder(file.parent, file)


def print_forecast(forecast: Forecast, *, as_json: bool) -> None:
    """Print one line per treatment or stage, the notes, and what is embedded or sent."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fairspan.report.terminal import print_line

    if as_json:
        print_json(forecast.to_dict())
        return
    console = Console()
    table = Table("")
    for heading in ("texts", forecast.unit):
        table.add_column(heading, justify="right")
    for stage in forecast.stages:
        name = Text(printable(stage.name))
        table.add_row(name, f"{stage.texts:,}", f"{stage.tokens:,}")
    console.print(table)
    for note in forecast.notes:
        print_line(console, f"note: {note}", style="yellow")
    for sentence in forecast.sentences:
        print_line(console, sentence)


def say_unfinished(logs: Sequence[RunLog]) -> None:
    """Warn on stderr of runs that are not complete."""
    for log in logs:
        if log.unfinished:
            say(f"note: {log.run}: {log.unfinished}")
