"""A view in the terminal: verdicts first, then charts as bars, then tables that fit the width."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from fairspan.report.chart import Chart
from fairspan.report.cleaning import cleaned
from fairspan.report.table import Table, Tone, tone_of
from fairspan.report.text import number, printable, with_ends
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
            for renderable in bars(chart, console.width) if chart.brief else ():
                console.print()
                console.print(renderable)
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


def bars(chart: Chart, width: int = 80) -> list[RenderableType]:
    """Horizontal bars: a block for each panel, in it one for each series, all on one scale."""
    heads, longest = _bar_widths(chart, width)
    blocks: list[RenderableType] = []
    for title, rows in chart.panels():
        # Lines may be drawn on an axis without 0, and bars are not.
        ends = (0.0, *chart.domain(rows))
        unit = longest / (max(ends) - min(ends))
        level = None if chart.level is None else (chart.level[0] - min(ends)) * unit
        lines = [Text(_bar_title(chart, title))]
        for name in chart.names:
            series = rows.filter(rows[chart.by].cast(str) == name)
            if len(series) and name != title:
                lines.append(Text(name, style="bold"))
            style = "bright_black" if name == chart.names[0] else "cyan"
            for row in series.iter_rows(named=True):
                line = Text(f"  {_fitted(str(row[chart.label or chart.x]), heads)} ")
                length = (row[chart.y] or 0.0) * unit
                drawn = set_cell_size(bar(length, -min(ends) * unit), longest)
                line.append_text(_marked(Text(drawn, style=style), level))
                estimate = number(row[chart.y], chart.form)
                line.append(f" {estimate}")
                line.append(_written(chart, row).removeprefix(estimate), style="dim")
                lines.append(line)
        blocks.append(Group(*lines))
    return blocks


def _bar_title(chart: Chart, panel: str) -> str:
    """What the bars of a panel show."""
    measured = panel if chart.free else chart.y_title
    title = f"{measured} by {chart.x_title or chart.x}"
    if panel and not chart.free:
        title += f" ({panel})"
    return title if chart.level is None else f"{title}; {_REFERENCE} {chart.level[1]}"


def _bar_widths(chart: Chart, width: int) -> tuple[int, int]:
    """The characters of the labels and of the longest bar, for all panels of a chart."""
    rows = chart.frame.to_dicts()
    numbers = max((cell_len(_written(chart, row)) for row in rows), default=0)
    label = max((cell_len(str(row[chart.label or chart.x])) for row in rows), default=0)
    room = width - numbers - 4
    head = min(_LONGEST_HEAD, max(_SHORTEST_HEAD, room - _SHORTEST_BAR), label)
    return head, max(_SHORTEST_BAR, min(_LONGEST_BAR, room - head))


def _fitted(label: str, width: int) -> str:
    """A label in so many characters."""
    shortened = label if cell_len(label) <= width else f"{set_cell_size(label, width - 1)}…"
    return set_cell_size(shortened, width)


def _written(chart: Chart, row: Mapping[str, Any]) -> str:
    """A number, and its note or its interval."""
    if chart.note is None:
        low, high = map(row.get, chart.ends)
        return with_ends(row[chart.y], low, high, chart.form)
    return f"{number(row[chart.y], chart.form)} {row[chart.note]}".rstrip()


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
    columns = list(table.cells.values())
    names = [f"{column.group}\n{column.name}".strip() for column in columns]
    count = len(table.heads)
    needed = [_column_width(table, count + place, name) for place, name in enumerate(names)]
    heads = [_head_width(table, place) for place in range(count)]
    most = _LONGEST_HEAD
    if sum(heads) + 2 * count + max(needed, default=0) >= width:
        # Half of the width for the heads at most.
        most = min(most, max(_SHORTEST_HEAD, width // (2 * max(1, count)) - 2))
    room = max(_SHORTEST_HEAD, width - sum(min(most, head) + 2 for head in heads) - 1)
    parts: list[list[int]] = [[]]
    taken = 0
    for place, need in enumerate(needed):
        if parts[-1] and taken + min(room, need) > room:
            parts.append([])
            taken = 0
        parts[-1].append(place)
        taken += min(room, need)
    grids = []
    for part in parts:
        grid = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for heading in table.headings:
            grid.add_column(Text(heading), overflow="fold", max_width=most)
        for place in part:
            justify: Literal["left", "right"] = (
                "right" if columns[place].align == "right" else "left"
            )
            least = min(room, needed[place]) - 2
            grid.add_column(Text(names[place]), justify=justify, overflow="fold", min_width=least)
        _add_rows(grid, table, part)
        grids.append(grid)
    # Not as the title of the table, which would be broken to its width.
    return [Group(Text(table.title, overflow="fold"), grids[0]), *grids[1:]]


def _add_rows(grid: RichTable, table: Table, part: Sequence[int]) -> None:
    """The heads of every row, once for each group, and some of its cells."""
    heads = len(table.heads)
    repeated = iter(table.repeated)
    groups = table.groups
    for group in groups:
        apart = bool(table.grouped) and len(group) > 1 and group is not groups[-1]
        for row in group:
            count = next(repeated)
            names = [Text(head) for head in ("",) * count + row[count:heads]]
            texts = [row[heads + place] for place in part]
            cells = [Text(text, style=COLOURS[tone_of(text)]) for text in texts]
            grid.add_row(*names, *cells, end_section=apart and row is group[-1])


def _head_width(table: Table, place: int) -> int:
    """What a column of heads needs."""
    texts = [table.headings[place], *(row[place] for row in table.rows)]
    return min(_LONGEST_HEAD, max(cell_len(text) for text in texts))


def _column_width(table: Table, place: int, name: str) -> int:
    """What a column needs with the gap behind it; one that wraps takes what is left."""
    longest = max((cell_len(row[place]) for row in table.rows), default=0)
    if table.aligns[place] == "wrap":
        longest = min(longest, _LONGEST_HEAD)
    # A heading may take several lines, one word each.
    return max([longest, *(cell_len(word) for word in name.split())]) + 2
