"""Position profiles as a picture: one panel for each size and language plan, one line of bars a treatment."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import LogError, MissingExtra
from fairspan.report.summary import Cell, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart under colour blindness; the first, grey, is for the model as it comes.
COLOURS = ("#8a8a8a", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
HATCHES = ("", "", "///", "...", "xx", "\\\\\\", "oo")
FORMATS = (".png", ".svg", ".pdf")


def require_drawing(file: Path) -> None:
    """Raise at once if a picture could not be drawn into that file later on."""
    if file.suffix.lower() not in FORMATS:
        raise LogError(f"a picture is one of {', '.join(FORMATS)}, got {file.name!r}.")
    if find_spec("matplotlib") is None:
        raise MissingExtra("a picture needs matplotlib: pip install 'fairspan[report]'.")


def draw_profiles(summary: Summary, measure: str | None = None) -> Figure:
    """The figure: bars are position means, lines their intervals; fair bars are level.

    Args:
        measure: "representation" or "retention"; by default the first that the run has.
    """
    from matplotlib.figure import Figure

    if not summary.measures:
        raise LogError(f"the run {summary.log.run} has no position profiles to draw, only attention.")
    measure = measure or summary.measures[0]
    if measure not in summary.measures:
        raise LogError(f"the run {summary.log.run} has no {measure}, only {', '.join(summary.measures)}.")
    cells = [cell for cell in summary.cells if cell.measure == measure]
    sizes = sorted({cell.n for cell in cells})
    plans = list(dict.fromkeys(cell.plan for cell in cells))
    treatments = summary.treatments(measure)
    labels = {name: f"{name} ({summary.worst(measure, name).verdict.kind})" for name in treatments}
    widths = [max(3.2, 0.34 * max(sizes) * len(treatments) + 0.8)] * len(plans)
    figure = Figure(figsize=(max(6.4, sum(widths)), 0.9 + 2.6 * len(sizes)), layout="constrained")
    grid = figure.subplots(len(sizes), len(plans), squeeze=False, sharey=True)
    for row, n in enumerate(sizes):
        for column, plan in enumerate(plans):
            panel = [cell for cell in cells if (cell.n, cell.plan) == (n, plan)]
            _draw_panel(grid[row][column], panel, labels, titled=len(sizes) * len(plans) > 1)
        grid[row][0].set_ylabel(f"{measure}\n(cosine)")
    add_legend(figure, grid[0][0])
    name = short_name(summary.log.model)
    figure.suptitle(f"How well one vector stands for each part of a document: {name}", fontsize=10)
    return figure


def save_picture(summary: Summary, file: Path, measure: str | None = None) -> None:
    """Draw into a PNG, SVG or PDF."""
    write_figure(draw_profiles(summary, measure), file)


def add_legend(figure: Figure, axes: Any) -> None:
    """What the bars of one panel stand for, below all of them, in as many columns as fit."""
    handles, shown = axes.get_legend_handles_labels()
    # About eleven characters to an inch, and room for each handle.
    fitting = int(figure.get_figwidth() * 11 // (max(len(label) for label in shown) + 6))
    columns = max(1, min(len(shown), fitting))
    figure.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def short_name(name: str) -> str:
    """The last part of a path or a hub's name, which fits a title."""
    return name.rstrip("/").split("/")[-1]


def write_figure(figure: Figure, file: Path) -> None:
    """Write a figure into a PNG, SVG or PDF."""
    require_drawing(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise LogError(f"{file} cannot be written: {error.strerror}.") from None


def _draw_panel(axes: Any, cells: list[Cell], labels: dict[str, str], *, titled: bool) -> None:
    treatments = list(labels)
    width = 0.8 / len(treatments)
    for cell in cells:
        number = treatments.index(cell.treatment)
        means = cell.effects.means
        where = np.arange(cell.n) + (number - (len(treatments) - 1) / 2) * width
        reach = np.abs(np.stack([means.estimate - means.low, means.high - means.estimate]))
        axes.bar(
            where,
            means.estimate,
            width * 0.94,
            yerr=np.nan_to_num(reach),
            label=labels[cell.treatment],
            color=COLOURS[number % len(COLOURS)],
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#333333"},
        )
    if cells:
        axes.set_xticks(range(cells[0].n), [str(position) for position in range(1, cells[0].n + 1)])
        axes.set_xlabel("position in the document")
        if titled:
            axes.set_title(f"{cells[0].plan}, n = {cells[0].n}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
