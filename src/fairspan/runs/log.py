"""`RunLog`: one folder per run, with `run.json` and `rows.parquet` (every value)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.errors import FairspanError, first_line
from fairspan.report.cleaning import changed
from fairspan.report.files import write_file, write_whole
from fairspan.report.frames import to_records
from fairspan.report.page import Part, json_download, make_page, row_download
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.view import View
from fairspan.runs.facts import facts_of, places_of, settings_of
from fairspan.runs.folder import HEADER, ROWS, writing
from fairspan.runs.header import FORMAT, Header, Timings, now, read_header
from fairspan.runs.identity import key_of, run_prefix
from fairspan.runs.options import StudyOptions, as_json
from fairspan.runs.rows import SCHEMA

DEFAULT_RUNS = Path("fairspan-runs")
_UNFINISHED = {"running": "has not finished", "interrupted": "was interrupted", "failed": "failed"}
# Bytes of a page for raw rows: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000


@dataclass(frozen=True, eq=False, repr=False)
class RunLog(Result):
    """What a run left on disk, and what its study shows of it.

    `rows` has one measured value per row; see `fairspan.runs.rows.SCHEMA`.
    """

    folder: Path
    header: Header
    rows: pl.DataFrame
    show: Callable[[RunLog], View]

    @cached_property
    def view(self) -> View:
        """Statistics, charts and tables, made from the rows when first asked for."""
        with explained(self.folder):
            view = self.show(self)
        return replace(view, notes=(self.unfinished, *view.notes)) if self.unfinished else view

    @property
    def verb(self) -> str:
        return self.header.verb

    @property
    def run(self) -> str:
        return self.header.run

    @property
    def status(self) -> str:
        return self.header.status

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.header.spec

    @property
    def model(self) -> str:
        return self.header.model.name

    @property
    def notes(self) -> list[str]:
        return self.header.notes

    @property
    def treatments(self) -> list[str]:
        """All that were asked for."""
        return [str(treatment["name"]) for treatment in self.spec["treatments"]]

    @property
    def measured(self) -> list[str]:
        """The treatments that have rows; an interrupted run lacks some."""
        with_rows = set(self.rows["treatment"].unique().to_list())
        return [name for name in self.treatments if name in with_rows]

    @property
    def where(self) -> str:
        """The model and what it was measured on, as headings name them: without folders."""
        facts = dict(facts_of(self.header))
        return f"{facts['model']} on {facts['task'] if 'task' in facts else facts['corpus']}"

    @property
    def unfinished(self) -> str:
        """What a reader of a run that is not complete must know; empty if it is."""
        if self.header.complete:
            return ""
        how = _UNFINISHED.get(self.status, f"is {self.status}")
        counts = f"{len(self.measured)} of {len(self.treatments)} treatments were measured"
        return f"this run {how}: {counts}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with one list of records for each frame."""
        task = self.header.task
        return {
            "format": FORMAT,
            "verb": self.verb,
            "run": self.run,
            "folder": str(self.folder),
            "model": self.model,
            "status": self.status,
            **({"task": as_json(task)} if task else {}),
            "notes": list(self.view.notes),
            **{name: to_records(frame) for name, frame in self.view.frames.items()},
        }

    def save_page(self, path: Path | str) -> Path:
        """Write one HTML file with verdicts, charts, tables, methods and data."""
        require_page(Path(path))
        return write_file(Path(path), make_page(self.view.title, self.part()))

    def part(self) -> Part:
        """The run as a part of a page, without local paths."""
        with explained(self.folder):
            places = places_of(self.header, self.folder)

            def shared(text: str) -> str:
                for place, name in places.items():
                    text = text.replace(place, name)
                return text

            statistics = {name: value for name, value in self.to_dict().items() if name != "folder"}
            rows = self.rows.with_columns(pl.col("model").replace(places))
            return Part(
                view=changed(self.view, shared) if places else self.view,
                facts=facts_of(self.header),
                settings=settings_of(self.header),
                spec=json.dumps(changed(self.spec, shared), ensure_ascii=False, indent=2),
                downloads=(
                    row_download(self.run, rows, ROOM_FOR_ROWS),
                    json_download(
                        f"{self.run}-statistics.json",
                        "statistics (JSON)",
                        changed(statistics, shared),
                    ),
                ),
            )


def known_log(options: StudyOptions, show: Callable[[RunLog], View]) -> RunLog | None:
    """The complete log that was written for these very options, if it exists and is wanted."""
    key = None if options.fresh else key_of(options)
    if key is None:
        return None
    folders = [Path(options.out or "")]
    if options.out is None:
        prefix = run_prefix(options.verb, options.model_name)
        folders = sorted(DEFAULT_RUNS.glob(f"{prefix}-????????"))
    for folder in folders:
        # What cannot be read is for the run itself to report.
        with suppress(FairspanError):
            header = read_header(folder)
            if header.key == key and header.complete:
                return read_log(folder, show)
    return None


def read_log(folder: Path | str, show: Callable[[RunLog], View]) -> RunLog:
    """The log of one run, given its folder or the run.json in it."""
    folder = folder_of(folder)
    header = read_header(folder)
    if not header.rows:
        raise FairspanError(
            f"the run {folder} is {header.status} and has no rows yet: run its command again."
        )
    with explained(folder):
        rows = pl.read_parquet(folder / ROWS, glob=False)
        for name, kind in SCHEMA.items():
            if rows.schema.get(name) != kind:
                raise ValueError(f"{ROWS} lacks the column {name} as it was")
        if len(rows) < header.rows:
            raise ValueError(f"{ROWS} has {len(rows)} of {header.rows} rows")
        # A crash between the two files leaves rows that the header does not know of yet.
        log = RunLog(folder, header, rows.head(header.rows), show)
        _ = log.measured
    return log


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn any error of using a log into one line."""
    try:
        yield
    except FairspanError:
        raise
    except Exception as error:
        raise FairspanError(
            f"the log {folder} cannot be used ({type(error).__name__}: {first_line(error)}): its "
            "files were changed since they were written, or this is a fault of fairspan. Run the "
            "command again with fresh."
        ) from error


def folder_of(path: Path | str) -> Path:
    """The folder of a run, which may be given by its run.json."""
    path = Path(path)
    return path.parent if path.name == HEADER else path


class LogWriter:
    """Writes a run's folder. Every write replaces a whole file, so a crash leaves the one before.

    A complete log is kept until its replacement is complete, and one that was interrupted until the
    replacement has rows.
    """

    def __init__(self, folder: Path, header: Header) -> None:
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

    def add(self, rows: pl.DataFrame) -> None:
        self._tables.append(rows)
        self._keeps_rows = False
        if not self._waits:
            self._write(ROWS, self.rows.write_parquet)
        self.header = replace(self.header, rows=self.header.rows + len(rows))
        self._write_header()

    def finish(self, status: str, timings: Timings, error: str | None = None) -> None:
        self.header = replace(
            self.header, status=status, finished=now(), error=error, timings=timings
        )
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
