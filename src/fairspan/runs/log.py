"""`RunLog`: what a run left on disk, `run.json` and `rows.parquet`, and what its study shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.errors import FairspanError, first_line
from fairspan.report.cleaning import changed
from fairspan.report.files import write_file
from fairspan.report.frames import to_records
from fairspan.report.page import Part, json_download, make_page, row_download
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.view import View
from fairspan.runs.entries import as_json
from fairspan.runs.facts import facts_of, places_of, settings_of
from fairspan.runs.folder import HEADER, ROWS
from fairspan.runs.header import FORMAT, Header, read_header
from fairspan.runs.options import Analysis

_UNFINISHED = {"running": "has not finished", "interrupted": "was interrupted", "failed": "failed"}
# Bytes of a page for raw rows: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000


@dataclass(frozen=True, slots=True)
class LogKind:
    """What the logs of a study have in common.

    Attributes:
        schema: the columns of their rows, which may have more.
        analysis: options that only analyse rows.
        view: everything that a log has to show, made from its rows and its analysis.
    """

    schema: Mapping[str, pl.DataType]
    view: Callable[[RunLog], View]
    analysis: type[Analysis] = Analysis


@dataclass(frozen=True, eq=False, repr=False)
class RunLog(Result):
    """The results of a run, read from its folder.

    Attributes:
        rows: one measured value per row, in the columns of its study.
        analysis: how they are analysed.
    """

    folder: Path
    header: Header
    rows: pl.DataFrame
    kind: LogKind
    analysis: Any

    @cached_property
    def view(self) -> View:
        """Statistics, charts and tables, made from the rows when first asked for."""
        view = self.kind.view(self)
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
        """What was asked, with the analysis that is shown."""
        return {**self.header.spec, **as_json(self.analysis)}

    @property
    def model(self) -> str:
        return self.header.model.name

    @property
    def notes(self) -> list[str]:
        return list(self.header.notes)

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

    def save_page(self, path: Path | str, title: str | None = None) -> Path:
        """Write one HTML file with verdicts, charts, tables, methods and data."""
        require_page(Path(path))
        return write_file(Path(path), make_page(title or self.view.title, self.part()))

    def part(self) -> Part:
        """The run as a part of a page, without local paths."""
        places = places_of(self.header, self.folder)

        def shared(text: str) -> str:
            for place, name in places.items():
                text = text.replace(place, name)
            return text

        statistics = {name: value for name, value in self.to_dict().items() if name != "folder"}
        file = f"{self.run}-statistics.json"
        return Part(
            view=changed(self.view, shared) if places else self.view,
            facts=facts_of(self.header),
            settings=settings_of(self.header),
            spec=json.dumps(changed(self.spec, shared), ensure_ascii=False, indent=2),
            downloads=(
                row_download(self.run, self.rows, ROOM_FOR_ROWS),
                json_download(file, "statistics (JSON)", changed(statistics, shared)),
            ),
        )


def read_log(folder: Path | str, kind: LogKind, **analysis: Any) -> RunLog:
    """The log of one run, by its folder or the run.json in it; analysed as it was, or otherwise."""
    folder = folder_of(folder)
    header = read_header(folder)
    if not header.rows:
        raise FairspanError(
            f"the run {folder} is {header.status} and has no rows yet: run its command again."
        )
    analysed = kind.analysis.read(header.analysis, **analysis)
    # A crash between the two files leaves rows that the header does not know of yet.
    rows = _read_rows(folder, kind.schema, header.rows).head(header.rows)
    return RunLog(folder, header, rows, kind, analysed)


def _read_rows(folder: Path, schema: Mapping[str, pl.DataType], least: int) -> pl.DataFrame:
    """The rows of a folder; raise if they are not those that its header is of."""
    reason = ""
    try:
        rows = pl.read_parquet(folder / ROWS, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
    else:
        missing = [name for name, kind in schema.items() if rows.schema.get(name) != kind]
        if missing:
            reason = f"{ROWS} lacks the column {missing[0]} as it was"
        elif len(rows) < least:
            reason = f"{ROWS} has {len(rows)} of {least} rows"
    if reason:
        raise FairspanError(
            f"the log {folder} cannot be used ({reason}): its files were changed since they were "
            "written. Run its command again."
        )
    return rows


def folder_of(path: Path | str) -> Path:
    """The folder of a run, which may be given by its run.json."""
    path = Path(path)
    return path.parent if path.name == HEADER else path
