"""Charts and heat maps as matplotlib figures."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import FairspanError
from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Series, tick_text, ticks
from fairspan.report.style import DASHES, INK, PALE, Look, house_style, look_of, require_matplotlib
from fairspan.report.text import UNKNOWN, cleaned, number, size_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches: of a bar, of a place drawn as a point, of a whole figure at most, of a panel at least, of heights.
_BAR, _POINT, _WIDEST, _NARROWEST = 0.12, 0.3, 12.5, 1.75
_HEIGHT, _LOW_HEIGHT, _STRIP, _ROW = 2.5, 1.7, 0.3, 0.5
# Beside a legend, and of a line in it.
_MARGIN, _LINE = 0.1, 0.19
# Letters of a label in a chart of rows, and of others in an inch.
_LABEL_WIDTH, _LETTERS = 32, 12.0
# More labels than these are thinned out, and a chart of more rows than these is not drawn.
_MOST_LABELS, _MOST_ROWS = 12, 100


def draw(chart: Chart | HeatMap) -> Figure:
    """The figure of a chart or a heat map."""
    require_matplotlib()
    chart = cleaned(chart)
    with house_style():
        if isinstance(chart, HeatMap):
            return _draw_heat(chart)
        return _draw_rows(chart) if chart.kind == "rows" else _draw_panels(chart)


def _draw_panels(chart: Chart) -> Figure:
    lines = _lay_out(chart)
    columns = max(len(line) for line in lines)
    bars, width = _panel_width(chart, columns)
    strips = any(panel.strip for panel in chart.panels)
    height = _HEIGHT if len(chart.panels) < 4 else _LOW_HEIGHT
    size = (
        max(6.4, 0.7 + width * columns),
        1.1 + (height + (_STRIP if strips else 0) + 0.45) * len(lines),
    )
    ratios = [height, _STRIP] * len(lines) if strips else [height] * len(lines)
    figure, grid = _grid(size, len(ratios), columns, height_ratios=ratios)
    for row, line in enumerate(lines):
        for column, panel in enumerate(line):
            axes = grid[row * (2 if strips else 1)][column]
            axes.set_axis_on()
            _draw_panel(axes, chart, panel, bars=bars, width=width)
            below = axes
            if panel.strip:
                below = grid[2 * row + 1][column]
                below.set_axis_on()
                _draw_strip(below, panel.strip, chart.largest, named=column == 0)
            if len(chart.panels) > 1:
                title = f"{panel.title}, {panel.heading}" if panel.heading else panel.title
                # Below the strip of another panel, a title needs more room.
                pad = 12.0 if row and strips else 6.0
                axes.set_title(
                    "\n".join(wrap(title, max(20, int(width * 14)))), fontsize=9, pad=pad
                )
            if row == len(lines) - 1 or panel.x_label or column >= len(lines[row + 1]):
                below.set_xlabel(panel.x_label or chart.x_label)
            if panel.y_label or column == 0:
                axes.set_ylabel(panel.y_label or chart.y_label)
            else:
                axes.tick_params(labelleft=False)
    dashed = any(
        panel.reference is not None or any(one.dashed for one in panel.series)
        for panel in chart.panels
    )
    _add_legend(figure, chart.dashes if dashed else "")
    return _finish(figure, chart.title, chart.subtitle)


def _lay_out(chart: Chart) -> list[list[Panel]]:
    """The panels in lines: one for each heading, or as many side by side as fit."""
    rows = [panels for _, panels in chart.rows(chart.panels)]
    if len(rows) > 1:
        return rows
    panels = rows[0]
    _, width = _panel_width(chart, min(len(panels), 4))
    most = max(1, min(len(panels), int(_WIDEST // width)))
    most = -(-len(panels) // -(-len(panels) // most))
    return [panels[start : start + most] for start in range(0, len(panels), most)]


def _panel_width(chart: Chart, columns: int) -> tuple[bool, float]:
    """Whether bars are wide enough to be seen, and the width of a panel in inches."""
    places = max(len(panel.labels) for panel in chart.panels)
    if chart.kind == "lines":
        return False, max(2.6, 6.4 / columns)
    treatments = max(len(panel.series) for panel in chart.panels)
    wanted = _BAR * places * treatments / 0.8 + 0.3
    if columns * wanted <= _WIDEST:
        return True, max(wanted, _NARROWEST, 5.6 / columns)
    return False, max(_NARROWEST, _POINT * places + 0.4)


def _draw_panel(axes: Any, chart: Chart, panel: Panel, *, bars: bool, width: float) -> None:
    solid = [one for one in panel.series if not one.dashed]
    spots = np.array(panel.spots) * max(1, len(panel.labels) - 1) if chart.kind == "lines" else None
    where = np.arange(len(panel.labels), dtype=np.float64) if spots is None else spots
    room = 0.8 if bars else min(0.5, 0.12 * len(solid)) if chart.kind == "bars" else 0.0
    for one in panel.series:
        look = look_of(one.number)
        # Values and the ends of their intervals [3, N], NaN where they are unknown.
        ends = [
            (np.nan,) * 3 if own is None else (own.estimate, own.low, own.high)
            for own in one.points
        ]
        values = np.array(ends, dtype=np.float64).reshape(-1, 3).T
        if one.dashed:
            # The mark shows a bound that is known at one place only.
            style: dict[str, Any] = {
                "linestyle": DASHES,
                "linewidth": 1.2,
                "marker": "_",
                "markersize": 6,
            }
            axes.plot(where, values[0], color=look.colour, label=f"_{one.name}", **style)
            continue
        place = solid.index(one)
        aside = (place - (len(solid) - 1) / 2) * room / max(1, len(solid))
        if bars and not chart.dots:
            fill: dict[str, Any] = {
                "color": look.colour,
                "hatch": look.hatch,
                "edgecolor": "white",
                "linewidth": 0,
            }
            fill |= {
                "yerr": _reach(values),
                "error_kw": {"elinewidth": 1, "capsize": 2, "ecolor": INK},
            }
            axes.bar(
                where + aside,
                values[0],
                room / len(solid) * 0.94,
                label=one.legend or one.name,
                **fill,
            )
        else:
            # Lines keep their places; only the marks are a few points apart.
            shift = 4.0 * (place - (len(solid) - 1) / 2) if chart.kind == "lines" else 0.0
            line = "none" if chart.dots else "-"
            _draw_curve(axes, where + aside, values, look, one.legend or one.name, shift, line)
    low, high = chart.domain(panel)
    # Marks at a fixed end are not cut in half.
    axes.set_ylim(
        low, high + (0.03 * (high - low) if chart.fixed and chart.kind == "lines" else 0.0)
    )
    marks = ticks(low, high)
    axes.set_yticks(marks, [tick_text(mark, marks, chart.form) for mark in marks])
    every = -(-len(panel.labels) // _MOST_LABELS)
    shown = range(0, len(panel.labels), every)
    letters = max(6, int(_LETTERS * width / max(1, len(shown))))
    labels = [_wrapped(panel.labels[place], letters) for place in shown]
    axes.set_xticks([where[place] for place in shown], labels)
    axes.set_xlim(-0.6, max(where, default=0.0) + 0.6)
    if chart.kind == "bars":
        axes.tick_params(axis="x", length=0)
        if low < 0:
            axes.axhline(0, color=INK, linewidth=0.8, label="_zero")
    if panel.reference is not None:
        axes.axhline(panel.reference, color=INK, linestyle=DASHES, linewidth=0.9, zorder=0)
    if panel.edge is not None:
        at = panel.edge[0] * max(where)
        axes.axvline(at, color=INK, linestyle=":", linewidth=1.2, zorder=0)
        axes.annotate(
            panel.edge[1], (at, high), (4, -4), textcoords="offset points", va="top", fontsize=8
        )
    if chart.band is not None:
        axes.axhspan(*chart.band, color=PALE, alpha=0.5, linewidth=0, zorder=0, label="_band")


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

    marks = {
        "marker": look.marker,
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
    lines = {
        "color": look.colour,
        "linestyle": line,
        "linewidth": 1.4,
        "elinewidth": 0.9,
        "capsize": 2,
    }
    container = axes.errorbar(where, values[0], yerr=_reach(values), label=label, **marks, **lines)
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


def _draw_rows(chart: Chart) -> Figure:
    """Horizontal bars: one panel for each treatment, the first one's values marked in all others."""
    rows = len(chart.panels[0].labels)
    if rows > _MOST_ROWS:
        raise FairspanError(
            f"a picture shows at most {_MOST_ROWS} rows, and this one would have {rows}."
        )
    across = min(4, len(chart.panels))
    down = -(-len(chart.panels) // across)
    labels = [_wrapped(label, _LABEL_WIDTH) for label in chart.panels[0].labels]
    size = (2.4 + 2.7 * across, 0.9 + (_ROW * len(labels) + 0.65) * down)
    figure, grid = _grid(size, down, across, sharex=True, sharey=True)
    domains = [chart.domain(panel) for panel in chart.panels]
    low, top = min(low for low, _ in domains), max(high for _, high in domains)
    before = chart.panels[0].series[0]
    for axes, panel in zip(grid.flat, chart.panels, strict=False):
        series = panel.series[0]
        _draw_row_bars(axes, chart, series)
        for place, one in enumerate(before.points if series is not before else ()):
            if one is not None:
                ends = [one.estimate, one.estimate], [place - 0.36, place + 0.36]
                axes.plot(*ends, color=INK, linewidth=2.2, solid_capstyle="butt")
                axes.plot(*ends, color=look_of(0).colour, linewidth=1.4)
        if panel.reference is not None:
            axes.axvline(panel.reference, color=INK, linestyle=DASHES, linewidth=1, zorder=3)
        if low < 0:
            axes.axvline(0, color=INK, linewidth=0.8, label="_zero")
        axes.set_axis_on()
        axes.set_title("\n".join([*wrap(panel.title, 38), *wrap(panel.detail)]), fontweight="bold")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    first = grid[0][0]
    first.set_yticks(range(len(labels)), labels, fontsize=8)
    first.set_ylim(len(labels) - 0.5, -0.5)
    # Room at the right for the numbers.
    first.set_xlim(low, top + 0.6 * (top - low))
    marks = ticks(low, top)
    marks = marks[:: 1 if len(marks) < 6 else 2]
    first.set_xticks(marks, [tick_text(mark, marks, chart.form) for mark in marks])
    dashes = f"; dashes: {chart.dashes}" if chart.panels[0].reference is not None else ""
    mark = f"; grey mark: {before.name}" if len(chart.panels) > 1 else ""
    figure.supxlabel(f"{chart.y_label}{dashes}{mark}", fontsize=8)
    return _finish(figure, chart.title, chart.subtitle)


def _draw_row_bars(axes: Any, chart: Chart, series: Series) -> None:
    colour = look_of(min(series.number, 1)).colour
    for place, one in enumerate(series.points):
        if one is None:
            _write(axes, UNKNOWN, 0.8, place)
            continue
        axes.barh(
            place,
            one.estimate,
            0.72,
            color=colour,
            edgecolor=colour,
            linewidth=0.8,
            label=f"_{series.name}",
        )
        if one.void:
            ends = place - 0.36, place + 0.36
            axes.axhspan(
                *ends, xmax=0.6, facecolor="none", edgecolor="#c8c8c8", hatch="////", linewidth=0
            )
        _write(axes, number(one.estimate, chart.form), 0.8, place)
        _write(axes, one.note, 1.0, place, colour="#666666")


def _write(axes: Any, text: str, right: float, place: float, colour: str = INK) -> None:
    """Text whose right end is at that share of the panel's width."""
    axes.annotate(
        text,
        (right, place),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="center",
        fontsize=8,
        color=colour,
    )


def _draw_heat(heat: HeatMap) -> Figure:
    """One panel for each entry of the switch, light for low numbers and dark for high ones."""
    from matplotlib import colormaps

    count = max((len(cell.values) for _, cells in heat.rows for cell in cells if cell), default=1)
    side = max(3.6, 1.25 * len(heat.columns) + 1.2)
    across = min(count, max(1, int(_WIDEST // side)))
    down = -(-count // across)
    size = (max(6.4, side * across), 0.7 + (0.6 + 0.75 * len(heat.rows)) * down)
    figure, grid = _grid(size, down, across)
    # Even to the eye, also in grey and with any colour blindness.
    colours = colormaps["cividis_r"]
    low, high = heat.ends
    for place, axes in enumerate(grid.flat[:count]):
        axes.set_axis_on()
        values = [[_value(cell, place) for cell in cells] for _, cells in heat.rows]
        image = axes.imshow(np.array(values), cmap=colours, vmin=low, vmax=high, aspect="auto")
        for row, (_, cells) in enumerate(heat.rows):
            for column, cell in enumerate(cells):
                if cell is None:
                    continue
                value = _value(cell, place)
                # Where both inks have the same contrast.
                ink = "white" if heat.level(value) > 0.49 else "#1a1a1a"
                shown = number(value, heat.form)
                axes.text(column, row, shown, ha="center", va="center", color=ink, fontsize=9)
        axes.set_xticks(range(len(heat.columns)), heat.columns)
        axes.set_yticks(
            range(len(heat.rows)), [name for name, _ in heat.rows] if place % across == 0 else []
        )
        for axis, places in ((axes.xaxis, len(heat.columns)), (axes.yaxis, len(heat.rows))):
            axis.set_ticks(np.arange(places - 1) + 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=2.5)
        axes.tick_params(which="both", length=0)
        if count > 1 and place < len(heat.entries):
            axes.set_title(heat.entries[place], fontsize=9)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(heat.x_label)
        axes.set_ylabel(heat.y_label if place % across == 0 else "")
    if heat.panels:
        bar = figure.colorbar(image, ax=figure.axes, fraction=0.03, aspect=25)
        bar.set_ticks([low, high], labels=[number(end, heat.form) for end in (low, high)])
        bar.outline.set_visible(False)
    return _finish(figure, heat.title, heat.subtitle)


def _grid(
    size: tuple[float, float], down: int, across: int, **options: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of so many inches, and its axes [down, across], which are off until something is drawn."""
    from matplotlib.figure import Figure

    class Drawn(Figure):
        """Shown by a notebook as it is, whether or not pyplot was imported."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    figure = Drawn(figsize=size, layout="constrained")
    grid: np.ndarray = figure.subplots(down, across, squeeze=False, **options)
    for axes in grid.flat:
        axes.set_axis_off()
    return figure, grid


def _value(cell: HeatCell | None, place: int) -> float:
    """The number of that entry; the only one, where there is one for all."""
    value = None if cell is None else cell.values[min(place, len(cell.values) - 1)]
    return float("nan") if value is None else value


def _wrapped(label: str, letters: int) -> str:
    """A label in at most three lines."""
    return "\n".join(
        wrap(label, letters, max_lines=3, placeholder="…", break_long_words=letters >= _LABEL_WIDTH)
    )


def _add_legend(figure: Figure, dashes: str = "") -> None:
    """What the marks and the dashes mean, below all panels, in as many columns as fit."""
    from matplotlib.lines import Line2D

    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if dashes:
        found[dashes] = Line2D([], [], color=INK, linestyle=DASHES, linewidth=1.2)
    if not found:
        return
    width = figure.get_figwidth() - 2 * _MARGIN
    for columns in range(len(found), 0, -1):
        legend = figure.legend(
            list(found.values()), list(found), loc="outside lower center", ncols=columns
        )
        if columns == 1 or legend.get_window_extent().width / figure.dpi <= width:
            break
        legend.remove()
    # A legend of many rows is not to take the room of the panels.
    figure.set_figheight(figure.get_figheight() + _LINE * (-(-len(found) // columns) - 1))


def _finish(figure: Figure, title: str, subtitle: str) -> Figure:
    """The title, and all places once and for all: laid out again for each file, a figure would not be the same."""
    figure.suptitle(f"{title}\n{subtitle}" if subtitle else title, fontsize=11)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    return figure


def _reach(values: np.ndarray) -> np.ndarray:
    """[2, N]: lengths of error bars, 0 where an interval is unknown."""
    return np.asarray(
        np.abs(np.nan_to_num(np.stack([values[0] - values[1], values[2] - values[0]])))
    )
