"""`RunLog`: one folder a run, with `run.json` (what was done, how far) and `rows.parquet` (every raw value)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.errors import LogError

FORMAT = 1
HEADER, ROWS = "run.json", "rows.parquet"
STATES = ("running", "complete", "failed", "interrupted")
_LIBRARIES = ("fairspan", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "scipy", "polars")


@dataclass(frozen=True, slots=True)
class RunLog:
    """What a run left on disk.

    Attributes:
        folder: where it lies.
        header: `run.json`: format, verb, run, status, spec, seeds, versions, model, corpus, timings, notes.
        rows: one measured value a row; see `fairspan.runs.rows.SCHEMA`.
    """

    folder: Path
    header: Mapping[str, Any]
    rows: pl.DataFrame

    @property
    def run(self) -> str:
        return str(self.header["run"])

    @property
    def status(self) -> str:
        return str(self.header["status"])

    @property
    def spec(self) -> Mapping[str, Any]:
        return dict(self.header["spec"])

    @property
    def model(self) -> str:
        return str(self.header["model"]["name"])

    @property
    def treatments(self) -> list[str]:
        return [str(treatment["name"]) for treatment in self.spec["treatments"]]

    @property
    def notes(self) -> list[str]:
        return [str(note) for note in self.header["notes"]]


def read_log(folder: Path | str) -> RunLog:
    """Read the log of one run: its folder, or the run.json in it."""
    folder = Path(folder)
    folder = folder.parent if folder.name == HEADER else folder
    header = read_header(folder)
    return RunLog(folder, header, _read_rows(folder / ROWS, header))


def read_header(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    file = folder / HEADER
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LogError(f"{folder} is not the folder of a run: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise LogError(f"{file} cannot be read ({error}): choose another folder, or remove this one.") from None
    written = header.get("format") if isinstance(header, dict) else None
    if written != FORMAT:
        raise LogError(f"{file} has format {written!r}, and this fairspan reads format {FORMAT}.")
    return dict(header)


def _read_rows(file: Path, header: Mapping[str, Any]) -> pl.DataFrame:
    count = header.get("rows", 0)
    if not file.exists() or not count:
        raise LogError(f"the run {file.parent} is {header.get('status')} and has no rows yet: run its command again.")
    try:
        rows = pl.read_parquet(file, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise LogError(f"{file} cannot be read: {str(error).splitlines()[0]}.") from None
    if len(rows) < count:
        raise LogError(
            f"{file} holds {len(rows)} of {count} rows, so something else wrote it: run the command again."
        )
    # A crash between the two files leaves rows that the header does not know of yet.
    return rows.head(count)


class LogWriter:
    """Writes a run's folder. Every write replaces a whole file at once, so a crash leaves the one before."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self._rows: list[pl.DataFrame] = []
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "status": "running",
            "started": _now(),
            "finished": None,
            "error": None,
            "versions": {"python": platform.python_version(), **library_versions()},
            "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
            "rows": 0,
            "timings": {},
            "notes": [],
            **header,
        }
        _guard(lambda: folder.mkdir(parents=True, exist_ok=True), folder)
        self._write_header()

    @property
    def rows(self) -> pl.DataFrame:
        """All that were added so far."""
        return pl.concat(self._rows)

    def add(self, rows: pl.DataFrame) -> None:
        """Append rows and write all there are."""
        self._rows.append(rows)
        whole = pl.concat(self._rows)
        _guard(lambda: _replace(self.folder / ROWS, lambda file: whole.write_parquet(file)), self.folder)
        self.header["rows"] = len(whole)
        self._write_header()

    def finish(self, status: str, *, error: str | None = None, **entries: Any) -> RunLog | None:
        """Write how the run ended; the log, if it is complete."""
        self.header |= {"status": status, "finished": _now(), "error": error, **entries}
        self._write_header()
        return RunLog(self.folder, self.header, pl.concat(self._rows)) if status == "complete" else None

    def _write_header(self) -> None:
        text = json.dumps(self.header, indent=2, ensure_ascii=False) + "\n"
        _guard(lambda: _replace(self.folder / HEADER, lambda file: file.write_text(text, "utf-8")), self.folder)


def library_versions() -> dict[str, str]:
    """The versions of what a run computes with."""
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _replace(file: Path, write: Any) -> None:
    # The process's number keeps two writers of one run from sharing a half-written file.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        write(partial)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _guard(action: Any, folder: Path) -> None:
    try:
        action()
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise LogError(
            f"the run's folder {folder} cannot be written ({reason}): make room or choose another with [[out=]]. "
            "Vectors that were computed are in the store, and the same command goes on from there."
        ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
