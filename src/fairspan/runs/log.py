"""`RunLog`: one folder per run, with `run.json` (what was done, how far) and `rows.parquet` (every raw value)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.files import write_file
from fairspan.report.frames import to_records
from fairspan.report.page import Part, json_download, make_page, row_download
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.text import changed, model_name
from fairspan.report.view import View
from fairspan.runs.facts import facts_of, places_of, settings_of
from fairspan.runs.folder import BESIDE, HEADER, ROWS, header_file, move_into_place, newer_header, replace_file
from fairspan.runs.rows import checked

FORMAT = 1
# What every header holds, and what reports read of it without looking.
_ENTRIES: dict[str, type] = {
    **dict.fromkeys(("verb", "run", "status"), str),
    **dict.fromkeys(("spec", "model", "timings", "versions", "machine"), dict),
    "notes": list,
    "rows": int,
}
_UNFINISHED = {
    "running": "has not finished",
    "interrupted": "was interrupted",
    "failed": "failed",
    "partial": "ended with its budget",
}
# Bytes of a page that raw rows may take, all runs together: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000
_LIBRARIES = ("fairspan", "torch", "transformers", "sentence-transformers", "tokenizers", "numpy", "scipy", "polars")


@dataclass(frozen=True, eq=False, repr=False)
class RunLog(Result):
    """What a run left on disk, and what its study shows of it.

    Attributes:
        header: `run.json`: format, verb, run, status, spec, seeds, versions, model, corpus, timings, notes.
        rows: one measured value per row; see `fairspan.runs.rows.SCHEMA`.
        show: makes the view of such a log.
        newer: what is known of a later measurement that did not finish, and so did not take the place of this one.
    """

    folder: Path
    header: Mapping[str, Any]
    rows: pl.DataFrame
    show: Callable[[RunLog], View]
    newer: str = ""

    @cached_property
    def view(self) -> View:
        """Statistics, charts and tables, made from the rows when first asked for."""
        with explained(self.folder):
            shown = self.show(self)
        return replace(shown, notes=(*self.caveats, *shown.notes)) if self.caveats else shown

    @property
    def verb(self) -> str:
        return str(self.header["verb"])

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
        """All that were asked for."""
        return [str(treatment["name"]) for treatment in self.spec["treatments"]]

    @property
    def measured(self) -> list[str]:
        """The treatments that have rows; an interrupted run lacks some."""
        there = set(self.rows["treatment"].unique().to_list())
        return [name for name in self.treatments if name in there]

    @property
    def notes(self) -> list[str]:
        return [str(note) for note in self.header["notes"]]

    @property
    def unfinished(self) -> str:
        """What a reader of a run that is not complete must know; empty if it is."""
        if self.status == "complete":
            return ""
        how = _UNFINISHED.get(self.status, f"is {self.status}")
        return f"this run {how}: {len(self.measured)} of {len(self.treatments)} treatments were measured"

    @property
    def caveats(self) -> list[str]:
        """What to say of the log before anything that it shows."""
        return [words for words in (self.unfinished, self.newer) if words]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with one list of records for each frame."""
        return {
            "format": FORMAT,
            "verb": self.verb,
            "run": self.run,
            "folder": str(self.folder),
            "model": self.model,
            "status": self.status,
            **({"task": self.header["task"]} if "task" in self.header else {}),
            "notes": list(self.view.notes),
            **{name: to_records(frame) for name, frame in self.view.frames.items()},
        }

    def save_page(self, path: Path | str) -> Path:
        """Write one HTML file with verdicts, charts, tables, methods and data."""
        require_page(Path(path))
        return write_file(Path(path), make_page(self.view.title, [self.part()]))

    def part(self, label: str = "", room: int = ROOM_FOR_ROWS) -> Part:
        """The run as a part of a page, without local paths; raw rows may take so many bytes of it."""
        places = places_of(self.header, self.folder)

        def shared(text: str) -> str:
            for place, name in places.items():
                text = text.replace(place, name)
            return text

        with explained(self.folder):
            statistics = {key: value for key, value in self.to_dict().items() if key != "folder"}
            return Part(
                label=label or model_name(self.model),
                view=changed(self.view, shared) if places else self.view,
                facts=facts_of(self.header),
                settings=settings_of(self.header),
                spec=json.dumps(changed(self.spec, shared), ensure_ascii=False, indent=2),
                downloads=(
                    row_download(self.run, self.rows.with_columns(pl.col("model").replace(places)), room),
                    json_download(f"{self.run}-statistics.json", "statistics (JSON)", changed(statistics, shared)),
                ),
            )


def read_log(folder: Path | str, show: Callable[[RunLog], View]) -> RunLog:
    """Read the log of one run: its folder, or the run.json in it."""
    folder = folder_of(folder)
    header = read_header(folder)
    missing = [name for name in _ENTRIES if name not in header]
    if missing:
        raise FairspanError(f"{folder / HEADER} lacks {', '.join(missing)}: run the command again.")
    for name, kind in _ENTRIES.items():
        if not isinstance(header[name], kind) or isinstance(header[name], bool):
            raise FairspanError(
                f"{folder / HEADER} is not as it was written: {name} is {type(header[name]).__name__}, not "
                f"{kind.__name__}. Run the command again with fresh."
            )
    log = RunLog(folder, header, _read_rows(folder / ROWS, header), show, _newer(folder))
    with explained(folder):
        _ = log.model, log.treatments
    return log


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Whatever a log that is not as it was written leads to, in one line."""
    try:
        yield
    except FairspanError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise FairspanError(
            f"the log {folder} cannot be used ({type(error).__name__}: {reason}): its files were changed since they "
            "were written, or this is a fault of fairspan."
        ) from error


def folder_of(path: Path | str) -> Path:
    """The folder of a run, which may be given by its run.json."""
    path = Path(path)
    return path.parent if path.name == HEADER else path


def read_header(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    file = header_file(folder)
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FairspanError(f"{folder} is not the folder of a run: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise FairspanError(f"{file} cannot be read ({error}): choose another folder, or remove this one.") from None
    written = header.get("format") if isinstance(header, dict) else None
    if written != FORMAT:
        raise FairspanError(f"{file} has format {written!r}, and this fairspan reads format {FORMAT}.")
    return dict(header)


def _read_rows(file: Path, header: Mapping[str, Any]) -> pl.DataFrame:
    count = header["rows"]
    if not file.exists() or count < 1:
        raise FairspanError(
            f"the run {file.parent} is {header.get('status')} and has no rows yet: run its command again."
        )
    try:
        rows = pl.read_parquet(file, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FairspanError(f"{file} cannot be read: {str(error).splitlines()[0]}.") from None
    if len(rows) < count:
        raise FairspanError(
            f"{file} holds {len(rows)} of {count} rows, so something else wrote it: run the command again."
        )
    try:
        # A crash between the two files leaves rows that the header does not know of yet.
        return checked(rows).head(count)
    except (ValueError, pl.exceptions.PolarsError) as error:
        fault = str(error).splitlines()[0]
        raise FairspanError(f"{file} is not as it was written: {fault}. Run the command again with fresh.") from None


def _newer(folder: Path) -> str:
    header = newer_header(folder)
    if header is None:
        return ""
    how, started = _UNFINISHED.get(str(header.get("status")), "did not finish"), str(header.get("started"))[:16]
    return f"a later measurement, started {started.replace('T', ' ')} UTC, {how}: this is the one before it"


class LogWriter:
    """Writes a run's folder. Every write replaces a whole file at once, so a crash leaves the one before.

    If the folder holds a log with rows, the new one is written beside it. It takes its place when it is complete, or
    when it has as many rows as one that is not complete either.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        before = read_header(folder) if header_file(folder).exists() else {}
        self._place = folder / BESIDE if before.get("rows") else folder
        self._enough = None if before.get("status") == "complete" else int(before.get("rows") or 0)
        self._rows: list[pl.DataFrame] = []
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "status": "running",
            "started": _now(),
            "process": os.getpid(),
            "finished": None,
            "error": None,
            "versions": {"python": platform.python_version(), **library_versions()},
            "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
            "rows": 0,
            "timings": {},
            "notes": [],
            **header,
        }
        self._write_header()

    @property
    def rows(self) -> pl.DataFrame:
        """All that were added so far."""
        return pl.concat(self._rows)

    def add(self, rows: pl.DataFrame) -> None:
        """Append rows and write all there are."""
        self._rows.append(rows)
        whole = self.rows
        replace_file(self._place / ROWS, whole.write_parquet)
        self.header["rows"] = len(whole)
        self._write_header()
        if self._enough is not None and len(whole) >= self._enough:
            self._take_place()

    def finish(self, status: str, *, error: str | None = None, **entries: Any) -> None:
        """Write how the run ended."""
        self.header.pop("process", None)
        self.header |= {"status": status, "finished": _now(), "error": error, **entries}
        self._write_header()
        if status == "complete":
            self._take_place()

    def _take_place(self) -> None:
        if self._place != self.folder:
            move_into_place(self.folder)
            self._place = self.folder

    def _write_header(self) -> None:
        _write(self._place / HEADER, self.header)


def rewrite_header(folder: Path, entries: Mapping[str, Any]) -> None:
    """Change entries of a log's header that say nothing of its results."""
    _write(header_file(folder), {**read_header(folder), **entries})


def _write(file: Path, header: Mapping[str, Any]) -> None:
    text = json.dumps(header, indent=2, ensure_ascii=False) + "\n"
    replace_file(file, lambda partial: partial.write_text(text, "utf-8"))


def library_versions() -> dict[str, str]:
    """The versions of what a run computes with."""
    return {library: known for library in _LIBRARIES if (known := _version(library)) is not None}


@cache
def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
