"""An evaluation's results in the terminal: advice first, then the tables, then where the log lies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairspan.report.temperature_grid_terminal import print_grid
from fairspan.report.terminal import bar, folded_tables, line, minus
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.by_length import LengthGroup
from fairspan.studies.evaluate.summary import Change, RetrievalSummary
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid

COLOURS = {"use": "green", "documents only": "green", "leave": "red", "more data": "yellow"}
# Of a line of the chart besides the bar: the position, the mean, the interval and the gaps.
_BESIDE_THE_BAR = 42


def print_search(console: Console, summary: RetrievalSummary, grid: TemperatureGrid | None = None) -> None:
    """What to do first, then the picture, then the numbers. The arms of a grid stand in its own table."""
    log = summary.log
    if grid is not None:
        summary = summary.without(grid.arms)
    task, seconds = log.header["task"], log.header["timings"].get("seconds")
    counted = [f"{task[what]:,} {what}" for what in ("queries", "documents") if task.get(what)]
    counted += [f"{task['indexes']} indexes"] if task["indexes"] > 1 else []
    counted += [f"{seconds:.0f} s"] if seconds is not None else []
    line(console, f"{log.model} on {task['source']}: {', '.join(counted)}")
    for note in log.notes:
        line(console, f"note: {note}", style="yellow")
    if summary.advice:
        console.print()
        console.print(advice_lines(summary, console.width))
    if grid is not None:
        console.print()
        print_grid(console, grid)
    for plan in summary.plans if len(summary.plans) < 3 else summary.plans[1:]:
        if summary.result(summary.baseline, summary.metrics[0], plan).groups:
            console.print()
            console.print(position_chart(summary, plan, console.width))
    console.print()
    for table in quality_tables(summary):
        console.print(table)
    if len(summary.arms) > 1 or grid is not None:
        line(console, "p: randomisation test over clusters of queries, Holm-corrected over the arms", style="dim")
    if summary.runs and task["positions"] == "fifths":
        for table in run_tables(summary, console.width):
            console.print()
            console.print(table)
    if len({arm.index for arm in summary.arms}) > 1:
        console.print()
        console.print(cost_table(summary))
    line(console, f"log: {log.folder}")


def advice_lines(summary: RetrievalSummary, width: int = 80) -> RenderableType:
    """One line a treatment."""
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", max_width=max(30, width // 3))
    table.add_column(overflow="fold")
    for advice in summary.advice:
        table.add_row(Text(advice.treatment, style="bold"), Text(advice.sentence, style=COLOURS[advice.kind]))
    return table


def position_chart(summary: RetrievalSummary, plan: str = "", width: int = 80) -> RenderableType:
    """The first metric by position, one block a treatment, all on one scale."""
    metric = summary.metrics[0]
    results = [summary.result(arm, metric, plan) for arm in summary.arms if arm.index == summary.baseline.index]
    top = max(mean.estimate for result in results for mean in result.effects.groups)
    longest = max(8, min(44, width - _BESIDE_THE_BAR))
    unit = longest / top if top > 0 else 0.0
    where = summary.log.header["task"]["positions"]
    title = f"{metric} by {'segment' if where == 'segments' else 'fifth'} of the evidence"
    lines: list[RenderableType] = [Text(title + (f", {plan}" if plan else ""))]
    for result in results:
        lines.append(Text(str(result.arm), style="bold"))
        block = Table.grid(padding=(0, 1))
        for name, mean in zip(result.groups, result.effects.groups, strict=True):
            drawn = Text(bar(mean.estimate * unit), style="bright_black" if result is results[0] else "cyan")
            drawn.pad_right(longest - len(drawn))
            block.add_row(f" {name}", drawn, f"{mean.estimate:.3f}", Text(_bounds(mean), style="dim"))
        lines.append(block)
    return Group(*lines)


def quality_tables(summary: RetrievalSummary, plan: str = "") -> list[RenderableType]:
    """The first metric with its change, and beside it what else was measured."""
    first, *others = summary.metrics
    positions = bool(summary.result(summary.baseline, first, plan).groups)
    main = _table([first, "change [95 %]", "p", *(["PSI"] if positions else [])])
    for arm in summary.arms:
        effects = summary.result(arm, first, plan).effects
        cells = [f"{effects.overall.estimate:.3f}", *_changed(summary.change(arm, first, plan))]
        cells += [_short(effects.psi, 2)] if positions else []
        main.add_row(Text(str(arm)), *cells)
    if not others and not positions:
        return [main]
    rest = _table([*([f"harmonic {first}"] if positions else []), *others])
    for arm in summary.arms:
        found = [summary.result(arm, first, plan).effects.harmonic] if positions else []
        found += [summary.result(arm, metric, plan).effects.overall for metric in others]
        rest.add_row(Text(str(arm)), *(_short(one, 3) for one in found))
    return [main, rest]


def length_tables(groups: Sequence[LengthGroup]) -> list[RenderableType]:
    """What length does to a search: a table for each group of queries or documents."""
    tables: list[RenderableType] = []
    for name in dict.fromkeys(group.group for group in groups):
        own = [group for group in groups if group.group == name]
        least, most = own[0].tokens
        what = "mean rank" if own[0].measure == "rank" else own[0].measure
        table = _table([what, "change [95 %]"], f"{name}: {own[0].count} of {least} to {most} tokens")
        for group in own:
            change = "" if group.change is None else _signed(group.change)
            table.add_row(Text(str(group.arm)), f"{group.value.estimate:.{1 if what == 'mean rank' else 3}f}", change)
        tables.append(table)
    return tables


def run_tables(summary: RetrievalSummary, width: int = 80) -> list[RenderableType]:
    """The first metric by the tokens that lie before the evidence."""
    first = summary.runs[0]
    counted = zip(first.groups, first.effects.counts.group_queries, strict=True)
    columns = [f"{name} ({count})" for name, count in counted]
    rows = [[str(one.arm), *(f"{mean.estimate:.3f}" for mean in one.effects.groups)] for one in summary.runs]
    title = f"{summary.metrics[0]} by tokens before the evidence (queries)"
    return folded_tables(title, columns, rows, width, first="documents and queries")


def cost_table(summary: RetrievalSummary) -> RenderableType:
    """What each index costs beside what it finds."""
    metric = summary.metrics[0]
    table = _table(["vectors a document", "MiB", "tokens read", "seconds", metric], "what an index costs")
    for arm in summary.arms:
        cost, quality = summary.cost(arm), summary.result(arm, metric).effects.overall.estimate
        table.add_row(
            Text(str(arm)),
            f"{cost['vectors'] / cost['searched_documents']:.1f}",
            f"{cost['bytes'] / 2**20:.1f}",
            f"{cost['tokens']:,}",
            "stored" if cost["seconds"] is None else f"{'~' if cost['estimated'] else ''}{cost['seconds']:.0f}",
            f"{quality:.3f}",
        )
    return table


def change_tables(changes: Sequence[Change]) -> list[RenderableType]:
    """Changes between two runs, a table for each pair of treatments and index."""
    tables: list[RenderableType] = []
    for arm in dict.fromkeys(change.arm for change in changes):
        title = arm.treatment if arm.index == "whole" else f"{arm.treatment}, {arm.index}"
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("metric", no_wrap=True)
        for name in ("queries", "change [95 %]", "p", "change of PSI [95 %]"):
            table.add_column(name, justify="right", no_wrap=True)
        for one in changes:
            if one.arm == arm:
                queries = str(one.change.counts.queries)
                table.add_row(one.metric, queries, *_changed(one), _signed(one.change.psi))
        tables.append(table)
    return tables


def _table(columns: Sequence[str], title: str | None = None) -> Table:
    """A table with one row an arm."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("documents and queries", overflow="fold", min_width=16)
    for name in columns:
        table.add_column(name, justify="right", no_wrap="95 %" in name)
    return table


def _changed(change: Change | None) -> list[str]:
    if change is None:
        return ["", ""]
    p_value = change.p_value
    shown = "–" if p_value != p_value else "<.001" if p_value < 0.001 else f"{p_value:.3f}"
    return [_signed(change.change.overall), shown]


def _signed(interval: Interval) -> str:
    if interval.estimate != interval.estimate:
        return "–"
    if interval.low != interval.low:
        return minus(f"{interval.estimate:+.3f}")
    return minus(f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]")


def _short(interval: Interval, digits: int) -> str:
    return "–" if interval.estimate != interval.estimate else f"{interval.estimate:.{digits}f}"


def _bounds(interval: Interval) -> str:
    if interval.low != interval.low:
        return ""
    return f"[{interval.low:.3f}, {interval.high:.3f}]"
