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
        from fairspan.report.style import require_drawing

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
        from fairspan.report.files import write_file
        from fairspan.report.style import figure_bytes

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
    """Print one line per treatment or stage, the notes, and how long it takes or what is sent."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from fairspan.report.terminal import print_line

    if as_json:
        print_json(forecast.to_dict())
        return
    console = Console()
    table = Table("")
    names = [name for name in forecast.rows[0] if forecast.sending is None or name != "seconds"]
    headings = {"seconds": "time", "tokens": forecast.unit}
    for name in names[1:]:
        table.add_column(headings.get(name, name), justify="right")
    for row in forecast.rows:
        first = Text(printable(row[names[0]]))
        table.add_row(first, *(_cell(name, row[name]) for name in names[1:]))
    console.print(table)
    for note in forecast.notes:
        print_line(console, f"note: {note}", style="yellow")
    print_line(console, forecast.sentence)
    if forecast.sending:
        print_line(console, forecast.sending.words)


def _cell(name: str, value: Any) -> str:
    """A number of a forecast in words."""
    from fairspan.report.text import duration

    if name == "seconds":
        return duration(value)
    if value is None:
        return "any length" if name == "reads" else "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def say_unfinished(logs: Sequence[RunLog]) -> None:
    """Warn on stderr of runs that are not complete."""
    for log in logs:
        if log.unfinished:
            say(f"note: {log.run}: {log.unfinished}")
