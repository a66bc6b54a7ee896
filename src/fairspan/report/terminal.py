"""A view in the terminal: verdicts first, then charts as bars, then tables that fit the width."""

from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from fairspan.report.chart import Chart, Panel, Point
from fairspan.report.table import Table, Tone
from fairspan.report.text import UNKNOWN, bounds, cleaned, number, printable
from fairspan.report.view import View

COLOURS: dict[Tone, str] = {"good": "green", "bad": "red", "open": "yellow", "plain": ""}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LONGEST_BAR = 48
_SHORTEST_BAR = 8
_LONGEST_HEAD = 30
_SHORTEST_HEAD = 8
_REFERENCE = "┊"


def print_view(console: Console, view: View, *, ending: str = "", verbose: bool = False) -> None:
    """Everything that a view marks as brief, or all its tables."""
    view = cleaned(view)
    print_line(console, view.heading)
    if view.meaning:
        console.print(Text(view.meaning, style="bold"))
    for note in view.notes:
        print_line(console, f"note: {note}", style="yellow")
    if view.cards:
        console.print()
        console.print(cards(view, console.width))
    for remark in view.remarks:
        print_line(console, remark)
    for section in view.sections:
        for chart in section.charts:
            for panel in chart.shown if chart.brief else ():
                console.print()
                console.print(bars(chart, panel, console.width))
            if chart.brief and chart.below:
                console.print(Text(chart.below))
        for table in (*section.tables, *section.folded):
            if verbose or table.brief:
                print_table(console, table)
    if ending:
        print_line(console, ending)


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """One line as it is: names from outside may hold brackets, and paths are not broken."""
    console.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    console.print()
    for part in tables(table, console.width):
        console.print(part)
    for note in table.notes:
        print_line(console, note, style="dim")


def cards(view: View, width: int = 80) -> RenderableType:
    """The first sentence of each treatment, and below it what else is brief."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=max(20, width // 3))
    grid.add_column(overflow="fold")
    for card in view.cards:
        first = ": ".join(part for part in (card.badge, *card.sentences[:1]) if part)
        grid.add_row(Text(card.name, style="bold"), Text(first, style=COLOURS[card.tone]))
        for sentence in card.sentences[1 : card.brief]:
            grid.add_row("", Text(sentence))
    return grid


def bars(chart: Chart, panel: Panel, width: int = 80) -> RenderableType:
    """A panel as horizontal bars from 0, one block for each series, all panels on one scale."""
    title = ", ".join(part for part in (panel.title, panel.heading, panel.detail) if part)
    fair = "" if panel.reference is None else f"; {_REFERENCE} {chart.dashes}"
    lines: list[RenderableType] = [Text(f"{chart.y_label} by {chart.x_label} ({title}){fair}")]
    head, longest = _bar_widths(chart, width)
    # Lines may be drawn on an axis without 0, and bars are not.
    ends = (0.0, *chart.domain(panel))
    low = min(ends)
    high = max(ends)
    unit = longest / (high - low) if high > low else 0.0
    reference = None if panel.reference is None else (panel.reference - low) * unit
    solid = [series for series in panel.series if not series.dashed]
    for series in solid:
        if series.name != panel.title:
            lines.append(Text(series.name, style="bold"))
        style = "bright_black" if series.number < 1 and series is solid[0] else "cyan"
        for label, point in zip(panel.labels, series.points, strict=True):
            name = label if cell_len(label) <= head else f"{set_cell_size(label, head - 1)}…"
            line = Text(f"  {set_cell_size(name, head)} ")
            lines.append(line)
            if point is None:
                line.append(UNKNOWN)
                continue
            drawn = set_cell_size(bar(point.estimate * unit, -low * unit), longest)
            line.append_text(_marked(Text(drawn, style=style), reference))
            estimate = number(point.estimate, chart.form)
            line.append(f" {estimate}")
            line.append(_numbers(chart, point).removeprefix(estimate), style="dim")
    return Group(*lines)


def _bar_widths(chart: Chart, width: int) -> tuple[int, int]:
    """The characters of the labels and of the longest bar, for all panels of a chart."""
    points = [p for panel in chart.shown for series in panel.series for p in series.points if p]
    numbers = max((cell_len(_numbers(chart, point)) for point in points), default=0)
    labels = [cell_len(label) for panel in chart.shown for label in panel.labels]
    room = width - numbers - 4
    head = min(_LONGEST_HEAD, max(_SHORTEST_HEAD, room - _SHORTEST_BAR), max(labels, default=0))
    return head, max(_SHORTEST_BAR, min(_LONGEST_BAR, room - head))


def _marked(drawn: Text, reference: float | None) -> Text:
    """A bar with the mark of the reference, so many characters from its beginning."""
    place = 0 if reference is None else round(reference)
    if not 0 < place <= len(drawn):
        return drawn
    style = "dim" if drawn.plain[place - 1] == " " else f"{drawn.style} reverse"
    return Text.assemble(drawn[: place - 1], (_REFERENCE, style), drawn[place:])


def bar(length: float, zero: float = 0.0) -> str:
    """A bar from `zero`, to an eighth of a character; to a half of one if it goes to the left."""
    before = max(0, round(zero))
    if length < 0:
        whole, rest = divmod(min(2 * before, round(-length * 2)), 2)
        return " " * (before - whole - rest) + "▐" * rest + "█" * whole
    whole, rest = divmod(round(length * 8), 8)
    return " " * before + "█" * whole + (_EIGHTHS[rest] if rest else "")


def tables(table: Table, width: int = 80) -> list[RenderableType]:
    """One table, or several below each other where the columns do not fit beside the heads."""
    table = cleaned(table)
    names = [f"{column.group}\n{column.name}".strip() for column in table.columns]
    needed = [_column_width(table, place, name) for place, name in enumerate(names)]
    heads = [_head_width(table, place) for place in range(len(table.heads))]
    most = _LONGEST_HEAD
    if sum(heads) + 2 * len(heads) + max(needed, default=0) >= width:
        # Half of the width for the heads at most.
        most = min(most, max(_SHORTEST_HEAD, width // (2 * max(1, len(heads))) - 2))
    room = max(_SHORTEST_HEAD, width - sum(min(most, head) + 2 for head in heads) - 1)
    widths = [min(room, need) for need in needed]
    parts: list[dict[int, tuple[str, int]]] = [{}]
    taken = 0
    for place, column_width in enumerate(widths):
        if parts[-1] and taken + column_width > room:
            parts.append({})
            taken = 0
        parts[-1][place] = (names[place], column_width - 2)
        taken += column_width
    grids = [_part(table, part, most) for part in parts]
    # Not as the title of the table, which would be broken to its width.
    return [Group(Text(table.title, overflow="fold"), grids[0]), *grids[1:]]


def _head_width(table: Table, place: int) -> int:
    """What a column of heads needs."""
    texts = [table.heads[place], *(row.heads[place] for row in table.rows)]
    return min(_LONGEST_HEAD, max(cell_len(text) for text in texts))


def _column_width(table: Table, place: int, name: str) -> int:
    """What a column needs with the gap behind it; one that wraps takes what is left."""
    longest = max((cell_len(row.cells[place].text) for row in table.rows), default=0)
    if table.columns[place].align == "wrap":
        longest = min(longest, _LONGEST_HEAD)
    # A heading may take several lines, one word each.
    return max([longest, *(cell_len(word) for word in name.split())]) + 2


def _part(table: Table, part: dict[int, tuple[str, int]], most: int) -> RenderableType:
    """Some columns, by their names and least widths, beside the heads."""
    grid = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in table.heads:
        grid.add_column(Text(name), overflow="fold", max_width=most)
    for place, (name, least) in part.items():
        right = table.columns[place].align == "right"
        justify: Literal["left", "right"] = "right" if right else "left"
        grid.add_column(Text(name), justify=justify, overflow="fold", min_width=least)
    heads = iter(table.shown_heads())
    groups = table.groups()
    for group in groups:
        apart = bool(table.grouped) and len(group) > 1 and group is not groups[-1]
        for row in group:
            cells = [row.cells[place] for place in part]
            texts = [Text(cell.text, style=COLOURS[cell.tone]) for cell in cells]
            ends = apart and row is group[-1]
            grid.add_row(*(Text(head) for head in next(heads)), *texts, end_section=ends)
    return grid


def _numbers(chart: Chart, point: Point) -> str:
    """A number, and its note or its interval."""
    ends = "" if point.low is None or point.high is None else bounds(point, chart.form)
    return f"{number(point.estimate, chart.form)} {point.note or ends}".rstrip()
