"""A view in the terminal: verdicts first, then charts as bars, then tables that fit the width."""

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
_LONGEST_BAR, _SHORTEST_BAR = 48, 8
_LONGEST_HEAD, _SHORTEST_HEAD = 30, 8
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
    """One line for each treatment."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=max(20, width // 3))
    grid.add_column(overflow="fold")
    for card in view.cards:
        first = ": ".join(part for part in (card.badge, *card.sentences[:1]) if part)
        grid.add_row(Text(card.name, style="bold"), Text(first, style=COLOURS[card.tone]))
    return grid


def bars(chart: Chart, panel: Panel, width: int = 80) -> RenderableType:
    """A panel as horizontal bars, one block for each series, all panels of a chart on one scale."""
    title = ", ".join(part for part in (panel.title, panel.heading, panel.detail) if part)
    fair = "" if panel.reference is None else f"; {_REFERENCE} {chart.dashes}"
    lines: list[RenderableType] = [Text(f"{chart.y_label} by {chart.x_label} ({title}){fair}")]
    low, high = chart.domain(panel)
    every = [one for other in chart.shown for one in other.series]
    numbers = max(
        (cell_len(_numbers(chart, one)) for series in every for one in series.points if one),
        default=0,
    )
    room = width - numbers - 4
    labels = [cell_len(label) for other in chart.shown for label in other.labels]
    head = min(_LONGEST_HEAD, max(_SHORTEST_HEAD, room - _SHORTEST_BAR), max(labels, default=0))
    longest = max(_SHORTEST_BAR, min(_LONGEST_BAR, room - head))
    unit = longest / (high - low) if high > low else 0.0
    for place, series in enumerate(one for one in panel.series if not one.dashed):
        if series.name != panel.title:
            lines.append(Text(series.name, style="bold"))
        style = "bright_black" if series.number < 1 and place == 0 else "cyan"
        for label, one in zip(panel.labels, series.points, strict=True):
            name = label if cell_len(label) <= head else f"{set_cell_size(label, head - 1)}…"
            line = Text(f"  {set_cell_size(name, head)} ")
            if one is not None:
                drawn = Text(
                    set_cell_size(bar(one.estimate * unit, -low * unit), longest), style=style
                )
                line.append_text(
                    _marked(
                        drawn, None if panel.reference is None else (panel.reference - low) * unit
                    )
                )
                shown = number(one.estimate, chart.form)
                line.append(f" {shown}").append(
                    _numbers(chart, one).removeprefix(shown), style="dim"
                )
            else:
                line.append(UNKNOWN)
            lines.append(line)
    return Group(*lines)


def _marked(drawn: Text, reference: float | None) -> Text:
    """A bar with the mark of the reference, so many characters from its beginning."""
    place = 0 if reference is None else round(reference)
    if not 0 < place <= len(drawn):
        return drawn
    style = "dim" if drawn.plain[place - 1] == " " else f"{drawn.style} reverse"
    return Text.assemble(drawn[: place - 1], (_REFERENCE, style), drawn[place:])


def bar(length: float, zero: float = 0.0) -> str:
    """A bar of that many characters from `zero`, to an eighth of one; to a half of one if it goes to the left."""
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
    heads = [
        min(
            _LONGEST_HEAD,
            max([cell_len(name), *(cell_len(row.heads[place]) for row in table.rows)]),
        )
        for place, name in enumerate(table.heads)
    ]
    most = _LONGEST_HEAD
    if sum(heads) + 2 * len(heads) + max(needed, default=0) >= width:
        # Half of the width for the heads at most.
        most = min(most, max(_SHORTEST_HEAD, width // (2 * max(1, len(heads))) - 2))
    room = max(_SHORTEST_HEAD, width - sum(min(most, one) + 2 for one in heads) - 1)
    widths = [min(room, one) for one in needed]
    parts: list[list[int]] = [[]]
    for place, own in enumerate(widths):
        if parts[-1] and sum(widths[other] for other in parts[-1]) + own > room:
            parts.append([])
        parts[-1].append(place)
    made = [
        _part(table, {place: (names[place], widths[place] - 2) for place in part}, most)
        for part in parts
    ]
    # Not as the title of the table, which would be broken to its width.
    return [Group(Text(table.title, overflow="fold"), made[0]), *made[1:]]


def _column_width(table: Table, place: int, name: str) -> int:
    """What a column needs with the gap behind it; one that wraps takes what is left."""
    longest = max((cell_len(row.cells[place].text) for row in table.rows), default=0)
    if table.columns[place].align == "wrap":
        longest = min(longest, _LONGEST_HEAD)
    # A heading may take several lines, one word each.
    return max([longest, *(cell_len(word) for word in name.split())]) + 2


def _part(table: Table, part: dict[int, tuple[str, int]], most: int) -> RenderableType:
    """Some columns, by their names and least widths, beside the heads."""
    made = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in table.heads:
        made.add_column(Text(name), overflow="fold", max_width=most)
    for place, (name, least) in part.items():
        left = table.columns[place].align in ("left", "wrap")
        made.add_column(
            Text(name), justify="left" if left else "right", overflow="fold", min_width=least
        )
    heads = iter(table.shown_heads())
    groups = table.groups()
    for number_of, group in enumerate(groups):
        for row in group:
            shown = [Text(head) for head in next(heads)]
            texts = [
                Text(row.cells[place].text, style=COLOURS[row.cells[place].tone]) for place in part
            ]
            last = row is group[-1] and number_of < len(groups) - 1
            made.add_row(
                *shown, *texts, end_section=last and bool(table.grouped) and len(group) > 1
            )
    return made


def _numbers(chart: Chart, one: Point) -> str:
    """A number, and its note or its interval."""
    ends = "" if one.low is None or one.high is None else bounds(one, chart.form)
    return f"{number(one.estimate, chart.form)} {one.note or ends}".rstrip()
