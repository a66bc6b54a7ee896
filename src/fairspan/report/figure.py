"""Charts of bars and lines as matplotlib figures, and `draw` for every kind of chart."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.report.chart import Chart, Panel, Series, tick_text, ticks
from fairspan.report.figure_rows import draw_rows
from fairspan.report.style import (
    DASHES,
    INK,
    PALE,
    WIDEST,
    Look,
    finish,
    house_style,
    look_of,
    make_grid,
    require_matplotlib,
    wrapped,
)
from fairspan.report.text import cleaned, size_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches: of a bar, of a place drawn as a point, of a panel at least, of heights.
_BAR = 0.12
_POINT = 0.3
_NARROWEST = 1.75
_HEIGHT = 2.5
_LOW_HEIGHT = 1.7
_STRIP_HEIGHT = 0.3
# Beside a legend, and of a line in it.
_LEGEND_MARGIN = 0.1
_LEGEND_LINE = 0.19
_LETTERS_PER_INCH = 12.0
# More labels than these are thinned out.
_MOST_LABELS = 12


def draw(chart: Chart) -> Figure:
    """The figure of a chart."""
    require_matplotlib()
    chart = cleaned(chart)
    with house_style():
        return draw_rows(chart) if chart.kind == "rows" else _draw_panels(chart)


def _draw_panels(chart: Chart) -> Figure:
    """A figure of one or several panels of bars or lines, with one legend."""
    lines = _lay_out(chart)
    columns = max(len(line) for line in lines)
    bars, width = _panel_width(chart, columns)
    strips = any(panel.strip for panel in chart.panels)
    height = _HEIGHT if len(chart.panels) < 4 else _LOW_HEIGHT
    heights = [height, _STRIP_HEIGHT] if strips else [height]
    size = (max(6.4, 0.7 + width * columns), 1.1 + (sum(heights) + 0.45) * len(lines))
    figure, grid = make_grid(
        size, len(heights) * len(lines), columns, height_ratios=heights * len(lines)
    )
    for row, line in enumerate(lines):
        for column, panel in enumerate(line):
            axes = grid[row * len(heights)][column]
            axes.set_axis_on()
            _draw_panel(axes, chart, panel, bars=bars, width=width)
            lowest = axes
            if panel.strip:
                lowest = grid[2 * row + 1][column]
                lowest.set_axis_on()
                _draw_strip(lowest, panel.strip, chart.largest, named=column == 0)
            if len(chart.panels) > 1:
                title = f"{panel.title}, {panel.heading}" if panel.heading else panel.title
                title = "\n".join(wrap(title, max(20, int(width * 14))))
                # Below the strip of another panel, a title needs more room.
                axes.set_title(title, fontsize=9, pad=12.0 if row and strips else 6.0)
            if row == len(lines) - 1 or panel.x_label or column >= len(lines[row + 1]):
                lowest.set_xlabel(panel.x_label or chart.x_label)
            if panel.y_label or column == 0:
                axes.set_ylabel(panel.y_label or chart.y_label)
            else:
                axes.tick_params(labelleft=False)
    has_dashes = any(
        panel.reference is not None or any(series.dashed for series in panel.series)
        for panel in chart.panels
    )
    words = "\n".join(wrap(chart.below, int(1.2 * _LETTERS_PER_INCH * size[0])))
    _add_legend(figure, chart.dashes if has_dashes else "", words)
    return finish(figure, chart.title, chart.subtitle)


def _lay_out(chart: Chart) -> list[list[Panel]]:
    """The panels in lines: one for each heading, or as many side by side as fit."""
    rows = [panels for _, panels in chart.rows(chart.panels)]
    if len(rows) > 1:
        return rows
    panels = rows[0]
    _, width = _panel_width(chart, min(len(panels), 4))
    most = max(1, min(len(panels), int(WIDEST // width)))
    lines = -(-len(panels) // most)
    across = -(-len(panels) // lines)
    return [panels[start : start + across] for start in range(0, len(panels), across)]


def _panel_width(chart: Chart, columns: int) -> tuple[bool, float]:
    """Whether bars are wide enough to be seen, and the width of a panel in inches."""
    places = max(len(panel.labels) for panel in chart.panels)
    if chart.kind == "lines":
        return False, max(2.6, 6.4 / columns)
    treatments = max(len(panel.series) for panel in chart.panels)
    wanted = _BAR * places * treatments / 0.8 + 0.3
    if columns * wanted <= WIDEST:
        return True, max(wanted, _NARROWEST, 5.6 / columns)
    return False, max(_NARROWEST, _POINT * places + 0.4)


def _draw_panel(axes: Any, chart: Chart, panel: Panel, *, bars: bool, width: float) -> None:
    """The series of a panel, its axes, and the lines that say what is fair, read or none."""
    where = np.arange(len(panel.labels), dtype=np.float64)
    if chart.kind == "lines":
        where = np.array(panel.spots) * max(1, len(panel.labels) - 1)
    for series in panel.series:
        if series.dashed:
            # The mark shows a bound that is known at one place only.
            style: dict[str, Any] = {"linestyle": DASHES, "linewidth": 1.2}
            style |= {"marker": "_", "markersize": 6, "color": look_of(series.number).colour}
            axes.plot(where, _ends(series)[0], label=f"_{series.name}", **style)
        else:
            _draw_series(axes, chart, panel, series, where, bars=bars)
    low, high = chart.domain(panel)
    # Marks at a fixed end are not cut in half.
    marks_at_end = chart.kind == "lines" and (chart.fixed or chart.by_row)
    headroom = 0.03 * (high - low) if marks_at_end else 0.0
    axes.set_ylim(low, high + headroom)
    marks = ticks(low, high)
    axes.set_yticks(marks, [tick_text(mark, marks, chart.form) for mark in marks])
    _label_places(axes, panel, where, width)
    if chart.kind == "bars":
        axes.tick_params(axis="x", length=0)
        if low < 0:
            axes.axhline(0, color=INK, linewidth=0.8, label="_zero")
    if panel.reference is not None:
        axes.axhline(panel.reference, color=INK, linestyle=DASHES, linewidth=0.9, zorder=0)
    if panel.edge is not None:
        place, meaning = panel.edge
        axes.axvline(place * max(where), color=INK, linestyle=":", linewidth=1.2, zorder=0)
        # Above the axes, where no data are, and not beyond their end.
        at = {"xy": (place * max(where), 1.01), "xycoords": ("data", "axes fraction")}
        side = "left" if place < 0.5 else "right"
        axes.annotate(meaning, **at, ha=side, va="bottom", fontsize=8)
    if chart.band is not None:
        axes.axhspan(*chart.band, color=PALE, alpha=0.5, linewidth=0, zorder=0, label="_band")


def _label_places(axes: Any, panel: Panel, where: np.ndarray, width: float) -> None:
    """The labels of the horizontal axis, thinned out where there are too many."""
    count = len(panel.labels)
    every = -(-count // _MOST_LABELS)
    # Labels that are apart are no steps of a scale, and none can be guessed.
    places = [*range(0, count - panel.apart, every), *range(count - panel.apart, count)]
    letters = max(6, int(_LETTERS_PER_INCH * width / max(1, len(places))))
    labels = [wrapped(panel.labels[place], letters) for place in places]
    axes.set_xticks([where[place] for place in places], labels)
    axes.set_xlim(-0.6, max(where, default=0.0) + 0.6)


def _draw_series(
    axes: Any, chart: Chart, panel: Panel, series: Series, where: np.ndarray, *, bars: bool
) -> None:
    """One treatment at the places [N], beside the others of its panel."""
    solid = [other for other in panel.series if not other.dashed]
    room = 0.0
    if chart.kind == "bars":
        room = 0.8 if bars else min(0.5, 0.12 * len(solid))
    from_middle = solid.index(series) - (len(solid) - 1) / 2
    beside = where + from_middle * room / max(1, len(solid))
    values = _ends(series)
    look = look_of(series.number)
    label = series.legend or series.name
    if not bars or chart.dots:
        # Lines keep their places; only the marks are a few points apart.
        shift = 4.0 * from_middle if chart.kind == "lines" else 0.0
        line = "none" if chart.dots else "-"
        # A line does not cross an unknown point.
        gaps = range(len(where) - panel.apart, len(where))
        beside = np.insert(beside, gaps, np.nan)
        values = np.insert(values, gaps, np.nan, axis=1)
        _draw_curve(axes, beside, values, look, label, shift, line)
        return
    fill: dict[str, Any] = {"color": look.colour, "hatch": look.hatch, "edgecolor": "white"}
    whiskers = {"elinewidth": 1, "capsize": 2, "ecolor": INK}
    fill |= {"linewidth": 0, "yerr": _reach(values), "error_kw": whiskers}
    axes.bar(beside, values[0], room / len(solid) * 0.94, label=label, **fill)


def _draw_curve(
    axes: Any,
    where: np.ndarray,
    values: np.ndarray,
    look: Look,
    label: str,
    shift: float,
    line: str,
) -> None:
    """Points with their intervals on a line; `shift` moves how they are drawn, not their data."""
    from matplotlib.transforms import ScaledTranslation

    style: dict[str, Any] = {"marker": look.marker, "markersize": 4.5, "markeredgewidth": 0.4}
    style |= {"markeredgecolor": "white", "color": look.colour, "linestyle": line}
    style |= {"linewidth": 1.4, "elinewidth": 0.9, "capsize": 2}
    container = axes.errorbar(where, values[0], yerr=_reach(values), label=label, **style)
    if shift:
        moved = axes.transData + ScaledTranslation(shift / 72, 0, axes.figure.dpi_scale_trans)
        for artist in container.get_children():
            artist.set_transform(moved)


def _draw_strip(axes: Any, sizes: Sequence[float], longest: float, *, named: bool) -> None:
    """Grey bars with their numbers: the lengths of what is above."""
    axes.bar(range(len(sizes)), sizes, 0.8, color=PALE, label="_size")
    for place, size in enumerate(sizes):
        inside = size > longest / 2
        height = size / 2 if inside else size + longest / 20
        va = "center" if inside else "bottom"
        axes.text(place, height, size_text(size), ha="center", va=va, fontsize=7, color=INK)
    axes.set_xlim(-0.6, len(sizes) - 0.4)
    axes.set_ylim(0, longest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    if named:
        axes.set_ylabel("tokens", rotation=0, ha="right", va="center", fontsize=7.5, color=INK)


def _add_legend(figure: Figure, dashes: str, words: str) -> None:
    """Words, and what the marks and the dashes mean, below all panels, in columns that fit."""
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if dashes:
        handles[dashes] = Line2D([], [], color=INK, linestyle=DASHES, linewidth=1.2)
    if not handles:
        return
    width = figure.get_figwidth() - 2 * _LEGEND_MARGIN
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=columns,
            title=words or None,
            title_fontsize=8,
        )
        if columns == 1 or legend.get_window_extent().width / figure.dpi <= width:
            break
        legend.remove()
    # A legend of many rows is not to take the room of the panels.
    further_rows = -(-len(handles) // columns) - 1 + len(words.splitlines())
    figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * further_rows)


def _ends(series: Series) -> np.ndarray:
    """[3, N]: values and the ends of their intervals, NaN where they are unknown."""
    ends = [
        (np.nan,) * 3 if point is None else (point.estimate, point.low, point.high)
        for point in series.points
    ]
    return np.array(ends, dtype=np.float64).reshape(-1, 3).T


def _reach(values: np.ndarray) -> np.ndarray:
    """[2, N]: lengths of error bars, NaN where an interval is unknown, which draws none."""
    return np.asarray(np.abs(np.stack([values[0] - values[1], values[2] - values[0]])))
