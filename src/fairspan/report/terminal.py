"""A run's results in the terminal: verdicts, profiles, coefficients, and where the log lies."""

from __future__ import annotations

from collections.abc import Sequence
from math import log as logarithm

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairspan.report.tables import LEGEND, CoefficientTable, coefficient_table
from fairspan.studies.audit.attention import AttentionSummary, Share
from fairspan.studies.audit.summary import Cell, Joint, Summary

COLOURS = {"fair": "green", "biased": "red", "inconclusive": "yellow"}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
# Of a line of the chart besides the bar: the position, the mean, the interval and the gaps.
_BESIDE_THE_BAR = 34
# A column of coefficients with its border: "−0.139◇" and padding.
_COLUMN = 10
# The least width of a column of treatments.
_NAME = 14


def print_summary(console: Console, summary: Summary) -> None:
    """Verdicts first, then the picture, then the numbers."""
    log = summary.log
    header = log.header
    seconds = header["timings"].get("seconds")
    line(
        console,
        f"{log.model} on {header['corpus']['name']}: {header['documents']} documents of "
        f"{', '.join(map(str, log.spec['design']['sizes']))} segments, {', '.join(header['plans'])}"
        + (f", {seconds:.0f} s" if seconds is not None else ""),
    )
    for note in summary.notes:
        line(console, f"note: {note}", style="yellow")
    for measure in summary.measures:
        console.print()
        console.print(verdict_lines(summary, measure))
        for family in _families(summary, measure):
            console.print()
            console.print(profile_chart(family, console.width))
        for table in coefficients(summary, measure, console.width):
            console.print()
            console.print(table)
        console.print(Text(LEGEND, style="dim"))
    for joint in summary.joint:
        line(console, _joint_line(joint))
    for table in attention_tables(summary.attention(), console.width):
        console.print()
        console.print(table)
    line(console, f"log: {log.folder}")


def verdict_lines(summary: Summary, measure: str) -> RenderableType:
    """One line a treatment."""
    table = Table.grid(padding=(0, 2))
    for treatment in summary.treatments(measure):
        kind = summary.worst(measure, treatment).verdict.kind
        table.add_row(Text(treatment, style="bold"), Text(summary.sentence(measure, treatment), style=COLOURS[kind]))
    return table


def profile_chart(cells: list[Cell], width: int = 80) -> RenderableType:
    """Position means as bars, one block a treatment, all on one scale."""
    first = cells[0]
    top = max(float(cell.effects.means.estimate.max()) for cell in cells)
    bottom = min(0.0, *(float(cell.effects.means.estimate.min()) for cell in cells))
    longest = max(8, min(48, width - _BESIDE_THE_BAR))
    unit = longest / (top - bottom) if top > bottom else 0.0
    lines: list[RenderableType] = [
        Text(f"{first.measure} by position ({first.plan}, n={first.n}, {first.effects.clusters} sets)")
    ]
    for cell in cells:
        lines.append(Text(cell.treatment, style="bold"))
        block = Table.grid(padding=(0, 1))
        for position, mean in enumerate(cell.effects.means.estimate, start=1):
            low, high = cell.effects.means.low[position - 1], cell.effects.means.high[position - 1]
            drawn = Text(bar((float(mean) - bottom) * unit), style="cyan" if cell is not first else "bright_black")
            drawn.pad_right(longest - len(drawn))
            interval = Text(f"[{minus(f'{low:.3f}')}, {minus(f'{high:.3f}')}]", style="dim")
            block.add_row(f" {position}", drawn, minus(f"{mean:.3f}"), interval)
        lines.append(block)
    return Group(*lines)


def coefficients(summary: Summary, measure: str, width: int = 80) -> list[RenderableType]:
    """The coefficients in the papers' layout: a table for each plan, of as many treatments as fit side by side."""
    found = coefficient_table(summary, measure)
    at_once = max(1, (width - 12) // _COLUMN)
    tables: list[RenderableType] = []
    for plan in dict.fromkeys(plan for plan, _ in found.columns):
        own = [number for number, column in enumerate(found.columns) if column[0] == plan]
        for start in range(0, len(own), at_once):
            title = Text(f"{measure}, {plan}: β0 is the mean at position 1, βp the difference from it")
            tables.append(Group(title, _block(found, own[start : start + at_once])))
    return tables


def attention_tables(summary: AttentionSummary, width: int = 80) -> list[RenderableType]:
    """Where the pooled row looks, by segment: a table for each size and plan, of the last third of layers and all."""
    tables: list[RenderableType] = []
    for n, plan in summary.families:
        found = {layers: summary.of("attention_segment", n, plan, layers) for layers in ("last third", "all")}
        profiles = [profile for group in found.values() for profile in group]
        if not profiles:
            continue
        held = list(dict.fromkeys(share.part for profile in profiles for share in profile.around))
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", overflow="fold", min_width=_NAME)
        for name in (*(str(share.number) for share in profiles[0].content), *held):
            table.add_column(name, justify="right", no_wrap=True)
        intervals = _NAME + _COLUMN * (len(profiles[0].content) + len(held)) + 4 <= width
        for layers, group in found.items():
            if group:
                table.add_row(Text(f"{layers} of layers" if layers != "all" else "all layers", style="dim"))
            for profile in group:
                others = [share for share in profile.shares if share.part in held]
                shown = [_percent(share, intervals=intervals) for share in (*profile.content, *others)]
                table.add_row(Text(profile.treatment), *shown)
        title = f"attention by segment ({plan}, n={n}, {profiles[0].documents} documents), % of the pooled row's"
        tables.append(Group(Text(title), table))
    return tables


def _percent(share: Share, *, intervals: bool) -> str:
    half = 100 * (share.high - share.estimate)
    return f"{100 * share.estimate:.1f}" + (f" ±{half:.1f}" if intervals and half == half else "")


def _block(found: CoefficientTable, columns: list[int]) -> Table:
    table = Table()
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for number in columns:
        name = Text(found.columns[number][1])
        table.add_column(name, justify="right", overflow="fold", min_width=_COLUMN - 3)
    for (n, position), cells in zip(found.rows, found.cells(digits=3), strict=True):
        first = position == 1
        shown = [cells[number] for number in columns]
        table.add_row(str(n) if first else "", f"β{0 if first else position}", *shown, end_section=position == n)
    return table


def _joint_line(joint: Joint) -> str:
    name = f"{joint.treatment}, n={joint.n}, {joint.measure}, all plans together"
    if joint.model is None:
        return f"{name}: {joint.reason}"
    described = joint.to_dict()
    parts = []
    for effect in ("position", "language"):
        found = described[effect]
        if "reason" in found:
            parts.append(found["reason"])
            continue
        words = ", ".join(
            f"{item['name']} {_signed(item['estimate'])} [{_signed(item['low'])}, {_signed(item['high'])}]"
            for item in found["differences"]
        )
        parts.append(f"{effect} against {found['against']}: {words}")
    slope = described["log_tokens"]["estimate"]
    if slope is not None:
        parts.append(f"a segment twice as long: {_signed(slope * logarithm(2))}")
    return f"{name}: " + "; ".join(parts)


def _families(summary: Summary, measure: str) -> list[list[Cell]]:
    families: dict[tuple[int, str], list[Cell]] = {}
    for cell in summary.cells:
        if cell.measure == measure:
            families.setdefault((cell.n, cell.plan), []).append(cell)
    return list(families.values())


def line(console: Console, text: str, style: str | None = None) -> None:
    """One line as it is: names from outside may hold brackets, and paths are not to be broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def folded_tables(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, first: str = ""
) -> list[RenderableType]:
    """One table, or several below each other where the columns do not fit beside the names."""
    widths = [max(len(name), *(len(row[place]) for row in rows)) + 2 for place, name in enumerate(columns, start=1)]
    room = width - min(30, max(14, *(len(row[0]) for row in rows))) - 4
    parts: list[list[int]] = [[]]
    for place, needed in enumerate(widths):
        if parts[-1] and sum(widths[number] for number in parts[-1]) + needed > room:
            parts.append([])
        parts[-1].append(place)
    tables: list[RenderableType] = []
    for part in parts:
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column(first, overflow="fold", min_width=14, max_width=30)
        for place in part:
            table.add_column(columns[place], justify="right", no_wrap=True)
        for row in rows:
            table.add_row(Text(row[0]), *(row[place + 1] for place in part))
        tables.append(table)
    return tables


def bar(length: float) -> str:
    """A bar of so many characters, to an eighth of one."""
    whole, rest = divmod(max(0, round(length * 8)), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _signed(number: float | None) -> str:
    return "∞" if number is None else minus(f"{number:+.3f}")


def minus(number: str) -> str:
    """A number with a minus sign in place of the hyphen."""
    return number.replace("-", "−")
