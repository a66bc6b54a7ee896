"""`fairspan report RUN [RUN…]`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import flag, list_option, option, print_json
from fairspan.errors import DesignError


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs of audit, evaluate or collapse.")
    ],
    out: Path | None = option(
        "The page to write. Default: report.html, in the run's folder or, for several runs, here."
    ),
    title: str | None = option("The title of the page."),
    figures: Path | None = option("Folder to write all figures of the runs to."),
    figure_formats: str | None = list_option(
        "Formats of the figures: svg, png, pdf. Default: svg."
    ),
    tables: Path | None = option("Folder to write all tables of the runs to, as Markdown and CSV."),
    as_json: bool = flag("--json", "Print the names of the written files as JSON."),
) -> None:
    """Write one HTML page about runs: verdicts, charts before and after, tables, methods and the raw rows.

    The page is a single file that needs no network. Several runs are shown side by side, with paired differences if
    they share documents or queries.

    Examples:

        fairspan report fairspan-runs/granite-1a2b3c4d

        fairspan report fairspan-runs/granite-1a2b3c4d fairspan-runs/minilm-5e6f7a8b --out models.html

        fairspan report fairspan-runs/granite-1a2b3c4d --figures figures --figure-formats svg,pdf --tables tables
    """
    from rich.console import Console

    from fairspan.cli.showing import say_unfinished
    from fairspan.report.files import file_names, require_figures, write_figures, write_tables
    from fairspan.report.render import require_page
    from fairspan.studies.logs import read_log, save_page

    if figure_formats is not None and figures is None:
        raise DesignError("figure_formats would do nothing without figures: name a folder there.")
    kinds = figure_formats or ("svg",)
    if out is not None:
        require_page(out)
    if figures is not None:
        require_figures(kinds)
    with Console(stderr=True).status("reading") as status:
        logs = [read_log(run) for run in runs]
        page = out or (logs[0].folder if len(logs) == 1 else Path()) / "report.html"
        status.update("statistics and page")
        written = {"page": [save_page(logs, page, title)], "figures": [], "tables": []}
        # Figures of several runs have the same names.
        folders = file_names([log.run for log in logs]) if len(logs) > 1 else [""]
        for log, inner in zip(logs, folders, strict=True):
            if figures is not None:
                status.update(f"figures of {log.run}")
                written["figures"] += write_figures(log.view, figures / inner, kinds)
            if tables is not None:
                status.update(f"tables of {log.run}")
                written["tables"] += write_tables(list(log.view.tables()), tables / inner)
    say_unfinished(logs)
    if as_json:
        print_json({kind: [str(file) for file in files] for kind, files in written.items()})
        return
    typer.echo(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    for kind, folder in (("figures", figures), ("tables", tables)):
        if folder is not None:
            typer.echo(f"{kind}: {len(written[kind])} files in {folder}")
