"""Position profiles: rows are sizes, columns language plans; below each panel how long its segments are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.report.figures.style import (
    add_legend,
    draw_bars,
    draw_curve,
    draw_strip,
    finish,
    house_style,
    look_of,
    require_drawing,
    short_name,
    spread_out,
    write_figure,
)
from fairspan.runs.log import RunLog
from fairspan.studies.audit.summary import POSITION_MEASURES, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 6
TITLES = {
    "representation": "How well one vector stands for each part of a document",
    "retention": "How much of its own meaning each part keeps inside a document",
}
# Inches: of a bar and of a position drawn as points, of a whole figure and of a panel at least, of panels' heights.
_BAR, _POINT, _WIDEST, _NARROWEST = 0.12, 0.3, 12.5, 1.75
_HEIGHT, _LOW_HEIGHT, _STRIP = 2.5, 1.6, 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What is drawn of a treatment in a panel: means [n] with the ends of their intervals, and mean tokens [n]."""

    treatment: str
    n: int
    lead: str
    later: str
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tokens: np.ndarray

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"


@dataclass(frozen=True, slots=True, eq=False)
class ProfileGrid:
    """All profiles of one measure of a run.

    Attributes:
        labels: what the legend says of each treatment: its name, and the verdict where there is one.
    """

    measure: str
    model: str
    labels: dict[str, str]
    profiles: tuple[Profile, ...]

    @property
    def plans(self) -> list[str]:
        return list(dict.fromkeys(profile.plan for profile in self.profiles))

    @property
    def sizes(self) -> list[int]:
        return sorted({profile.n for profile in self.profiles})


def grid_of(summary: Summary, measure: str) -> ProfileGrid:
    """The profiles of a summary, with its intervals and verdicts."""
    profiles = [
        Profile(
            cell.treatment,
            cell.n,
            cell.lead,
            cell.later,
            cell.effects.means.estimate,
            cell.effects.means.low,
            cell.effects.means.high,
            np.array(cell.tokens),
        )
        for cell in summary.cells
        if cell.measure == measure
    ]
    labels = {name: f"{name} ({summary.worst(measure, name).verdict.kind})" for name in summary.treatments(measure)}
    return ProfileGrid(measure, summary.log.model, labels, tuple(profiles))


def bare_grid(log: RunLog, measure: str) -> ProfileGrid:
    """The profiles of a log without intervals, for one whose sets are too few for statistics."""
    family = ["treatment", "n", "lead", "later"]
    rows = log.rows.filter(pl.col("measure") == measure)
    means = rows.group_by(*family, "position", maintain_order=True).agg(pl.col("value", "tokens").mean())
    profiles = []
    for key, part in means.partition_by(family, as_dict=True, maintain_order=True).items():
        own = part.sort("position")
        treatment, n, lead, later = key
        none = np.full(len(own), np.nan)
        estimate, tokens = own["value"].to_numpy(), own["tokens"].to_numpy()
        profiles.append(Profile(treatment, n, lead, later, estimate, none, none, tokens))
    found = {profile.treatment for profile in profiles}
    labels = {name: name for name in log.treatments if name in found}
    return ProfileGrid(measure, log.model, labels, tuple(profiles))


def pages_of(grid: ProfileGrid) -> list[tuple[str, list[str]]]:
    """Plans that are drawn together, each page with a name: all of them, or by the language of later segments."""
    if len(grid.plans) <= MOST_COLUMNS:
        return [("", grid.plans)]
    named: dict[str, list[str]] = {}
    for profile in grid.profiles:
        name = "monolingual" if profile.lead == profile.later else f"later-{profile.later}"
        plans = named.setdefault(name, [])
        if profile.plan not in plans:
            plans.append(profile.plan)
    pages = []
    for name, plans in named.items():
        parts = [plans[start : start + MOST_COLUMNS] for start in range(0, len(plans), MOST_COLUMNS)]
        pages += [(name if number == 1 else f"{name}-{number}", part) for number, part in enumerate(parts, start=1)]
    return pages


@house_style()
def draw_grid(grid: ProfileGrid, plans: Sequence[str] | None = None) -> Figure:
    """The figure: means with their intervals, as bars from 0 or, where these were too thin, as points on a line."""
    from matplotlib.figure import Figure

    plans = list(plans or grid.plans)
    shown = [profile for profile in grid.profiles if profile.plan in plans]
    sizes = sorted({profile.n for profile in shown})
    bars, width = _panel_width(len(plans), max(sizes), len(grid.labels))
    height = _HEIGHT if len(sizes) * len(plans) < 4 else _LOW_HEIGHT
    size = (max(6.4, 0.7 + width * len(plans)), 1.1 + (height + _STRIP + 0.35) * len(sizes))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(2 * len(sizes), len(plans), squeeze=False, height_ratios=[height, _STRIP] * len(sizes))
    limits = _limits(shown, bars=bars)
    longest = max(float(profile.tokens.max()) for profile in shown)
    for row, n in enumerate(sizes):
        for column, plan in enumerate(plans):
            panel, strip = axes[2 * row][column], axes[2 * row + 1][column]
            own = [profile for profile in shown if (profile.n, profile.plan) == (n, plan)]
            if not own:
                panel.set_axis_off()
                strip.set_axis_off()
                continue
            _draw_panel(panel, own, grid.labels, bars=bars)
            tokens = own[0].tokens
            draw_strip(strip, tokens, [f"{count:.0f}" for count in tokens], longest, None if column else "tokens")
            panel.set_ylim(*limits)
            if len(sizes) * len(plans) > 1:
                panel.set_title(f"{plan}, n = {n}", fontsize=9)
            if row == len(sizes) - 1:
                strip.set_xlabel("position in the document" if width > 2 else "position")
            if column:
                panel.tick_params(labelleft=False)
            else:
                panel.set_ylabel(f"{grid.measure}\n(cosine)")
    add_legend(figure, next(panel for panel in axes[::2].flat if panel.axison))
    return finish(figure, f"{TITLES[grid.measure]}\n{short_name(grid.model)}")


def draw_profiles(summary: Summary, measure: str | None = None) -> Figure:
    """The position profiles of a run in one figure; of a run with many plans the first page of them.

    Args:
        measure: "representation" or "retention"; by default the first that the run has.
    """
    grid = _chosen(summary, measure)
    return draw_grid(grid, pages_of(grid)[0][1])


def save_picture(summary: Summary, file: Path, measure: str | None = None) -> list[Path]:
    """Draw into a PNG, SVG or PDF; of a run with many plans the pages after the first into files beside it."""
    require_drawing(file)
    grid = _chosen(summary, measure)
    files = []
    for number, (name, plans) in enumerate(pages_of(grid)):
        files.append(file if number == 0 else file.with_stem(f"{file.stem}-{name}"))
        write_figure(draw_grid(grid, plans), files[-1])
    return files


def _chosen(summary: Summary, measure: str | None) -> ProfileGrid:
    if not summary.measures:
        raise LogError(f"the run {summary.log.run} has no position profiles to draw, only attention.")
    measure = measure or summary.measures[0]
    if measure not in summary.measures or measure not in POSITION_MEASURES:
        raise LogError(f"the run {summary.log.run} has no {measure}, only {', '.join(summary.measures)}.")
    return grid_of(summary, measure)


def _panel_width(columns: int, n: int, treatments: int) -> tuple[bool, float]:
    """Whether bars are wide enough to be seen, and the width of a panel in inches."""
    wanted = _BAR * n * treatments / 0.8 + 0.3
    if columns * wanted <= _WIDEST:
        return True, max(wanted, _NARROWEST, 5.6 / columns)
    return False, max(_NARROWEST, _POINT * n + 0.4)


def _limits(profiles: Sequence[Profile], *, bars: bool) -> tuple[float, float]:
    ends = np.concatenate([np.concatenate([one.estimate, one.low, one.high]) for one in profiles], dtype=np.float64)
    low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    if bars:
        low, high = min(0.0, low), max(0.0, high)
    gap = 0.06 * (high - low or 1.0)
    return (low if low == 0 else low - gap), high + gap


def _draw_panel(axes: Any, profiles: Sequence[Profile], labels: dict[str, str], *, bars: bool) -> None:
    names = list(labels)
    room = 0.8 if bars else min(0.5, 0.12 * len(names))
    for profile in profiles:
        number = names.index(profile.treatment)
        where = np.arange(profile.n) + spread_out(number, len(names), room)
        values = profile.estimate, profile.low, profile.high
        label = labels[profile.treatment]
        if bars:
            draw_bars(axes, where, room / len(names) * 0.94, *values, look_of(number), label=label)
        else:
            draw_curve(axes, where, *values, look_of(number), label=label)
    n = profiles[0].n
    axes.set_xticks(range(n), [str(position) for position in range(1, n + 1)])
    axes.set_xlim(-0.6, n - 0.4)
    axes.tick_params(axis="x", length=0)
