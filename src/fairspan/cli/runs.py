"""`fairspan compare RUN [RUN]` and `fairspan report RUN`."""

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
    paired by query, so they are more precise than two separate results. Each pair gets a verdict
    by the first metric: better, not worse, slightly worse (within the margin), worse (perhaps by
    more than the margin), or inconclusive.

    For example:

        fairspan compare fairspan-runs/evaluate-granite-1a2b3c4d
        fairspan compare runs/before runs/after --treatments plain,plain

    Args:
        run: the folder of a run of evaluate.
        other: a second run on the same queries. By default the first is compared with itself.
        treatments: two treatments, such as plain,paper: one of each run.
        margin: largest loss that counts as negligible. By default that of the first run.
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
    run: Path,
    /,
    *,
    out: Path | None = None,
    title: str | None = None,
    figures: Path | None = None,
    figure_formats: Sequence[str] | None = None,
    tables: Path | None = None,
    margin: float | None = None,
    inference: str | None = None,
    as_json: bool = False,
) -> None:
    """Write one HTML page about a run: verdicts, charts, tables, methods and the raw rows.

    The page is a single file that needs no network. With another margin or inference, the run
    is analysed again, which needs no model.

    For example:

        fairspan report fairspan-runs/evaluate-granite-1a2b3c4d
        fairspan report runs/granite --figures figures --tables tables
        fairspan report runs/granite --margin .02

    Args:
        run: folder of a run of audit, evaluate, collapse or tune.
        out: the page to write. By default report.html in the run's folder.
        title: the title of the page.
        figures: folder to write all figures of the run to.
        figure_formats: formats of the figures: svg, png, pdf. By default svg.
        tables: folder to write all tables of the run to, as CSV.
        margin: margin of the verdicts, in place of the run's own.
        inference: how intervals of an audit are computed: auto or z, in place of the run's own.
        as_json: print the names of the written files as JSON.
    """
    from fairspan.report.files import require_figures, write_figures, write_tables
    from fairspan.report.render import require_page
    from fairspan.studies.logs import read_log

    if figure_formats is not None and figures is None:
        raise DesignError("figure_formats would do nothing without figures: name a folder there.")
    formats = figure_formats or ("svg",)
    asked = {"margin": margin, "inference": inference}
    analysis = {name: value for name, value in asked.items() if value is not None}
    if out is not None:
        require_page(out)
    if figures is not None:
        require_figures(formats)
    with Console(stderr=True).status("reading") as status:
        log = read_log(run, **analysis)
        page = out or log.folder / "report.html"
        status.update("statistics and page")
        written = {"page": [log.save_page(page, title)], "figures": [], "tables": []}
        if figures is not None:
            status.update("figures")
            written["figures"] = write_figures(log.view, figures, formats)
        if tables is not None:
            written["tables"] = write_tables(list(log.view.tables()), tables)
    say_unfinished([log])
    if as_json:
        print_json({kind: [str(file) for file in files] for kind, files in written.items()})
        return
    put(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    for kind, folder in (("figures", figures), ("tables", tables)):
        if folder is not None:
            put(f"{kind}: {len(written[kind])} files in {folder}")
