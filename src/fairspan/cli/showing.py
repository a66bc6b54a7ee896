"""Results on stdout: for people or as JSON, and into a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fairspan.cli.options import print_json
from fairspan.report.result import Result

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog


def show(result: Result, *, as_json: bool, picture: Path | None = None, ending: str = "") -> None:
    """Print a result, and draw the picture that stands for it."""
    from rich.console import Console

    from fairspan.report.terminal import print_view

    if as_json:
        print_json(result.to_dict())
    else:
        print_view(Console(), result.view, ending=ending)
    if picture is not None:
        save_picture(result, picture, as_json=as_json)


def save_picture(result: Result, picture: Path, *, as_json: bool) -> None:
    """Draw the picture that stands for a result, and say where it is."""
    from fairspan.report.figure import figure_bytes
    from fairspan.report.files import write_file

    write_file(picture, figure_bytes(result.figure(), picture.suffix.lower().removeprefix(".")))
    typer.echo(f"picture: {picture}", err=as_json)


def say_unfinished(logs: Sequence[RunLog]) -> None:
    """Warn on stderr of runs that are not complete."""
    for log in logs:
        if log.unfinished:
            typer.echo(f"note: {log.run}: {log.unfinished}", err=True)
