"""Charts of horizontal bars as matplotlib figures."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from fairspan.errors import FairspanError
from fairspan.report.chart import Chart, Panel, Series, tick_text, ticks
from fairspan.report.style import DASHES, INK, LABEL_WIDTH, finish, look_of, make_grid, wrapped
from fairspan.report.text import UNKNOWN, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_HEIGHT = 0.5
_MOST_ROWS = 100


def draw_rows(chart: Chart) -> Figure:
    """Horizontal bars: one panel per treatment, the first one's values marked in all others."""
    rows = len(chart.panels[0].labels)
    if rows > _MOST_ROWS:
        raise FairspanError(
            f"a picture shows at most {_MOST_ROWS} rows, and this one would have {rows}."
        )
    across = min(4, len(chart.panels))
    down = -(-len(chart.panels) // across)
    labels = [wrapped(label, LABEL_WIDTH) for label in chart.panels[0].labels]
    size = (2.4 + 2.7 * across, 0.9 + (_ROW_HEIGHT * len(labels) + 0.65) * down)
    figure, grid = make_grid(size, down, across, sharex=True, sharey=True)
    domains = [chart.domain(panel) for panel in chart.panels]
    low = min(domain[0] for domain in domains)
    high = max(domain[1] for domain in domains)
    baseline = chart.panels[0].series[0]
    for axes, panel in zip(grid.flat, chart.panels, strict=False):
        axes.set_axis_on()
        _draw_panel(axes, chart, panel, baseline)
        if low < 0:
            axes.axvline(0, color=INK, linewidth=0.8, label="_zero")
    first = grid[0][0]
    first.set_yticks(range(len(labels)), labels, fontsize=8)
    first.set_ylim(len(labels) - 0.5, -0.5)
    # Room at the right for the numbers.
    first.set_xlim(low, high + 0.7 * (high - low))
    marks = ticks(low, high)
    if len(marks) >= 6:
        marks = marks[::2]
    first.set_xticks(marks, [tick_text(mark, marks, chart.form) for mark in marks])
    dashes = f"; dashes: {chart.dashes}" if chart.panels[0].reference is not None else ""
    mark = f"; grey mark: {baseline.name}" if len(chart.panels) > 1 else ""
    figure.supxlabel(f"{chart.y_label}{dashes}{mark}", fontsize=8)
    return finish(figure, chart.title, chart.subtitle)


def _draw_panel(axes: Any, chart: Chart, panel: Panel, baseline: Series) -> None:
    """One treatment's bars, with the marks of the baseline and of the reference."""
    series = panel.series[0]
    _draw_bars(axes, chart, series)
    for row, point in enumerate(baseline.points if series is not baseline else ()):
        if point is not None:
            line = ([point.estimate, point.estimate], [row - 0.36, row + 0.36])
            axes.plot(*line, color=INK, linewidth=2.2, solid_capstyle="butt")
            axes.plot(*line, color=look_of(0).colour, linewidth=1.4)
    if panel.reference is not None:
        axes.axvline(panel.reference, color=INK, linestyle=DASHES, linewidth=1, zorder=3)
    axes.set_title("\n".join([*wrap(panel.title, 38), *wrap(panel.detail)]), fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _draw_bars(axes: Any, chart: Chart, series: Series) -> None:
    """The bars of one treatment with their numbers and notes."""
    colour = look_of(min(series.number, 1)).colour
    style = {"color": colour, "edgecolor": colour, "linewidth": 0.8, "label": f"_{series.name}"}
    hatched = {"facecolor": "none", "edgecolor": "#c8c8c8", "hatch": "////", "linewidth": 0}
    for row, point in enumerate(series.points):
        if point is None:
            _write(axes, UNKNOWN, 0.76, row)
            continue
        axes.barh(row, point.estimate, 0.72, **style)
        if point.void:
            axes.axhspan(row - 0.36, row + 0.36, xmax=0.58, **hatched)
        _write(axes, number(point.estimate, chart.form), 0.76, row)
        _write(axes, point.note, 1.0, row, colour="#666666")


def _write(axes: Any, text: str, right: float, row: float, colour: str = INK) -> None:
    """Text whose right end is at that share of the panel's width."""
    place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
    axes.annotate(text, (right, row), fontsize=8, color=colour, **place)
