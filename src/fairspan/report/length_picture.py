"""A study of length as a picture: how alike texts are, the directions they use, and what attention does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.collapse_spec import WORDS
from fairspan.report.length import LengthSummary
from fairspan.report.picture import COLOURS, add_legend, short_name, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LABELS = {"cosine": "mean pairwise cosine", "distance": "distance to the centre", "rank": "effective rank"}


def draw_length(summary: LengthSummary) -> Figure:
    """The figure: geometry by length above; σ_a with its bound and the layers' filter rates below, where measured."""
    from matplotlib.figure import Figure

    measured = not summary.spectrum("sigma_a", summary.baseline).is_empty()
    figure = Figure(figsize=(9.6, 6.6 if measured else 3.6), layout="constrained")
    grid = figure.subplots(2 if measured else 1, 2, squeeze=False)
    for axes, measure in zip(
        grid[0], [name for name in ("cosine", "rank") if name in summary.measures], strict=False
    ):
        _draw_geometry(axes, summary, measure)
    if "rank" not in summary.measures:
        grid[0][1].set_axis_off()
    if measured:
        _draw_sigma(grid[1][0], summary)
        _draw_rates(grid[1][1], summary)
    add_legend(figure, grid[0][0])
    corpus = summary.log.header["corpus"]["name"]
    figure.suptitle(f"What length does to vectors: {short_name(summary.log.model)}, {corpus}", fontsize=10)
    return figure


def save_length_picture(summary: LengthSummary, file: Path) -> None:
    """Draw into a PNG, SVG or PDF."""
    write_figure(draw_length(summary), file)


def _draw_geometry(axes: Any, summary: LengthSummary, measure: str) -> None:
    names = [*summary.treatments, WORDS]
    for number, name in enumerate(names):
        found = [summary.value(name, measure, length) for length in summary.lengths]
        if any(one is None or one.estimate is None for one in found):
            continue
        estimates, lows, highs = (
            np.array([getattr(one, part) for one in found], dtype=float) for part in ("estimate", "low", "high")
        )
        axes.errorbar(
            summary.lengths,
            estimates,
            yerr=np.abs(np.nan_to_num(np.stack([estimates - lows, highs - estimates]))),
            label="raw word embeddings" if name == WORDS else name,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle=":" if name == WORDS else "-",
            markersize=4,
            linewidth=1.4,
            capsize=2,
            elinewidth=0.9,
        )
    axes.set_ylabel(LABELS[measure])
    _finish(axes, summary)


def _draw_sigma(axes: Any, summary: LengthSummary) -> None:
    for number, name in enumerate(summary.treatments):
        colour = COLOURS[number % len(COLOURS)]
        for measure, style in (("sigma_a", "-"), ("theorem_3", "--")):
            rows = summary.spectrum(measure, name)
            if rows.is_empty():
                continue
            last = rows.filter(rows["layer"] == rows["layer"].max())
            marker = MARKERS[number % len(MARKERS)] if measure == "sigma_a" else ""
            axes.plot(last["length"], last["value"], style, color=colour, marker=marker, markersize=4, linewidth=1.4)
    axes.set_ylabel("σ_a of the last layer\n(dashed: Theorem 3)")
    _finish(axes, summary)


def _draw_rates(axes: Any, summary: LengthSummary) -> None:
    rates = summary.spectrum("filter_rate", summary.baseline)
    bounds = summary.spectrum("theorem_2", summary.baseline)
    shades = np.linspace(0.75, 0.0, len(summary.lengths))
    for shade, length in zip(shades, summary.lengths, strict=True):
        own = rates.filter(rates["length"] == length)
        axes.plot(
            own["layer"] + 1,
            own["value"],
            "-",
            color=str(shade),
            marker="o",
            markersize=3,
            label=f"{summary.name(length)} tokens",
        )
    longest = bounds.filter(bounds["length"] == summary.lengths[-1])
    if not longest.is_empty():
        axes.plot(longest["layer"] + 1, longest["value"], "k--", marker="_", linewidth=1.2, label="Theorem 2")
    axes.axhline(0, color="#999999", linewidth=0.6)
    axes.set_xlabel("layer")
    axes.set_ylabel(f"log filter rate\n({summary.baseline})")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _finish(axes: Any, summary: LengthSummary) -> None:
    if not summary.natural:
        axes.set_xscale("log", base=2)
    axes.set_xticks(summary.lengths, [summary.name(length) for length in summary.lengths])
    axes.minorticks_off()
    axes.set_xlabel("tokens")
    axes.spines[["top", "right"]].set_visible(False)
