"""`fairspan compare RUN [RUN]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairspan.cli.command import command
from fairspan.cli.options import Failing


@command(Failing)
def compare(
    run: Path,
    other: Path | None = None,
    *,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
    as_json: bool = False,
    **failing: Any,
) -> None:
    """Compare two treatments or two runs, document by document or query by query.

    Without a second run, every treatment is compared with the run's first one. Differences are
    paired, so they are more precise than either side alone. Each pair gets a verdict: worse,
    inconclusive, not worse, fairer (audit, by the spread between positions) or better (evaluate, by
    the first metric).

    For example:

        fairspan compare fairspan-runs/granite-1a2b3c4d
        fairspan compare runs/model-v1 runs/model-v2 --treatments plain,plain --fail-if worse

    Args:
        run: the folder of a run.
        other: a second run on the same documents or queries. By default the first is compared with
            itself.
        treatments: two treatments, such as plain,paper: one of each run.
        margin: losses below it do not matter. By default that of the first run.
        as_json: print the result as JSON.
    """
    from rich.console import Console

    from fairspan.cli.gate import fail_on_changes, read_conditions
    from fairspan.cli.showing import print_json, say_unfinished
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_table
    from fairspan.runs.header import FORMAT
    from fairspan.studies.logs import changes, read_log
    from fairspan.studies.logs import compare as compare_logs

    conditions = read_conditions("compare", failing.get("fail_if"))
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
            console.print(f"{change.name}: {change.sentence}", soft_wrap=True, highlight=False)
        for table in tables:
            if table.brief:
                print_table(console, table)
    fail_on_changes(compared, conditions)
