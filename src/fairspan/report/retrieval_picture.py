"""Quality by position of the evidence as a picture: one panel a language plan, one colour a treatment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import LogError
from fairspan.report.picture import COLOURS, HATCHES, add_legend, short_name, write_figure
from fairspan.report.retrieval import Arm, RetrievalSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_search(summary: RetrievalSummary, metric: str | None = None) -> Figure:
    """The figure: bars are means by position, dashed lines the means over all queries; fair bars are level."""
    from matplotlib.figure import Figure

    metric = metric or summary.metrics[0]
    if metric not in summary.metrics:
        raise LogError(f"the run {summary.log.run} has no {metric}, only {', '.join(summary.metrics)}.")
    plans = summary.plans[1:] or summary.plans
    shown = summary.shown(len(COLOURS))
    positions = len(summary.result(summary.baseline, metric, plans[0]).groups)
    width = max(6.4 if len(plans) == 1 else 3.4, 0.3 * max(1, positions) * len(shown) + 0.8)
    figure = Figure(figsize=(width * len(plans), 3.8), layout="constrained")
    grid = figure.subplots(1, len(plans), squeeze=False, sharey=True)
    for column, plan in enumerate(plans):
        _draw_panel(grid[0][column], summary, shown, metric, plan)
    grid[0][0].set_ylabel(metric)
    add_legend(figure, grid[0][0])
    task = short_name(summary.log.header["task"]["source"])
    figure.suptitle(
        f"What is found, by where the evidence lies\n{short_name(summary.log.model)}, {task}", fontsize=10
    )
    return figure


def save_search_picture(summary: RetrievalSummary, file: Path, metric: str | None = None) -> None:
    """Draw into a PNG, SVG or PDF."""
    write_figure(draw_search(summary, metric), file)


def _draw_panel(axes: Any, summary: RetrievalSummary, arms: list[Arm], metric: str, plan: str) -> None:
    width = 0.8 / len(arms)
    known = bool(summary.result(summary.baseline, metric, plan).groups)
    for number, arm in enumerate(arms):
        result = summary.result(arm, metric, plan)
        # Where positions are not known there is one bar, of all queries.
        means = result.effects.groups if known else (result.effects.overall,)
        estimates = np.array([mean.estimate for mean in means])
        reach = np.array(
            [[mean.estimate - mean.low for mean in means], [mean.high - mean.estimate for mean in means]]
        )
        colour = COLOURS[number % len(COLOURS)]
        axes.bar(
            np.arange(len(means)) + (number - (len(arms) - 1) / 2) * width,
            estimates,
            width * 0.94,
            yerr=np.abs(np.nan_to_num(reach)),
            label=f"{arm} ({result.effects.overall.estimate:.3f})",
            color=colour,
            hatch=HATCHES[number % len(HATCHES)],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#333333"},
        )
        if known:
            axes.axhline(result.effects.overall.estimate, color=colour, linestyle="--", linewidth=0.8, zorder=0)
    if known:
        groups = summary.result(summary.baseline, metric, plan).groups
        axes.set_xticks(range(len(groups)), list(groups))
        segments = summary.log.header["task"]["positions"] == "segments"
        axes.set_xlabel("segment of the page that is looked for" if segments else "fifth of the document")
    else:
        axes.set_xticks([])
        axes.set_xlabel("all queries")
    if plan:
        axes.set_title(plan, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
