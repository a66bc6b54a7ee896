"""Files: written under another name and renamed, so that a full disk leaves the old one whole."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairspan.errors import FairspanError
from fairspan.report.drawing import draw, figure_bytes, require_drawing
from fairspan.report.frames import to_csv
from fairspan.report.table import Table
from fairspan.report.view import View


def write_whole(file: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside and rename it, so that it is there as a whole or not at all."""
    # The process's number keeps two writers from sharing a half-written file.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def write_file(file: Path, content: bytes | str) -> Path:
    """Write a whole file or nothing, with the reason in one line if that fails."""
    # A name may hold half of a surrogate pair, which JSON can encode and UTF-8 cannot.
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    try:
        write_whole(file, lambda partial: partial.write_bytes(data))
    except OSError as error:
        raise FairspanError(f"{file} cannot be written: {error.strerror}.") from None
    return file


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """A CSV file for each table, named after it, with all digits."""
    return [
        write_file(
            folder / f"{name}.csv", to_csv(table.frame if table.tidy is None else table.tidy)
        )
        for name, table in zip(file_names([table.name for table in tables]), tables, strict=True)
    ]


def write_figures(view: View, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Draw every chart of a run in every format, named after the chart."""
    kinds = require_figures(formats)
    charts = list(view.charts())
    written = []
    for name, chart in zip(file_names([chart.name for chart in charts]), charts, strict=True):
        figure = draw(chart)
        written += [
            write_file(folder / f"{name}.{kind}", figure_bytes(figure, kind)) for kind in kinds
        ]
    return written


def require_figures(formats: Sequence[str]) -> list[str]:
    """The formats without dots; raise at once if figures could not be drawn in them later on."""
    kinds = [kind.removeprefix(".").lower() for kind in formats]
    for kind in kinds:
        require_drawing(Path(f"figure.{kind}"))
    return kinds


def file_names(names: Sequence[str]) -> list[str]:
    """Names that any file system takes, all different even where case is ignored."""
    chosen: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9+=._-]+", "-", name).strip("-.")[:120] or "table"
        candidate = plain
        count = 1
        while candidate.lower() in {other.lower() for other in chosen}:
            count += 1
            candidate = f"{plain}-{count}"
        chosen.append(candidate)
    return chosen
