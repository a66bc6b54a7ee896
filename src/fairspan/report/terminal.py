"""A view in the terminal: verdicts first, then charts as bars, then tables that fit the width."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.table import Table, Tone
from fairspan.report.text import UNKNOWN, bounds, number
from fairspan.report.view import View

COLOURS: dict[Tone, str] = {"good": "green", "bad": "red", "open": "yellow", "plain": ""}
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LONGEST_BAR, _SHORTEST_BAR = 48, 8
_LONGEST_HEAD = 30


def print_view(console: Console, view: View, *, ending: str = "") -> None:
    """Everything that a view marks as brief."""
    print_line(console, view.heading)
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
        for table in (*section.tables, *section.folded):
            if table.brief:
                print_table(console, table)
    if ending:
        print_line(console, ending)


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """One line as it is: names from outside may hold brackets, and paths are not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_table(console: Console, table: Table) -> None:
    console.print()
    for part in tables(table, console.width):
        console.print(part)
    for note in table.notes:
        print_line(console, note, style="dim")


def cards(view: View, width: int = 80) -> RenderableType:
    """One line for each treatment."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=max(30, width // 3))
    grid.add_column(overflow="fold")
    for card in view.cards:
        first = ": ".join(part for part in (card.badge, *card.sentences[:1]) if part)
        grid.add_row(Text(card.name, style="bold"), Text(first, style=COLOURS[card.tone]))
    return grid


def bars(chart: Chart, panel: Panel, width: int = 80) -> RenderableType:
    """A panel as horizontal bars, one block for each series, all on one scale."""
    title = ", ".join(part for part in (panel.title, panel.heading, panel.detail) if part)
    lines: list[RenderableType] = [Text(f"{chart.y_label} by {chart.x_label} ({title})")]
    low, high = chart.domain(panel)
    names = [set_cell_size(label, min(_LONGEST_HEAD, cell_len(label))) for label in panel.labels]
    head = max(cell_len(name) for name in names)
    beside = 2 + head + 1 + 1 + max(_numbers_width(chart, one) for one in panel.series)
    longest = max(_SHORTEST_BAR, min(_LONGEST_BAR, width - beside))
    unit = longest / (high - low) if high > low else 0.0
    for place, series in enumerate(one for one in panel.series if not one.dashed):
        lines.append(Text(series.name, style="bold"))
        for name, one in zip(names, series.points, strict=True):
            line = Text(f"  {set_cell_size(name, head)} ")
            if one is not None:
                style = "bright_black" if series.number < 1 and place == 0 else "cyan"
                drawn = Text(bar((one.estimate - low) * unit), style=style)
                drawn.pad_right(longest - len(drawn))
                line.append_text(drawn).append(f" {number(one.estimate, chart.form)}")
                ends = one.note or _ends(chart, one)
                line.append(f" {ends}" if ends else "", style="dim")
            else:
                line.append(UNKNOWN)
            lines.append(line)
    return Group(*lines)


def bar(length: float) -> str:
    """A bar of that many characters, to an eighth of one."""
    whole, rest = divmod(max(0, round(length * 8)), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def tables(table: Table, width: int = 80) -> list[RenderableType]:
    """One table, or several below each other where the columns do not fit beside the heads."""
    cells = [[cell.text for cell in row.cells] for row in table.rows]
    names = [f"{column.group}\n{column.name}" if column.group else column.name for column in table.columns]
    widths = [
        max([_longest_word(name), *(cell_len(row[place]) for row in cells)]) + 2 for place, name in enumerate(names)
    ]
    heads = [
        max([cell_len(name), *(min(_LONGEST_HEAD, cell_len(row.heads[place])) for row in table.rows)]) + 2
        for place, name in enumerate(table.heads)
    ]
    room = width - sum(heads) - 2
    parts: list[list[int]] = [[]]
    for place, needed in enumerate(widths):
        if parts[-1] and sum(widths[other] for other in parts[-1]) + needed > room:
            parts.append([])
        parts[-1].append(place)
    return [Text(table.title, overflow="fold"), *(_part(table, part, names, heads, widths) for part in parts)]


def _part(table: Table, part: list[int], names: list[str], heads: list[int], widths: list[int]) -> RenderableType:
    made = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, needed in zip(table.heads, heads, strict=True):
        made.add_column(name, overflow="fold", width=needed - 2)
    for place in part:
        wraps = table.columns[place].align == "wrap"
        left = wraps or table.columns[place].align == "left"
        made.add_column(
            names[place],
            justify="left" if left else "right",
            overflow="fold" if wraps else "ellipsis",
            # Rich would rather break the heads of rows than a heading of two words.
            width=None if wraps else widths[place] - 2,
        )
    shown_heads = iter(table.shown_heads())
    groups = table.groups()
    for number_of, group in enumerate(groups):
        for row in group:
            shown = [Text(head) for head in next(shown_heads)]
            texts = [Text(row.cells[place].text, style=COLOURS[row.cells[place].tone]) for place in part]
            last = row is group[-1] and number_of < len(groups) - 1
            made.add_row(*shown, *texts, end_section=last and bool(table.grouped) and len(group) > 1)
    return made


def _longest_word(name: str) -> int:
    """A heading may take several lines, one word each."""
    return max(cell_len(word) for word in name.split() or [""])


def _numbers_width(chart: Chart, series: Series) -> int:
    return max(
        (
            cell_len(f"{number(one.estimate, chart.form)} {one.note or _ends(chart, one)}")
            for one in series.points
            if one is not None
        ),
        default=0,
    )


def _ends(chart: Chart, one: Point) -> str:
    return "" if one.low is None or one.high is None else bounds(one, chart.form)
