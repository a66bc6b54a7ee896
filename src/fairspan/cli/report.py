"""`fairspan report RUN [RUN…]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairspan.cli.command import command
from fairspan.errors import DesignError


@command()
def report(
    runs: Sequence[Path],
    *,
    out: Path | None = None,
    title: str | None = None,
    figures: Path | None = None,
    figure_formats: Sequence[str] | None = None,
    tables: Path | None = None,
    as_json: bool = False,
) -> None:
    """Write one HTML page about runs: verdicts, charts, tables, methods and the raw rows.

    The page is a single file that needs no network. Several runs are shown side by side, with
    paired differences if they share documents or queries.

    For example:

        fairspan report fairspan-runs/granite-1a2b3c4d
        fairspan report runs/granite runs/minilm --out models.html
        fairspan report runs/granite --figures figures --figure-formats svg,pdf --tables tables

    Args:
        runs: folders of runs of audit, evaluate, collapse or tune.
        out: the page to write. By default report.html, in the run's folder or, for several runs,
            here.
        title: the title of the page.
        figures: folder to write all figures of the runs to.
        figure_formats: formats of the figures: svg, png, pdf. By default svg.
        tables: folder to write all tables of the runs to, as Markdown and CSV.
        as_json: print the names of the written files as JSON.
    """
    from rich.console import Console

    from fairspan.cli.showing import print_json, say_unfinished
    from fairspan.report.files import file_names, require_figures, write_figures, write_tables
    from fairspan.report.render import require_page
    from fairspan.studies.logs import read_log, save_page

    if figure_formats is not None and figures is None:
        raise DesignError("figure_formats would do nothing without figures: name a folder there.")
    formats = figure_formats or ("svg",)
    if out is not None:
        require_page(out)
    if figures is not None:
        require_figures(formats)
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
                written["figures"] += write_figures(log.view, figures / inner, formats)
            if tables is not None:
                status.update(f"tables of {log.run}")
                written["tables"] += write_tables(list(log.view.tables()), tables / inner)
    say_unfinished(logs)
    if as_json:
        print_json({kind: [str(file) for file in files] for kind, files in written.items()})
        return
    print(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    for kind, folder in (("figures", figures), ("tables", tables)):
        if folder is not None:
            print(f"{kind}: {len(written[kind])} files in {folder}")
