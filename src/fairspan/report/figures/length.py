"""Figures of a study of length: how alike texts are, what attention filters out, and what is still told apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.report.figures.style import (
    DASHES,
    FAINT,
    INK,
    Look,
    add_legend,
    draw_curve,
    finish,
    house_style,
    look_of,
    short_name,
    write_figure,
)
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import Estimate, LengthSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "cosine": "mean pairwise cosine",
    "distance": "distance to the centre",
    "rank": "effective rank",
    "correct": "share of labels told",
    "entropy": "entropy of the answers",
}
WORDS_LABEL = "raw word embeddings"
_AT_MOST_BESIDE = 4
_ASIDE = 4.0
"""Points between the marks of two treatments at one length."""


@house_style()
def draw_length(summary: LengthSummary) -> Figure:
    """All at a glance: geometry by length above; σ_a with its bound and filter rates below, if measured."""
    from matplotlib.figure import Figure

    measured = not summary.spectrum("sigma_a", summary.baseline).is_empty()
    figure = Figure(figsize=(9.6, 6.9 if measured else 3.8), layout="constrained")
    grid = figure.subplots(2 if measured else 1, 2, squeeze=False)
    shown = [name for name in ("cosine", "rank") if name in summary.measures]
    for axes, measure in zip(grid[0], shown, strict=False):
        _draw_geometry(axes, summary, measure)
    if "rank" not in summary.measures:
        grid[0][1].set_axis_off()
    if measured:
        _draw_sigma(grid[1][0], summary)
        _draw_baseline_rates(grid[1][1], summary)
    add_legend(figure, grid[0][0])
    return finish(figure, f"What length does to vectors\n{_where(summary)}")


def save_length_picture(summary: LengthSummary, file: Path) -> None:
    """Draw all at a glance into a PNG, SVG or PDF."""
    write_figure(draw_length(summary), file)


@house_style()
def draw_geometry(summary: LengthSummary, measures: list[str]) -> Figure:
    """One panel a measure by length, with intervals and the control of raw words (LC Figs. 1c, 3).

    The cosine has a second panel without the control, which may lie so far off that nothing else is seen.
    """
    from matplotlib.figure import Figure

    panels = [(measure, True) for measure in measures]
    if measures == ["cosine"] and summary.value(WORDS, "cosine", summary.lengths[0]) is not None:
        panels.append(("cosine", False))
    figure = Figure(figsize=(max(6.4, 4.4 * len(panels)), 4.2), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)
    for axes, (measure, control) in zip(grid[0], panels, strict=True):
        _draw_geometry(axes, summary, measure, control=control)
        if not control:
            axes.set_title(f"without {WORDS_LABEL}", fontsize=9)
    add_legend(figure, grid[0][0])
    title = "How alike texts are, by length" if measures == ["cosine"] else "How much room vectors take, by length"
    return finish(figure, f"{title}\n{_where(summary)}")


@house_style()
def draw_sigma(summary: LengthSummary) -> Figure:
    """σ_a of the last layer by length and treatment, and the bound of LC's Theorem 3 (LC Fig. 5)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    _draw_sigma(axes, summary)
    axes.set_ylabel("σ_a of the last layer")
    axes.plot([], [], color=INK, linestyle=DASHES, linewidth=1.2, label="Theorem 3")
    add_legend(figure, axes, last="Theorem 3")
    return finish(figure, f"How much of the differences between tokens attention lets through\n{_where(summary)}")


@house_style()
def draw_rates(summary: LengthSummary) -> Figure:
    """Filter rates by layer with the bounds of LC's Theorem 2, one panel a length (LC Fig. 2)."""
    from matplotlib.figure import Figure

    lengths = [
        length
        for length in summary.lengths
        if any(length in summary.spectrum("filter_rate", name)["length"] for name in summary.treatments)
    ]
    columns = min(_AT_MOST_BESIDE, len(lengths))
    rows = -(-len(lengths) // columns)
    figure = Figure(figsize=(max(6.4, 0.6 + 2.5 * columns), 1.4 + 2.1 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(lengths) :]:
        axes.set_axis_off()
    for number, (axes, length) in enumerate(zip(grid.flat, lengths, strict=False)):
        axes.axhline(0, color=FAINT, linewidth=0.6)
        for place, name in enumerate(summary.treatments):
            look = look_of(place)
            _draw_layers(axes, summary, ("filter_rate", name, length), look, label=name)
            options = {"linestyle": DASHES, "marker": "_", "markersize": 6, "linewidth": 1.1, "label": "_bound"}
            _draw_layers(axes, summary, ("theorem_2", name, length), look, **options)
        axes.set_title(f"{summary.name(length)} tokens", fontsize=9)
        if number >= len(lengths) - columns:
            axes.set_xlabel("layer")
            axes.tick_params(labelbottom=True)
        if number % columns == 0:
            axes.set_ylabel("log filter rate")
    grid[0][0].plot([], [], color=INK, linestyle=DASHES, marker="_", linewidth=1.1, label="Theorem 2")
    add_legend(figure, grid[0][0], last="Theorem 2")
    return finish(figure, f"How much of the differences between tokens each layer keeps\n{_where(summary)}")


@house_style()
def draw_repeated(summary: LengthSummary) -> Figure:
    """The cosine of two words, each said many times (LC Fig. 12)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    ticks: set[int] = set()
    for number, name in enumerate(summary.treatments):
        found = summary.repeated(name)
        if found:
            times, cosines = (np.array(column, dtype=np.float64) for column in zip(*sorted(found), strict=True))
            none = np.full(len(times), np.nan)
            draw_curve(axes, times, cosines, none, none, look_of(number), label=name, capsize=0, elinewidth=0)
            ticks |= {int(time) for time in times}
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ticks), [str(time) for time in sorted(ticks)])
    axes.minorticks_off()
    axes.set_xlabel("times that each word is said")
    axes.set_ylabel("cosine")
    add_legend(figure, axes)
    return finish(figure, f"How alike two words are that are said over and over\n{_where(summary)}")


@house_style()
def draw_classified(summary: LengthSummary) -> Figure:
    """Labels told and the entropy of the answers by length (LC Figs. 6, 8)."""
    from matplotlib.figure import Figure

    found = {entry["measure"] for entry in summary.log.header.get("classification", [])}
    measures = [name for name in ("correct", "entropy") if name in found]
    figure = Figure(figsize=(max(6.4, 4.4 * len(measures)), 4.2), layout="constrained")
    grid = figure.subplots(1, len(measures), squeeze=False)
    for axes, measure in zip(grid[0], measures, strict=True):
        for number, name in enumerate(summary.treatments):
            values = [summary.classified(name, measure, length) for length in summary.lengths]
            _draw_by_length(axes, summary, values, number, name)
        axes.set_ylabel(LABELS[measure])
        _finish_lengths(axes, summary)
    add_legend(figure, grid[0][0])
    return finish(figure, f"What a classifier still tells, by length\n{_where(summary)}")


def _draw_geometry(axes: Any, summary: LengthSummary, measure: str, *, control: bool = True) -> None:
    for number, name in enumerate([*summary.treatments, *([WORDS] if control else [])]):
        values = [summary.value(name, measure, length) for length in summary.lengths]
        raw = name == WORDS
        options = {"linestyle": ":", "color": INK} if raw else {}
        _draw_by_length(axes, summary, values, number, WORDS_LABEL if raw else name, **options)
    axes.set_ylabel(LABELS.get(measure, measure))
    _finish_lengths(axes, summary)


def _draw_by_length(
    axes: Any, summary: LengthSummary, values: list[Estimate | None], number: int, label: str, **options: Any
) -> None:
    known = [one for one in values if one is not None and one.estimate is not None]
    if not known:
        return
    estimate, low, high = (
        np.array([np.nan if one is None else getattr(one, part) for one in values], dtype=np.float64)
        for part in ("estimate", "low", "high")
    )
    where, count = np.array(summary.lengths), len(summary.treatments)
    # The control comes after the treatments and stands in the middle.
    aside = _ASIDE * (number - (count - 1) / 2) if number < count else 0.0
    draw_curve(axes, where, estimate, low, high, look_of(number), aside=aside, label=label, **options)


def _draw_sigma(axes: Any, summary: LengthSummary) -> None:
    for number, name in enumerate(summary.treatments):
        look = look_of(number)
        for measure in ("sigma_a", "theorem_3"):
            rows = summary.spectrum(measure, name)
            if rows.is_empty():
                continue
            last = rows.filter(rows["layer"] == rows["layer"].max())
            bound = measure == "theorem_3"
            axes.plot(
                last["length"],
                last["value"],
                color=look.colour,
                linestyle=DASHES if bound else "-",
                marker="" if bound else look.marker,
                markersize=4.5,
                linewidth=1.2 if bound else 1.4,
                label=f"_{name} bound" if bound else name,
            )
    axes.set_ylabel("σ_a of the last layer\n(dashes: Theorem 3)")
    _finish_lengths(axes, summary)


def _draw_baseline_rates(axes: Any, summary: LengthSummary) -> None:
    """Every length in one panel, darker the longer it is."""
    for shade, length in zip(np.linspace(0.75, 0.0, len(summary.lengths)), summary.lengths, strict=True):
        label = f"{summary.name(length)} tokens"
        look = Look(str(shade), "", "o")
        _draw_layers(axes, summary, ("filter_rate", summary.baseline, length), look, label=label)
    bound = ("theorem_2", summary.baseline, summary.lengths[-1])
    _draw_layers(axes, summary, bound, Look(INK, "", "_"), linestyle=DASHES, linewidth=1.2, label="Theorem 2")
    axes.axhline(0, color=FAINT, linewidth=0.6)
    axes.set_xlabel("layer")
    axes.set_ylabel(f"log filter rate\n({summary.baseline})")
    axes.legend(fontsize=8)


def _draw_layers(axes: Any, summary: LengthSummary, what: tuple[str, str, int], look: Look, **options: Any) -> None:
    measure, treatment, length = what
    rows = summary.spectrum(measure, treatment)
    own = rows.filter(rows["length"] == length)
    if own.is_empty():
        return
    drawn: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 3.5, "linewidth": 1.3}
    axes.plot(own["layer"] + 1, own["value"], **{**drawn, **options})
    axes.xaxis.get_major_locator().set_params(integer=True)


def _finish_lengths(axes: Any, summary: LengthSummary) -> None:
    if not summary.natural:
        axes.set_xscale("log", base=2)
    axes.set_xticks(summary.lengths, [summary.name(length) for length in summary.lengths])
    axes.minorticks_off()
    axes.set_xlabel("tokens")


def _where(summary: LengthSummary) -> str:
    return f"{short_name(summary.log.model)}, {summary.log.header['corpus']['name']}"
