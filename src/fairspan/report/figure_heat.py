"""Heat maps as matplotlib figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.report.chart import HeatCell, HeatMap
from fairspan.report.style import WIDEST, finish, make_grid
from fairspan.report.text import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_heat(heat: HeatMap) -> Figure:
    """One panel for each entry of the switch, light for low numbers and dark for high ones."""
    count = max((len(cell.values) for _, cells in heat.rows for cell in cells if cell), default=1)
    side = max(3.6, 1.25 * len(heat.columns) + 1.2)
    across = min(count, max(1, int(WIDEST // side)))
    down = -(-count // across)
    size = (max(6.4, side * across), 0.7 + (0.6 + 0.75 * len(heat.rows)) * down)
    figure, grid = make_grid(size, down, across)
    for place, axes in enumerate(grid.flat[:count]):
        axes.set_axis_on()
        image = _draw_cells(axes, heat, place)
        leftmost = place % across == 0
        axes.set_xticks(range(len(heat.columns)), heat.columns)
        row_names = [name for name, _ in heat.rows] if leftmost else []
        axes.set_yticks(range(len(heat.rows)), row_names)
        for axis, places in ((axes.xaxis, len(heat.columns)), (axes.yaxis, len(heat.rows))):
            axis.set_ticks(np.arange(places - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=2.5)
        axes.tick_params(which="both", length=0)
        if count > 1 and place < len(heat.entries):
            axes.set_title(heat.entries[place], fontsize=9)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(heat.x_label)
        axes.set_ylabel(heat.y_label if leftmost else "")
    if heat.panels:
        bar = figure.colorbar(image, ax=figure.axes, fraction=0.03, aspect=25)
        bar.set_ticks(list(heat.ends), labels=[number(end, heat.form) for end in heat.ends])
        bar.outline.set_visible(False)
    return finish(figure, heat.title, heat.subtitle)


def _draw_cells(axes: Any, heat: HeatMap, entry: int) -> Any:
    """The image of one entry's numbers, with each number written in its cell."""
    from matplotlib import colormaps

    low, high = heat.ends
    values = [[_value(cell, entry) for cell in cells] for _, cells in heat.rows]
    # Even to the eye, also in grey and with any colour blindness.
    colours = colormaps["cividis_r"]
    image = axes.imshow(np.array(values), cmap=colours, vmin=low, vmax=high, aspect="auto")
    for row, (_, cells) in enumerate(heat.rows):
        for column, cell in enumerate(cells):
            if cell is None:
                continue
            value = values[row][column]
            # Where both inks have the same contrast.
            ink = "white" if heat.level(value) > 0.49 else "#1a1a1a"
            text = number(value, heat.form)
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=9)
    return image


def _value(cell: HeatCell | None, entry: int) -> float:
    """The number of that entry; the only one, where there is one for all."""
    value = None if cell is None else cell.values[min(entry, len(cell.values) - 1)]
    return float("nan") if value is None else value
