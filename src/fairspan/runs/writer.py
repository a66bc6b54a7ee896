"""`LogWriter`: writes the folder of a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.report.files import write_whole
from fairspan.runs.folder import HEADER, ROWS, writing
from fairspan.runs.header import Header, Timings, now, read_header


class LogWriter:
    """Writes a run's folder. Every write replaces a whole file, so a crash leaves the one before.

    A complete log is kept until its replacement is complete, and one that was interrupted until the
    replacement has rows.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        """Write the header, unless there is a log to keep."""
        self.folder = folder
        self.header = header
        before = read_header(folder) if (folder / HEADER).exists() else None
        self._waits = before is not None and before.complete
        self._keeps_rows = before is not None and before.rows > 0
        self._tables: list[pl.DataFrame] = []
        self._write_header()

    @property
    def rows(self) -> pl.DataFrame:
        return pl.concat(self._tables)

    def change(self, **entries: Any) -> None:
        """Replace entries of the header; they are written with the next rows, or at the end."""
        self.header = replace(self.header, **entries)

    def note(self, text: str) -> None:
        """Add a note to the header, once."""
        if text not in self.header.notes:
            self.change(notes=(*self.header.notes, text))

    def add(self, rows: pl.DataFrame) -> None:
        self._tables.append(rows)
        self._keeps_rows = False
        if not self._waits:
            self._write(ROWS, self.rows.write_parquet)
        self.change(rows=self.header.rows + len(rows))
        self._write_header()

    def finish(self, status: str, timings: Timings, error: str | None = None) -> None:
        self.change(status=status, finished=now(), error=error, timings=timings)
        if self._waits and status == "complete":
            self._write(ROWS, self.rows.write_parquet)
            self._waits = False
        self._write_header()

    def _write_header(self) -> None:
        if self._waits or self._keeps_rows:
            return
        text = json.dumps(self.header.to_json(), indent=2, ensure_ascii=False) + "\n"
        self._write(HEADER, lambda partial: partial.write_text(text, "utf-8"))

    def _write(self, name: str, write: Callable[[Path], Any]) -> None:
        with writing(self.folder):
            write_whole(self.folder / name, write)
