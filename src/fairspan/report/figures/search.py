"""Figures of an evaluation: what is found by where the evidence lies, by length, and what an index of it costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import LogError
from fairspan.report.figures.style import (
    COLOURS,
    add_legend,
    draw_bars,
    draw_curve,
    draw_strip,
    finish,
    house_style,
    look_of,
    short_name,
    spread_out,
    write_figure,
)
from fairspan.studies.evaluate.by_length import RANK, LengthGroup
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary
from fairspan.studies.evaluate.temperature_grid import temperature_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDEST = 13.0


def arms_shown(summary: RetrievalSummary) -> list[Arm]:
    """As many arms as have a look of their own; those of a grid of temperatures have a figure of their own."""
    grid = temperature_grid(summary)
    others = [arm for arm in summary.shown(len(summary.arms)) if grid is None or arm not in grid.arms]
    return others[: len(COLOURS)]


@house_style()
def draw_search(summary: RetrievalSummary, metric: str | None = None) -> Figure:
    """The figure: bars are means by position, dashes the means over all queries; fair bars are level."""
    from matplotlib.figure import Figure

    metric = metric or summary.metrics[0]
    if metric not in summary.metrics:
        raise LogError(f"the run {summary.log.run} has no {metric}, only {', '.join(summary.metrics)}.")
    plans = summary.plans[1:] or summary.plans
    shown = arms_shown(summary)
    positions = len(summary.result(summary.baseline, metric, plans[0]).groups)
    alone = 6.4 if len(shown) < 6 else 7.6
    width = max(alone if len(plans) == 1 else 3.0, 0.17 * max(1, positions) * len(shown) + 0.8)
    columns = max(1, min(len(plans), int(_WIDEST // width)))
    rows = -(-len(plans) // columns)
    figure = Figure(figsize=(max(6.4, width * columns), 1.3 + 2.7 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place in range(len(plans), rows * columns):
        figure.delaxes(grid.flat[place])
    for axes, plan in zip(grid.flat, plans, strict=False):
        _draw_positions(axes, summary, shown, metric, plan)
    for row in grid:
        row[0].set_ylabel(metric)
    add_legend(figure, grid[0][0])
    by = ", by where the evidence lies" if positions else ""
    return finish(figure, f"What is found{by}\n{_where(summary)}")


def save_search_picture(summary: RetrievalSummary, file: Path, metric: str | None = None) -> None:
    """Draw quality by position into a PNG, SVG or PDF."""
    write_figure(draw_search(summary, metric), file)


@house_style()
def draw_runs(summary: RetrievalSummary) -> Figure:
    """The first metric by how many tokens lie before the evidence."""
    from matplotlib.figure import Figure

    results = {result.arm: result for result in summary.runs}
    arms = [arm for arm in arms_shown(summary) if arm in results]
    names = list(dict.fromkeys(name for arm in arms for name in results[arm].groups))
    figure = Figure(figsize=(max(6.4, 1.0 + 0.95 * len(names)), 4.2), layout="constrained")
    axes = figure.subplots()
    for number, arm in enumerate(arms):
        result = results[arm]
        means = result.effects.groups
        where = np.array([names.index(name) for name in result.groups]) + spread_out(
            number, len(arms), min(0.6, 0.1 * len(arms))
        )
        draw_curve(axes, where, *_ends(means), look_of(number), label=str(arm))
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("tokens before the evidence")
    axes.set_ylabel(summary.runs[0].metric)
    add_legend(figure, axes)
    return finish(figure, f"What is found, by how much text comes before it\n{_where(summary)}")


@house_style()
def draw_indexes(summary: RetrievalSummary, metric: str | None = None) -> Figure:
    """Whole documents against chunks: quality with its interval above, the size of the index below."""
    from matplotlib.figure import Figure

    metric = metric or summary.metrics[0]
    sizes = {arm.index: float(summary.cost(arm)["bytes"]) for arm in summary.arms}
    indexes = sorted(sizes, key=lambda index: (sizes[index], index != summary.baseline.index))
    treatments = [
        name
        for name in dict.fromkeys(arm.treatment for arm in summary.arms)
        if any(Arm(name, index) in summary.arms for index in indexes)
    ][: len(COLOURS)]
    figure = Figure(figsize=(max(6.4, 1.2 + 0.2 * len(indexes) * (len(treatments) + 2)), 4.6), layout="constrained")
    axes, strip = figure.subplots(2, 1, height_ratios=[2.8, 0.5])
    beside = {index: [name for name in treatments if Arm(name, index) in summary.arms] for index in indexes}
    for number, treatment in enumerate(treatments):
        arms = [arm for arm in summary.arms if arm.treatment == treatment]
        where = [
            indexes.index(arm.index) + spread_out(beside[arm.index].index(treatment), len(beside[arm.index]), 0.7)
            for arm in arms
        ]
        means = [summary.result(arm, metric).effects.overall for arm in arms]
        label = str(Arm(treatment, "whole"))
        draw_curve(axes, where, *_ends(means), look_of(number), label=label, linestyle="", markersize=6)
    axes.set_xticks(range(len(indexes)), indexes)
    axes.set_xlim(-0.6, len(indexes) - 0.4)
    axes.tick_params(axis="x", length=0)
    for border in range(1, len(indexes)):
        axes.axvline(border - 0.5, color="#e6e6e6", linewidth=0.8, zorder=0)
    axes.set_ylabel(metric)
    values = [sizes[index] for index in indexes]
    labels = [_size(value, sizes[summary.baseline.index]) for value in values]
    draw_strip(strip, values, labels, max(values), "index")
    add_legend(figure, axes)
    return finish(figure, f"What is found in whole documents and in parts of them\n{_where(summary)}")


@house_style()
def draw_by_length(summary: RetrievalSummary, groups: Sequence[LengthGroup]) -> Figure:
    """The shortest and the longest queries, and the rank of the longest documents (LC Fig. 7, Table 3)."""
    from matplotlib.figure import Figure

    shown = arms_shown(summary)
    measures = list(dict.fromkeys(one.measure for one in groups))
    counts = [len({one.group for one in groups if one.measure == measure}) for measure in measures]
    width = max(6.4, 1.6 + 0.26 * sum(counts) * len(shown))
    figure = Figure(figsize=(width, 4.2), layout="constrained")
    grid = figure.subplots(1, len(measures), squeeze=False, width_ratios=counts)
    for axes, measure in zip(grid[0], measures, strict=True):
        own = [one for one in groups if one.measure == measure]
        names = list(dict.fromkeys(one.group for one in own))
        for number, arm in enumerate(shown):
            found = [one for one in own if one.arm == arm]
            where = np.array([names.index(one.group) for one in found]) + spread_out(number, len(shown))
            values = _ends([one.value for one in found])
            draw_bars(axes, where, 0.8 / len(shown) * 0.94, *values, look_of(number), label=str(arm))
        spans = {one.group: one.tokens for one in own}
        axes.set_xticks(range(len(names)), [f"{name}\n{spans[name][0]}–{spans[name][1]} tokens" for name in names])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("mean rank (lower is better)" if measure == RANK else measure)
    add_legend(figure, grid[0][0])
    return finish(figure, f"What is found, by length\n{_where(summary)}")


def _draw_positions(axes: Any, summary: RetrievalSummary, arms: Sequence[Arm], metric: str, plan: str) -> None:
    first = summary.result(summary.baseline, metric, plan)
    for number, arm in enumerate(arms):
        result = summary.result(arm, metric, plan)
        overall = result.effects.overall
        # Where positions are not known there is one bar, of all queries.
        means = result.effects.groups if first.groups else (overall,)
        look = look_of(number)
        where = np.arange(len(means)) + spread_out(number, len(arms))
        label = f"{arm} ({overall.estimate:.3f})"
        draw_bars(axes, where, 0.8 / len(arms) * 0.94, *_ends(means), look, label=label)
        if first.groups:
            axes.axhline(overall.estimate, color=look.colour, linestyle="--", linewidth=0.8, zorder=0)
    if first.groups:
        axes.set_xticks(range(len(first.groups)), list(first.groups))
        segments = summary.log.header["task"]["positions"] == "segments"
        axes.set_xlabel("segment of the page that is looked for" if segments else "fifth of the document")
    else:
        axes.set_xticks([])
        axes.set_xlabel("all queries")
    axes.tick_params(axis="x", length=0)
    if plan:
        axes.set_title(plan, fontsize=9)


def _ends(means: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    estimate, low, high = (
        np.array([getattr(mean, name) for mean in means], dtype=np.float64) for name in ("estimate", "low", "high")
    )
    return estimate, low, high


def _size(count: float, baseline: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count, baseline = count / 1000, baseline / 1000
    return f"{count:.3g} {unit}" + (f" ({count / baseline:.1f}×)" if baseline and count != baseline else "")


def _where(summary: RetrievalSummary) -> str:
    return f"{short_name(summary.log.model)}, {short_name(summary.log.header['task']['source'])}"
