"""All tables of a run, and the files that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from fairspan.errors import LogError
from fairspan.report.any_summary import AnySummary, summarize_run
from fairspan.report.tables.audit import audit_tables
from fairspan.report.tables.csv import to_csv
from fairspan.report.tables.latex import to_latex
from fairspan.report.tables.length import length_tables
from fairspan.report.tables.markdown import to_markdown
from fairspan.report.tables.named import NamedTable
from fairspan.report.tables.search import grid_table, search_tables
from fairspan.runs.log import RunLog
from fairspan.studies.audit.summary import Summary
from fairspan.studies.evaluate.summary import RetrievalSummary
from fairspan.studies.evaluate.temperature_grid import temperature_grid

FORMATS: dict[str, Callable[[NamedTable], str]] = {
    "md": lambda named: to_markdown(named.table),
    "tex": lambda named: to_latex(named.table, label=named.name),
    "csv": lambda named: to_csv(named.records),
}


def tables_of(log: RunLog, *, summary: AnySummary | None = None) -> list[NamedTable]:
    """The tables of an audit, an evaluation or a study of length, verdicts first.

    Args:
        summary: the statistics of this log, where they are there already.
    """
    found = summary or summarize_run(log)
    if isinstance(found, Summary):
        return audit_tables(found)
    if isinstance(found, RetrievalSummary):
        grid = temperature_grid(found)
        return [*search_tables(found), *([] if grid is None else [grid_table(grid)])]
    return length_tables(found)


def write_tables(
    log: RunLog,
    folder: Path,
    formats: Sequence[str] = ("md", "tex", "csv"),
    *,
    summary: AnySummary | None = None,
) -> list[Path]:
    """Write every table of a run in every format, and say which files that made."""
    return write_all(tables_of(log, summary=summary), folder, formats)


def write_all(
    tables: Sequence[NamedTable], folder: Path, formats: Sequence[str] = ("md", "tex", "csv")
) -> list[Path]:
    """One file a table and format, named after the table."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise LogError(f"tables are written as {', '.join(FORMATS)}, not as {', '.join(unknown)}.")
    names = file_names([table.name for table in tables])
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in zip(names, tables, strict=True):
            for suffix in formats:
                file = folder / f"{name}.{suffix}"
                # A name may hold half of a surrogate pair, which JSON can say and UTF-8 cannot.
                text = FORMATS[suffix](table)
                file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
                written.append(file)
    except OSError as error:
        raise LogError(f"tables cannot be written to {folder} ({error.strerror}): choose another folder.") from error
    return written


def file_names(names: Sequence[str]) -> list[str]:
    """Names that any file system takes, all different even where case is not told apart."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9+=._-]+", "-", name).strip("-.")[:120] or "table"
        number, chosen = 1, plain
        while chosen.lower() in {other.lower() for other in found}:
            number += 1
            chosen = f"{plain}-{number}"
        found.append(chosen)
    return found
