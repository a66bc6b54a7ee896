"""`fairspan compare RUN [RUN]`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import AsJson, option, print_json, words


def compare(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    other: Annotated[
        Path | None,
        typer.Argument(help="A second run on the same documents or queries. Default: compare within the first."),
    ] = None,
    treatments: str | None = option("Two treatments, such as none,paper: the first run's and the second's."),
    as_json: AsJson = False,
) -> None:
    """Compare two treatments or two runs, document by document or query by query.

    Without a second run, every treatment is compared with the run's first one. Differences are taken between the same
    documents or queries, so they are more precise than either side alone.

    Examples:

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d fairspan-runs/e5-5e6f7a8b --treatments none,none
    """
    from rich.console import Console

    from fairspan.cli.showing import say_unfinished
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_table
    from fairspan.studies.logs import compare as compare_logs
    from fairspan.studies.logs import read_log

    first, second = read_log(run), None if other is None else read_log(other)
    tables = compare_logs(first, second, None if treatments is None else words(treatments))
    say_unfinished([first] if second is None else [first, second])
    if as_json:
        print_json({table.name: to_records(table.frame) for table in tables})
        return
    console = Console()
    for table in tables:
        if table.brief:
            print_table(console, table)
