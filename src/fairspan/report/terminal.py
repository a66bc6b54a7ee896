"""A run's results in the terminal: verdicts, coefficients, profiles, and where the log lies."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairspan.report.summary import Cell, Joint, Summary
from fairspan.report.tables import LEGEND, coefficient_table

COLOURS = {"fair": "green", "biased": "red", "inconclusive": "yellow"}
_WIDTH = 36
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_summary(console: Console, summary: Summary) -> None:
    """Verdicts first, then the picture, then the numbers."""
    log = summary.log
    header = log.header
    console.print(
        f"{log.model} on {header['corpus']['name']}: {header['documents']} documents of "
        f"{', '.join(map(str, log.spec['design']['sizes']))} segments, {', '.join(header['plans'])}, "
        f"{header['timings']['seconds']:.0f} s"
    )
    for note in log.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    for measure in summary.measures:
        console.print()
        console.print(verdict_lines(summary, measure))
        for cell_group in _families(summary, measure):
            console.print()
            console.print(profile_chart(cell_group))
        console.print()
        console.print(coefficients(summary, measure))
    for joint in summary.joint:
        console.print(_joint_line(joint))
    console.print(f"log: {log.folder}", soft_wrap=True)


def verdict_lines(summary: Summary, measure: str) -> RenderableType:
    """One line a treatment."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for treatment in summary.log.treatments:
        kind = summary.worst(measure, treatment).verdict.kind
        table.add_row(Text(treatment, style="bold"), Text(summary.sentence(measure, treatment), style=COLOURS[kind]))
    return table


def profile_chart(cells: list[Cell]) -> RenderableType:
    """Position means as bars, one block a treatment, all on one scale."""
    first = cells[0]
    top = max(float(cell.effects.means.estimate.max()) for cell in cells)
    bottom = min(0.0, *(float(cell.effects.means.estimate.min()) for cell in cells))
    unit = _WIDTH / (top - bottom) if top > bottom else 0.0
    table = Table.grid(padding=(0, 1))
    for cell in cells:
        for position, mean in enumerate(cell.effects.means.estimate, start=1):
            label = Text(cell.treatment if position == 1 else "", style="bold")
            low, high = cell.effects.means.low[position - 1], cell.effects.means.high[position - 1]
            bar = Text(_bar((float(mean) - bottom) * unit), style="cyan" if cell is not first else "bright_black")
            interval = Text(f"[{low:.3f}, {high:.3f}]", style="dim")
            table.add_row(label, f"{position}", bar, f"{mean:.3f}", interval)
    title = Text(f"{first.measure} by position ({first.plan}, n={first.n}, {first.effects.clusters} sets)")
    return Group(title, table)


def coefficients(summary: Summary, measure: str) -> RenderableType:
    """The coefficient table in the papers' layout."""
    found = coefficient_table(summary, measure)
    several_plans = len({plan for plan, _ in found.columns}) > 1
    table = Table()
    table.add_column("n", justify="right")
    table.add_column("")
    for plan, treatment in found.columns:
        table.add_column(f"{plan}\n{treatment}" if several_plans else treatment, justify="right")
    for (n, position), cells in zip(found.rows, found.cells(digits=3), strict=True):
        first = position == 1
        table.add_row(str(n) if first else "", f"β{0 if first else position}", *cells, end_section=position == n)
    title = Text(f"{measure}: β0 is the mean at position 1, βp the difference from it")
    return Group(title, table, Text(LEGEND, style="dim"))


def _joint_line(joint: Joint) -> RenderableType:
    name = f"{joint.treatment}, n={joint.n}, {joint.measure}, all plans together"
    described = joint.to_dict()
    if joint.model is None:
        return Text(f"{name}: {joint.reason}", style="yellow")
    parts = []
    for effect in ("position", "language"):
        found = described[effect]
        if "reason" in found:
            parts.append(found["reason"])
            continue
        words = ", ".join(
            f"{item['name']} {item['estimate']:+.3f} [{item['low']:+.3f}, {item['high']:+.3f}]"
            for item in found["differences"]
        )
        parts.append(f"{effect} against {found['against']}: {words}".replace("-", "−"))
    slope = described["log_tokens"]
    parts.append(f"doubling a segment's length: {slope['estimate'] * 0.6931471805599453:+.3f}".replace("-", "−"))
    return Text(f"{name}: " + "; ".join(parts))


def _families(summary: Summary, measure: str) -> list[list[Cell]]:
    families: dict[tuple[int, str], list[Cell]] = {}
    for cell in summary.cells:
        if cell.measure == measure:
            families.setdefault((cell.n, cell.plan), []).append(cell)
    return list(families.values())


def _bar(length: float) -> str:
    whole, rest = divmod(max(0, round(length * 8)), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")
