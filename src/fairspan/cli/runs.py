"""`fairspan compare RUN [RUN]` and `fairspan report RUN [RUN…]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fairspan.cli.command import command
from fairspan.cli.gate import fail_on_changes, read_conditions
from fairspan.cli.options import Failing
from fairspan.cli.showing import print_json, put, say_unfinished
from fairspan.errors import DesignError


@command(Failing)
def compare(
    run: Path,
    other: Path | None = None,
    /,
    *,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
    as_json: bool = False,
    **typed: Any,
) -> None:
    """Compare two treatments or two runs of evaluate, query by query.

    Without a second run, every treatment is compared with the run's first one. Differences are
    paired, so they are more precise than either side alone. Each pair gets a verdict by the first
    metric: worse (by more than the margin), inconclusive, slightly worse (within the margin), not
    worse, or better.

    For example:

        fairspan compare fairspan-runs/evaluate-granite-1a2b3c4d
        fairspan compare runs/model-v1 runs/model-v2 --treatments plain,plain --fail-if worse

    Args:
        run: the folder of a run of evaluate.
        other: a second run on the same queries. By default the first is compared with itself.
        treatments: two treatments, such as plain,paper: one of each run.
        margin: losses below it do not matter. By default that of the first run.
        as_json: print the result as JSON.
    """
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_line, print_table
    from fairspan.runs.header import FORMAT
    from fairspan.studies.logs import changes, read_log
    from fairspan.studies.logs import compare as compare_logs

    conditions = read_conditions("compare", typed.get("fail_if"))
    first = read_log(run)
    second = None if other is None else read_log(other)
    tables = compare_logs(first, second, treatments)
    compared = changes(first, second, treatments, margin)
    say_unfinished([first] if second is None else [first, second])
    if as_json:
        verdicts = [change.to_dict() for change in compared]
        frames = {table.name: to_records(table.frame) for table in tables}
        print_json({"format": FORMAT, "verdicts": verdicts, **frames})
    else:
        console = Console()
        for change in compared:
            print_line(console, f"{change.name}: {change.sentence}")
        for table in tables:
            if table.brief:
                print_table(console, table)
    fail_on_changes(compared, conditions)


@command()
def report(
    runs: list[Path],
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    figures: Path | None = None,
    figure_formats: Sequence[str] | None = None,
    tables: Path | None = None,
    margin: float | None = None,
    metrics: Sequence[str] | None = None,
    inference: str | None = None,
    as_json: bool = False,
) -> None:
    """Write one HTML page about runs: verdicts, charts, tables, methods and the raw rows.

    The page is a single file that needs no network. Several runs are shown side by side, with
    paired differences if they are evaluations of the same queries. With another margin, other
    metrics or another inference, runs are analysed anew, which needs no model.

    For example:

        fairspan report fairspan-runs/evaluate-granite-1a2b3c4d
        fairspan report runs/granite runs/minilm --out models.html
        fairspan report runs/granite --figures figures --figure-formats svg,pdf --tables tables
        fairspan report runs/granite --margin .02

    Args:
        runs: folders of runs of audit, evaluate, collapse or tune.
        out: the page to write. By default report.html, in the run's folder or, for several runs,
            here.
        title: the title of the page.
        figures: folder to write all figures of the runs to.
        figure_formats: formats of the figures: svg, png, pdf. By default svg.
        tables: folder to write all tables of the runs to, as Markdown, LaTeX and CSV.
        margin: margin of the verdicts, in place of the run's own.
        metrics: metrics of a search, in place of the run's own; the first decides.
        inference: how intervals of an audit are computed: auto or z, in place of the run's own.
        as_json: print the names of the written files as JSON.
    """
    from fairspan.report.files import file_names, require_figures, write_figures, write_tables
    from fairspan.report.render import require_page
    from fairspan.studies.logs import read_log, save_page

    if figure_formats is not None and figures is None:
        raise DesignError("figure_formats would do nothing without figures: name a folder there.")
    formats = figure_formats or ("svg",)
    asked = {"margin": margin, "metrics": metrics, "inference": inference}
    analysis = {name: value for name, value in asked.items() if value is not None}
    if out is not None:
        require_page(out)
    if figures is not None:
        require_figures(formats)
    with Console(stderr=True).status("reading") as status:
        logs = [read_log(run, **analysis) for run in runs]
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
    put(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    for kind, folder in (("figures", figures), ("tables", tables)):
        if folder is not None:
            put(f"{kind}: {len(written[kind])} files in {folder}")
