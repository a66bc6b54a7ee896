"""A grid of temperatures as a picture: every pair as a cell, and each side alone beside both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.report.figures.style import COLOURS, finish, house_style, short_name, write_figure
from fairspan.report.terminal import minus
from fairspan.studies.evaluate.temperature_grid import GridCell, TemperatureGrid

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Light for a loss, dark for a gain: the order stays in grey, and blue against yellow under colour blindness.
_LOSS, _NONE, _GAIN = "#fdf0cf", "#c9d6df", "#0b4f7d"
# A scale that ends below this would paint noise.
_LEAST_REACH = 0.02
_LINES = (
    ("documents_only", "document side only", COLOURS[1], "s", "--"),
    ("queries_only", "query side only", COLOURS[2], "^", ":"),
    ("both", "both sides", "#333333", "o", "-"),
)


@house_style()
def draw_grid(grid: TemperatureGrid) -> Figure:
    """The figure: every pair on the left; on the right the changes with each side alone, and with both."""
    from matplotlib.figure import Figure

    count = len(grid.temperatures)
    side = max(3.6, 1.2 * count + 0.9)
    figure = Figure(figsize=(side + 5.0, max(3.9, 0.86 * side)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(side, 4.2))
    _draw_cells(figure, left, grid)
    _draw_sides(right, grid)
    where = f"{short_name(grid.model)}, {short_name(grid.task)}"
    under = "" if grid.base.treatment == "none" else f", under {grid.base}"
    return finish(figure, f"Softmax temperature of queries and documents\n{where}{under}")


def save_grid_picture(grid: TemperatureGrid, file: Path) -> None:
    """Draw into a PNG, SVG or PDF."""
    write_figure(draw_grid(grid), file)


def _draw_cells(figure: Figure, axes: Any, grid: TemperatureGrid) -> None:
    changes = np.array([0.0 if one.change is None else one.change.estimate for one in grid.cells])
    count = len(grid.temperatures)
    reach = max(_LEAST_REACH, float(np.nanmax(np.abs(changes))))
    colours = _colours()
    drawn = axes.imshow(changes.reshape(count, count), cmap=colours, vmin=-reach, vmax=reach, aspect="auto")
    for place, cell in enumerate(grid.cells):
        row, column = divmod(place, count)
        dark = changes[place] > 0.3 * reach
        ink = "white" if dark else "#1a1a1a"
        centred = {"ha": "center", "color": ink}
        axes.text(
            column, row - 0.08, f"{cell.value.estimate:.3f}", va="bottom", fontsize=11, weight="bold", **centred
        )
        axes.text(column, row + 0.02, _changed(cell), va="top", fontsize=8, linespacing=1.4, **centred)
        if cell.settled:
            _frame(axes, row, column, ink)
    axes.set_xticks(range(count), [f"{value:g}" for value in grid.temperatures])
    axes.set_yticks(range(count), [f"{value:g}" for value in grid.temperatures])
    axes.set_xticks(np.arange(count - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(count - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="both", length=0, labelsize=9)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("temperature of documents")
    axes.set_ylabel("temperature of queries")
    framed = "; framed: 0 lies outside" if any(cell.settled for cell in grid.cells) else ""
    axes.set_title(f"{grid.metric} and its change from (1, 1) with 95 % interval{framed}", fontsize=9, loc="left")
    bar = figure.colorbar(drawn, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)
    bar.ax.yaxis.set_major_formatter(lambda value, _: minus(f"{value:+.3f}") if value else "0")


def _draw_sides(axes: Any, grid: TemperatureGrid) -> None:
    where = np.arange(len(grid.temperatures))
    for number, (name, label, colour, marker, style) in enumerate(_LINES):
        cells: Sequence[GridCell] = getattr(grid, name)
        values = np.array([_change(cell) for cell in cells])
        reach = np.abs(np.nan_to_num(np.stack([values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]])))
        axes.errorbar(
            where + (number - 1) * 0.09,
            values[:, 0],
            yerr=reach,
            label=label,
            color=colour,
            marker=marker,
            linestyle=style,
            markersize=5,
            linewidth=1.5,
            capsize=2,
            elinewidth=0.9,
        )
    axes.axhline(0, color="#666666", linewidth=0.7, zorder=0)
    axes.set_xticks(where, [f"{value:g}" for value in grid.temperatures])
    axes.set_xlabel("temperature")
    axes.yaxis.set_major_formatter(lambda value, _: minus(f"{value:+.3f}") if abs(value) > 1e-9 else "0")
    axes.set_title(f"change of {grid.metric} with 95 % interval", fontsize=9, loc="left")
    axes.tick_params(labelsize=9)
    axes.legend(frameon=False, fontsize=8, loc="best")
    axes.spines[["top", "right"]].set_visible(False)


def _changed(cell: GridCell) -> str:
    if cell.change is None:
        return "as it comes"
    shown = f"{cell.change.estimate:+.3f}"
    if cell.change.low == cell.change.low:
        shown += f"\n[{cell.change.low:+.3f}, {cell.change.high:+.3f}]"
    return minus(shown)


def _frame(axes: Any, row: int, column: int, colour: str) -> None:
    """Around a change whose interval does not hold 0."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=1.2))


def _change(cell: GridCell) -> tuple[float, float, float]:
    if cell.change is None:
        return 0.0, 0.0, 0.0
    return cell.change.estimate, cell.change.low, cell.change.high


def _colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("temperatures", [_LOSS, _NONE, _GAIN])
