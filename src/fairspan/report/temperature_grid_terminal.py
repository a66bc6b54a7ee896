"""A grid of temperatures in the terminal: one sentence, then a row for each temperature of queries."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fairspan.report.terminal import line, minus
from fairspan.studies.evaluate.temperature_grid import GridCell, TemperatureGrid

STYLES = {"gain": "green", "loss": "red", "": ""}
# Of a cell, and of the column before all cells.
_CELL, _NAMES = 19, 10


def print_grid(console: Console, grid: TemperatureGrid) -> None:
    """What to do, the table, and how to read it."""
    line(console, f"temperatures: {grid.verdict()}", style="bold")
    for table in grid_tables(grid, console.width):
        console.print(table)
    line(
        console,
        "first row: document side only; first column: query side only; change from (1, 1) with its 95 % interval",
        style="dim",
    )


def grid_tables(grid: TemperatureGrid, width: int = 80) -> list[RenderableType]:
    """The grid; several tables below each other where its columns do not fit."""
    fitting = max(1, (width - _NAMES) // _CELL)
    values = grid.temperatures
    tables: list[RenderableType] = []
    for start in range(0, len(values), fitting):
        title = f"{grid.metric} by temperature"
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", no_wrap=True)
        shown = values[start : start + fitting]
        for document in shown:
            table.add_column(f"document {document:g}", justify="right", no_wrap=True)
        for query in values:
            cells = [_written(grid.cell(query, document)) for document in shown]
            table.add_row(f"query {query:g}", *cells, end_section=query != values[-1])
        tables.append(table)
    return tables


def _written(cell: GridCell) -> Text:
    """The value, its change, the interval of that, and p."""
    value = f"{cell.value.estimate:.3f}"
    if cell.change is None:
        return Text(f"{value}\nas it comes\n", style="bold")
    lines = [minus(f"{value}  {cell.change.estimate:+.3f}")]
    if cell.change.low == cell.change.low:
        lines.append(minus(f"[{cell.change.low:+.3f}, {cell.change.high:+.3f}]"))
    if cell.p_value is not None and cell.p_value == cell.p_value:
        lines.append("p <.001" if cell.p_value < 0.001 else f"p {cell.p_value:.3f}")
    return Text("\n".join(lines), style=STYLES[cell.settled])
