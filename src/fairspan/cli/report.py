"""`fairspan report RUN [RUN…]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import words
from fairspan.errors import LogError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs: of audit, evaluate or collapse.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File of the page. Default: report.html in the run's folder; for several runs, in this folder."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Folder for all figures of the runs.")] = None,
    figure_formats: Annotated[str, typer.Option(help="Formats of the figures, of svg, png and pdf.")] = "svg",
    tables: Annotated[Path | None, typer.Option(help="Folder for all tables of the runs.")] = None,
    table_formats: Annotated[str, typer.Option(help="Formats of the tables, of md, tex and csv.")] = "md,tex,csv",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a page about runs: verdicts, profiles before and after, tables, methods and the rows.

    The page is one file. It needs no network and contains the raw rows unless they are too many. Several runs are
    shown side by side, with paired differences if they share documents or queries.

    Examples:

        fairspan report fairspan-runs/bge-m3-1a2b3c4d

        fairspan report fairspan-runs/bge-m3-1a2b3c4d fairspan-runs/e5-5e6f7a8b --out models.html

        fairspan report fairspan-runs/bge-m3-1a2b3c4d --figures figures --figure-formats svg,pdf --tables tables
    """
    from rich.console import Console

    from fairspan.report.any_summary import summarize_run
    from fairspan.report.page.page import write_page
    from fairspan.report.page.render import require_page
    from fairspan.runs.log import read_log

    wanted = {
        "figures": _formats("figure_formats", figure_formats),
        "tables": _formats("table_formats", table_formats),
    }
    if out is not None:
        require_page(out)
    with Console(stderr=True).status("reading") as status:
        logs = [read_log(run) for run in runs]
        page = out or (logs[0].folder if len(logs) == 1 else Path()) / "report.html"
        status.update("statistics")
        summaries = [summarize_run(log) for log in logs]
        status.update("page")
        made = write_page(logs, page, title=title, summaries=summaries)
        written = {"page": [made], "figures": [], "tables": []}
        for log, summary in zip(logs, summaries, strict=True):
            # Figures of several runs have the same names.
            inner = log.run if len(logs) > 1 else ""
            if figures is not None:
                from fairspan.report.figures.of_run import write_figures

                status.update(f"figures of {log.run}")
                written["figures"] += write_figures(log, figures / inner, wanted["figures"], summary=summary)
            if tables is not None:
                from fairspan.report.tables.of_run import write_tables

                status.update(f"tables of {log.run}")
                written["tables"] += write_tables(log, tables / inner, wanted["tables"], summary=summary)
    if as_json:
        typer.echo(json.dumps({kind: [str(file) for file in files] for kind, files in written.items()}, indent=2))
        return
    typer.echo(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    for kind, folder in (("figures", figures), ("tables", tables)):
        if folder is not None:
            typer.echo(f"{kind}: {len(written[kind])} files in {folder}")


def _formats(name: str, text: str) -> list[str]:
    found = words(name, text)
    if not found:
        raise LogError(f"[[{name}]] takes at least one format.")
    return found
