"""`fairspan compare RUN [RUN]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairspan.cli.options import AsJson, words
from fairspan.errors import LogError

if TYPE_CHECKING:
    from rich.console import Console

    from fairspan.studies.audit.comparison import Comparison, Side


def compare(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    other: Annotated[
        Path | None, typer.Argument(help="A second run on the same documents. Default: compare within the first.")
    ] = None,
    treatments: Annotated[
        str | None,
        typer.Option(help="Two treatments, such as none,paper: one of the first run and one of the second."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two treatments or two runs, document by document or query by query.

    Without a second run every treatment is compared with the first one of the run. Differences are taken between the
    same documents, so they are known better than either side alone.

    Examples:

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d fairspan-runs/e5-5e6f7a8b --treatments none,none

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d --treatments none,paper --json
    """
    from rich.console import Console

    from fairspan.runs.log import read_log
    from fairspan.studies.audit.comparison import Side, compare_sides, sides_to_compare

    first = read_log(run)
    second = None if other is None else read_log(other)
    verbs = {log.header.get("verb") for log in (first, second or first)}
    if "evaluate" in verbs and len(verbs) > 1:
        raise LogError("an audit and an evaluation have nothing to compare: name two runs of the same kind.")
    if treatments is None:
        pairs = sides_to_compare(first, second)
    else:
        named = words("treatments", treatments)
        if len(named) != 2:
            raise LogError(f"[[treatments]] names two treatments, such as none,paper, got {treatments!r}.")
        pairs = [(Side(first, named[0]), Side(second or first, named[1]))]
    if "evaluate" in verbs:
        _compare_evaluations(pairs, as_json)
        return
    found = [comparison for pair in pairs for comparison in compare_sides(*pair)]
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], ensure_ascii=False, indent=2))
    else:
        _print_comparisons(Console(), found, across=second is not None)


def _compare_evaluations(pairs: list[tuple[Side, Side]], as_json: bool) -> None:
    from rich.console import Console

    from fairspan.report.retrieval_terminal import change_tables
    from fairspan.studies.evaluate.summary import compare_searches

    found = [
        change for one, two in pairs for change in compare_searches(one.log, two.log, (one.treatment, two.treatment))
    ]
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], ensure_ascii=False, indent=2))
    else:
        console = Console()
        for table in change_tables(found):
            console.print(table)


def _print_comparisons(console: Console, found: list[Comparison], *, across: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    if across:
        first, second = found[0].first.log, found[0].second.log
        console.print(f"before: {first.run} ({first.model})\nafter:  {second.run} ({second.model})", soft_wrap=True)
    for measure in dict.fromkeys(one.measure for one in found):
        title = f"{measure}: spread between positions, on the same documents"
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("treatment", overflow="fold", min_width=14)
        for name in ("plan", "n", "docs", "before", "after", "change [95 %]", "p"):
            table.add_column(name, justify="right", no_wrap=True)
        for one in found:
            if one.measure == measure:
                table.add_row(*_comparison_row(one))
        console.print(table)
    console.print("p: of the test that no difference from position 1 has changed", style="dim")
    if any(one.paired.inference == "two-way" for one in found):
        console.print(
            "note: sets share segments; p allows for it, the interval of the change resamples sets and does not",
            style="yellow",
            soft_wrap=True,
        )


def _comparison_row(one: Comparison) -> list[str]:
    before, after = one.spreads
    interval = one.paired.spread
    change = f"{after - before:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]".replace("-", "−")
    same = one.first.treatment == one.second.treatment
    sides = one.first.treatment if same else f"{one.first.treatment} → {one.second.treatment}"
    p_value = one.paired.joint.p_value
    shown = "<.001" if p_value < 0.001 else f"{p_value:.3f}".removeprefix("0")
    return [sides, one.plan, str(one.n), str(one.documents), f"{before:.3f}", f"{after:.3f}", change, shown]
