"""`RunLog`: one folder per run, with `run.json` (what was done, how far) and `rows.parquet` (every raw value)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.files import write_file, write_whole
from fairspan.report.frames import to_records
from fairspan.report.page import Pairs, Part, json_download, make_page, row_download
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.text import changed, model_name
from fairspan.report.view import View
from fairspan.runs.folder import HEADER, ROWS, writing
from fairspan.runs.rows import SCHEMA

FORMAT = 2
_UNFINISHED = {"running": "has not finished", "interrupted": "was interrupted", "failed": "failed"}
# Bytes of a page that raw rows may take, all runs together: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000
_LIBRARIES = (
    "fairspan",
    "torch",
    "transformers",
    "sentence-transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "polars",
)


@dataclass(frozen=True, eq=False, repr=False)
class RunLog(Result):
    """What a run left on disk, and what its study shows of it.

    Attributes:
        header: `run.json`: format, verb, run, status, spec, seeds, versions, model, corpus, timings, notes.
        rows: one measured value per row; see `fairspan.runs.rows.SCHEMA`.
        show: makes the view of such a log.
    """

    folder: Path
    header: Mapping[str, Any]
    rows: pl.DataFrame
    show: Callable[[RunLog], View]

    @cached_property
    def view(self) -> View:
        """Statistics, charts and tables, made from the rows when first asked for."""
        with explained(self.folder):
            shown = self.show(self)
        return replace(shown, notes=(self.unfinished, *shown.notes)) if self.unfinished else shown

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
    def where(self) -> str:
        """The model and what it was measured on, as headings name them: without folders."""
        facts = dict(facts_of(self.header))
        return f"{facts['model']} on {facts['task'] if 'task' in facts else facts['corpus']}"

    @property
    def unfinished(self) -> str:
        """What a reader of a run that is not complete must know; empty if it is."""
        if self.status == "complete":
            return ""
        how = _UNFINISHED.get(self.status, f"is {self.status}")
        return f"this run {how}: {len(self.measured)} of {len(self.treatments)} treatments were measured"

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
        """The run as a part of a page, without local paths; raw rows may take that many bytes of it."""

        def shared(text: str) -> str:
            for place, name in places.items():
                text = text.replace(place, name)
            return text

        with explained(self.folder):
            places = places_of(self.header, self.folder)
            statistics = {key: value for key, value in self.to_dict().items() if key != "folder"}
            return Part(
                label=label or model_name(self.model),
                view=changed(self.view, shared) if places else self.view,
                facts=facts_of(self.header),
                settings=settings_of(self.header),
                spec=json.dumps(changed(self.spec, shared), ensure_ascii=False, indent=2),
                downloads=(
                    row_download(
                        self.run, self.rows.with_columns(pl.col("model").replace(places)), room
                    ),
                    json_download(
                        f"{self.run}-statistics.json",
                        "statistics (JSON)",
                        changed(statistics, shared),
                    ),
                ),
            )


def read_log(folder: Path | str, show: Callable[[RunLog], View]) -> RunLog:
    """Read the log of one run: its folder, or the run.json in it."""
    folder = folder_of(folder)
    header = read_header(folder)
    with explained(folder):
        if not header["rows"]:
            raise FairspanError(
                f"the run {folder} is {header['status']} and has no rows yet: run its command again."
            )
        rows, count = pl.read_parquet(folder / ROWS, glob=False), header["rows"]
        other = [name for name, kind in SCHEMA.items() if rows.schema.get(name) != kind]
        if other or len(rows) < count:
            fault = (
                f"lacks the column {other[0]} as it was"
                if other
                else f"has {len(rows)} of {count} rows"
            )
            raise ValueError(f"{ROWS} {fault}")
        # A crash between the two files leaves rows that the header does not know of yet.
        log = RunLog(folder, header, rows.head(count), show)
        _ = log.verb, log.run, log.status, log.model, log.measured, log.notes
    return log


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Whatever a log that is not as it was written leads to, in one line."""
    try:
        yield
    except FairspanError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise FairspanError(
            f"the log {folder} cannot be used ({type(error).__name__}: {reason}): its files were changed since they "
            "were written, or this is a fault of fairspan. Run the command again with fresh."
        ) from error


def folder_of(path: Path | str) -> Path:
    """The folder of a run, which may be given by its run.json."""
    path = Path(path)
    return path.parent if path.name == HEADER else path


def read_header(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    file = folder / HEADER
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FairspanError(f"{folder} is not the folder of a run: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise FairspanError(
            f"{file} cannot be read ({error}): choose another folder, or remove this one."
        ) from None
    written = header.get("format") if isinstance(header, dict) else None
    if written != FORMAT:
        raise FairspanError(
            f"{file} has format {written!r}, and this fairspan reads format {FORMAT}."
        )
    return dict(header)


class LogWriter:
    """Writes a run's folder. Every write replaces a whole file at once, so a crash leaves the one before.

    A complete log is kept until its replacement is complete.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self.folder = folder
        self._waits = (folder / HEADER).exists() and read_header(folder).get("status") == "complete"
        self._rows: list[pl.DataFrame] = []
        self.header: dict[str, Any] = {
            "format": FORMAT,
            "status": "running",
            "started": now(),
            "finished": None,
            "error": None,
            "versions": {"python": platform.python_version(), **library_versions()},
            "machine": {
                "system": platform.system(),
                "processor": platform.machine(),
                "cores": os.cpu_count(),
            },
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
        if not self._waits:
            self._write(ROWS, self.rows.write_parquet)
        self.header["rows"] += len(rows)
        self._write_header()

    def finish(self, status: str, *, error: str | None = None, **entries: Any) -> None:
        """Write how the run ended."""
        self.header |= {"status": status, "finished": now(), "error": error, **entries}
        if self._waits and status == "complete":
            self._write(ROWS, self.rows.write_parquet)
            self._waits = False
        self._write_header()

    def _write_header(self) -> None:
        if not self._waits:
            text = json.dumps(self.header, indent=2, ensure_ascii=False) + "\n"
            self._write(HEADER, lambda partial: partial.write_text(text, "utf-8"))

    def _write(self, name: str, write: Callable[[Path], Any]) -> None:
        with writing(self.folder):
            write_whole(self.folder / name, write)


def library_versions() -> dict[str, str]:
    """The versions of what a run computes with."""
    found = {}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def facts_of(header: Mapping[str, Any]) -> Pairs:
    """The facts shown under a run's title."""
    found = [("model", model_name(header["model"]["name"]))]
    task, corpus = header.get("task"), header.get("corpus")
    if task:
        kind, colon, place = str(task["source"]).partition(":")
        found.append(("task", model_name(kind) + colon + model_name(place)))
        counted = [f"{task[what]:,} {what}" for what in ("queries", "documents") if task.get(what)]
        found.append(("searched", ", ".join(counted)))
    elif corpus:
        found.append(("corpus", model_name(str(corpus["name"]))))
    if "documents" in header:
        found.append(("documents", f"{header['documents']:,}"))
    if header.get("plans") and not task:
        found.append(
            (
                "languages",
                ", ".join(header["plans"][:8]) + (" …" if len(header["plans"]) > 8 else ""),
            )
        )
    if header["status"] != "complete":
        found.append(("status", header["status"]))
    found.append(("finished", str(header.get("finished") or "not yet")[:16].replace("T", " ")))
    return tuple((name, value) for name, value in found if value)


def settings_of(header: Mapping[str, Any]) -> Pairs:
    """What it was made with: weights, versions, machine. What was asked is shown beside it."""
    model = header["model"]
    unit, windows = (
        header.get("token_unit", "tokens"),
        {one["window"] for one in header.get("windows", ())},
    )
    window = f"{model['window']:,} {unit}" if model.get("window") else "no limit"
    if len(windows) > 1:
        window += "; shorter under some treatments: see the notes"
    found = [
        ("run", header["run"]),
        ("weights", str(model.get("fingerprint") or "not fingerprinted")),
        ("max_seq_length", window),
        (
            "precision",
            ", ".join(str(model[name]) for name in ("dtype", "device") if model.get(name)),
        ),
        ("started", str(header.get("started"))),
        ("rows", f"{header.get('rows', 0):,}"),
        (
            "machine",
            ", ".join(f"{value}" for value in header.get("machine", {}).values()) + " cores",
        ),
        (
            "versions",
            ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items()),
        ),
    ]
    return tuple((name, value) for name, value in found if value)


def places_of(header: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Local paths, which a page must not show, and what it shows instead; the longest first."""
    corpus, task = header.get("corpus") or {}, header.get("task") or {}
    read = [*header.get("sources", ()), corpus.get("name"), *(task.get("names") or ())]
    parts = [part for source in read if source for part in str(source).split(":")]
    known = sorted({header["model"]["name"], *parts, str(folder)}, key=len, reverse=True)
    return {place: name for place in known if (name := model_name(place)) != place}
