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

    from fairspan.report.beside_published import Beside
    from fairspan.runs.log import AuditLog
    from fairspan.studies.audit.comparison import Comparison


def compare(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    other: Annotated[
        Path | None, typer.Argument(help="A second run on the same documents. Default: compare inside the first.")
    ] = None,
    treatments: Annotated[
        str | None, typer.Option(help="Two treatments, such as none,paper: the first run's and the second's.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Set the run beside the published coefficients instead.")
    ] = False,
    like: Annotated[
        str | None, typer.Option(help="The published model to compare with, mGTE or jina-v3. Default: the run's own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two treatments or two runs, document by document, or a run with the published tables.

    Without a second run every treatment is compared with the run's first one. Differences are taken between the same
    documents, so they are known better than either side alone.

    Examples:

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d

        fairspan compare fairspan-runs/bge-m3-1a2b3c4d fairspan-runs/e5-5e6f7a8b --treatments none,none

        fairspan compare fairspan-runs/gte-multilingual-base-9c0d1e2f --published

    Two evaluations are compared in the same way, query by query.
    """
    from rich.console import Console

    from fairspan.report.beside_published import beside_published
    from fairspan.runs.log import read_log
    from fairspan.studies.audit.comparison import Side, compare_sides, sides_to_compare
    from fairspan.studies.audit.summary import summarize

    first = read_log(run)
    if (published or like is not None) and first.header.get("verb") != "audit":
        raise LogError(f"the published tables are of audits, and {first.run} belongs to {first.header.get('verb')}.")
    if published or like is not None:
        if other is not None:
            raise LogError("the published tables take the place of a second run: name one run.")
        beside = beside_published(summarize(first), like)
        if as_json:
            typer.echo(json.dumps([one.to_dict() for one in beside], ensure_ascii=False, indent=2))
        else:
            _print_beside(Console(), beside)
        return
    second = None if other is None else read_log(other)
    named = words(treatments)
    if "evaluate" in (first.header.get("verb"), *([] if second is None else [second.header.get("verb")])):
        _compare_evaluations(first, second, named, as_json)
        return
    if named is None:
        pairs = sides_to_compare(first, second)
    elif len(named) == 2:
        pairs = [(Side(first, named[0]), Side(second or first, named[1]))]
    else:
        raise LogError(f"--treatments names two treatments, such as none,paper, got {treatments!r}.")
    found = [comparison for pair in pairs for comparison in compare_sides(*pair)]
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], ensure_ascii=False, indent=2))
    else:
        _print_comparisons(Console(), found, across=second is not None)


def _compare_evaluations(first: AuditLog, second: AuditLog | None, named: list[str] | None, as_json: bool) -> None:
    from rich.console import Console

    from fairspan.report.retrieval_terminal import change_tables
    from fairspan.studies.audit.comparison import sides_to_compare
    from fairspan.studies.evaluate.summary import compare_searches

    verbs = {log.header.get("verb") for log in (first, second) if log is not None}
    if len(verbs) > 1:
        raise LogError("an audit and an evaluation have nothing to compare: name two runs of the same kind.")
    if named is not None and len(named) != 2:
        raise LogError(f"--treatments names two treatments, such as none,paper, got {','.join(named)!r}.")
    if named is not None:
        pairs = [(named[0], named[1])]
    else:
        pairs = [(one.treatment, two.treatment) for one, two in sides_to_compare(first, second)]
    found = [change for pair in pairs for change in compare_searches(first, second or first, pair)]
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


def _print_beside(console: Console, beside: list[Beside]) -> None:
    from rich.table import Table

    from fairspan.published.coefficients import SOURCE

    for measure, treatment in dict.fromkeys((one.measure, one.treatment) for one in beside):
        table = Table(title=f"{measure}, {treatment}", title_justify="left")
        for name in ("plan", "n", ""):
            table.add_column(name)
        for name in ("measured", "95 %", "published", "table", "agrees"):
            table.add_column(name, justify="right")
        for one in beside:
            if (one.measure, one.treatment) == (measure, treatment):
                table.add_row(*_beside_row(one), end_section=one.position == one.n)
        console.print(table)
    for note in dict.fromkeys(one.note for one in beside if one.note):
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    agreeing = sum(one.agrees for one in beside)
    console.print(f"{agreeing} of {len(beside)} published coefficients lie in the measured intervals.")
    console.print(f"published: {SOURCE}", soft_wrap=True)


def _beside_row(one: Beside) -> list[str]:
    first = one.position == 1
    numbers = [
        f"{one.measured:.3f}{one.marker}",
        f"[{one.low:.3f}, {one.high:.3f}]",
        f"{one.printed}{one.published_marker}",
    ]
    return [
        one.plan if first else "",
        str(one.n) if first else "",
        f"β{0 if first else one.position}",
        *(number.replace("-", "−") for number in numbers),
        str(one.table),
        "yes" if one.agrees else "no",
    ]
