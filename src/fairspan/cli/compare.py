"""`fairspan compare RUN [RUN]`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.gate import FailIf, fail_on_changes, read_conditions
from fairspan.cli.options import AsJson, option, print_json, words


def compare(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    other: Annotated[
        Path | None,
        typer.Argument(
            help="A second run on the same documents or queries. Default: compare within the first."
        ),
    ] = None,
    treatments: str | None = option("Two treatments, such as plain,paper: one of each run."),
    margin: float | None = option("Losses below it do not matter. Default: that of the first run."),
    fail_if: FailIf = None,
    as_json: AsJson = False,
) -> None:
    """Compare two treatments or two runs, document by document or query by query.

    Without a second run, every treatment is compared with the run's first one. Differences are paired, so they are
    more precise than either side alone. Each pair gets a verdict: worse, inconclusive, not worse, fairer (audit, by
    the spread between positions) or better (evaluate, by the first metric).

    Examples:

        fairspan compare fairspan-runs/granite-1a2b3c4d

        fairspan compare fairspan-runs/granite-1a2b3c4d fairspan-runs/minilm-5e6f7a8b --treatments plain,plain

        fairspan compare runs/model-v1 runs/model-v2 --fail-if worse
    """
    from rich.console import Console

    from fairspan.cli.showing import say_unfinished
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_table
    from fairspan.runs.log import FORMAT
    from fairspan.studies.logs import changes, read_log
    from fairspan.studies.logs import compare as compare_logs

    conditions = read_conditions("compare", fail_if)
    first, second = read_log(run), None if other is None else read_log(other)
    named = None if treatments is None else words(treatments)
    tables, found = compare_logs(first, second, named), changes(first, second, named, margin)
    say_unfinished([first] if second is None else [first, second])
    if as_json:
        verdicts = [one.to_dict() for one in found]
        print_json(
            {
                "format": FORMAT,
                "verdicts": verdicts,
                **{one.name: to_records(one.frame) for one in tables},
            }
        )
    else:
        console = Console()
        for one in found:
            console.print(f"{one.name}: {one.sentence}", soft_wrap=True, highlight=False)
        for table in tables:
            if table.brief:
                print_table(console, table)
    fail_on_changes(found, conditions)
