"""Attention by basket, by segment and on a relative axis: rows are groups of layers, columns language plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.report.figures.style import (
    DASHES,
    INK,
    add_legend,
    draw_bars,
    draw_curve,
    finish,
    house_style,
    look_of,
    short_name,
    spread_out,
)
from fairspan.studies.audit.attention import AttentionProfile, AttentionSummary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_COLUMNS = 4
NAMES = {"attention_basket": "baskets", "attention_segment": "segments", "attention_bin": "relative"}
_AXES = {
    "attention_basket": "basket of 128 tokens",
    "attention_segment": "segment",
    "attention_bin": "share of the document, in %",
}
_TITLES = {
    "attention_basket": "Where the pooled row looks: baskets of tokens",
    "attention_segment": "Where the pooled row looks: segments",
    "attention_bin": "Where the pooled row looks: from a document's beginning to its end",
}
EQUAL = "equal shares for all parts of the text"
_AROUND = ("first", "last", "special", "other")


@house_style()
def draw_attention(summary: AttentionSummary, measure: str, n: int, plans: Sequence[str]) -> Figure:
    """The figure: mean shares with their intervals, dashes where all parts of the text would have the same.

    Special tokens are on an axis of their own at the right, as they may hold far more than any part of the text.
    """
    from matplotlib.figure import Figure

    groups = list(summary.groups)
    treatments = summary.treatments
    widths = [_parts_width(summary, measure, n, plan) for plan in plans]
    around = 0.35 + 0.3 * max(len(_around(summary, measure, n, plan, groups)) for plan in plans)
    figure = Figure(
        figsize=(max(6.4, 1.0 + sum(widths) + around * len(plans)), 1.3 + 1.55 * len(groups)), layout="constrained"
    )
    ratios = [ratio for width in widths for ratio in (width, around)]
    grid = figure.subplots(len(groups), 2 * len(plans), squeeze=False, width_ratios=ratios)
    for row, group in enumerate(groups):
        for column, plan in enumerate(plans):
            inside, outside = grid[row][2 * column], grid[row][2 * column + 1]
            profiles = summary.of(measure, n, plan, group)
            names = _around(summary, measure, n, plan, groups)
            _draw_inside(inside, profiles, treatments)
            _draw_outside(outside, profiles, treatments, names)
            if row == 0:
                inside.set_title(f"{plan}, n = {n}", fontsize=9)
                outside.set_title(_apart(names), fontsize=8, color=INK)
            if row == len(groups) - 1:
                inside.set_xlabel(_AXES[measure])
            else:
                inside.tick_params(labelbottom=False)
                outside.tick_params(labelbottom=False)
            if column == 0:
                layers = summary.groups[group]
                inside.set_ylabel(f"{group}\nlayers {layers.start + 1}–{layers.stop}")
    for columns in (range(0, 2 * len(plans), 2), range(1, 2 * len(plans), 2)):
        _level(grid[:, list(columns)])
    figure.supylabel("share of attention", fontsize=9, color=INK)
    grid[0][0].plot([], [], color=INK, linestyle=DASHES, linewidth=0.9, label=EQUAL)
    add_legend(figure, grid[0][0], last=EQUAL)
    counted = max(profile.documents for plan in plans for profile in summary.of(measure, n, plan, groups[0]))
    documents = f"{counted} documents" + (" of each plan" if len(plans) > 1 else "")
    return finish(figure, f"{_TITLES[measure]}\n{short_name(summary.log.model)}, {documents}")


def pages_of(summary: AttentionSummary, measure: str) -> list[tuple[str, int, list[str]]]:
    """What is drawn together, with its name: the plans of one size, as many as fit."""
    found = [(profile.n, profile.plan) for profile in summary.profiles if profile.measure == measure]
    sizes = sorted({n for n, _ in found})
    pages = []
    for n in sizes:
        plans = list(dict.fromkeys(plan for size, plan in found if size == n))
        parts = [plans[start : start + MOST_COLUMNS] for start in range(0, len(plans), MOST_COLUMNS)]
        for number, part in enumerate(parts, start=1):
            name = f"attention-{NAMES[measure]}" + (f"-n{n}" if len(sizes) > 1 else "")
            pages.append((name if number == 1 else f"{name}-{number}", n, part))
    return pages


def _draw_inside(axes: Any, profiles: Sequence[AttentionProfile], treatments: Sequence[str]) -> None:
    count = max((len(profile.content) for profile in profiles), default=1)
    room = min(0.6, 0.16 * len(treatments))
    for profile in profiles:
        place = treatments.index(profile.treatment)
        look = look_of(place)
        shift = spread_out(place, len(treatments), room)
        shares = profile.content
        numbers = np.array([share.number for share in shares], dtype=np.float64)
        estimates, lows, highs = (
            np.array([getattr(share, name) for share in shares]) for name in ("estimate", "low", "high")
        )
        draw_curve(axes, numbers + shift, estimates, lows, highs, look, label=profile.treatment, capsize=1.5)
        axes.plot(
            numbers,
            [share.equal for share in shares],
            color=look.colour,
            linestyle=DASHES,
            linewidth=0.9,
            label="_equal share",
            zorder=1,
        )
    if profiles and profiles[0].measure == "attention_bin":
        axes.set_xticks([0.5, 5.5, 10.5, 15.5, 20.5], ["0", "25", "50", "75", "100"])
    else:
        every = 1 if count <= 12 else 5 if count <= 40 else 10
        ticks = [number for number in range(1, count + 1) if number == 1 or number % every == 0]
        axes.set_xticks(ticks, [str(number) for number in ticks])
    axes.set_xlim(0.4, count + 0.6)


def _draw_outside(
    axes: Any, profiles: Sequence[AttentionProfile], treatments: Sequence[str], names: Sequence[str]
) -> None:
    width = 0.8 / len(treatments)
    for profile in profiles:
        place = treatments.index(profile.treatment)
        look = look_of(place)
        found = {share.part: share for share in profile.shares}
        shares = [found[name] for name in names]
        estimates, lows, highs = (
            np.array([getattr(share, name) for share in shares]) for name in ("estimate", "low", "high")
        )
        where = np.arange(len(names)) + spread_out(place, len(treatments))
        draw_bars(axes, where, width * 0.94, estimates, lows, highs, look, label=profile.treatment)
    axes.set_xticks(range(len(names)), list(names), fontsize=7.5)
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelsize=7.5)


def _around(summary: AttentionSummary, measure: str, n: int, plan: str, groups: Sequence[str]) -> list[str]:
    """What lies around the text and holds some attention under any treatment in any layer."""
    profiles = [profile for group in groups for profile in summary.of(measure, n, plan, group)]
    held = {share.part for profile in profiles for share in profile.around}
    return [name for name in _AROUND if name in held]


def _parts_width(summary: AttentionSummary, measure: str, n: int, plan: str) -> float:
    counts = [len(profile.content) for group in summary.groups for profile in summary.of(measure, n, plan, group)]
    return float(np.clip(0.5 + 0.32 * max(counts, default=1), 1.6, 3.6))


def _level(panels: np.ndarray) -> None:
    """One scale from 0 for panels that are compared, told at the first of each row."""
    top = max(axes.get_ylim()[1] for axes in panels.flat)
    for axes in panels.flat:
        axes.set_ylim(0, top)
    for row in panels:
        for axes in row[1:]:
            axes.tick_params(labelleft=False)


def _apart(names: Sequence[str]) -> str:
    """What the panel of what lies around the text is called; its only bar says it where there is one."""
    return "" if len(names) < 2 else "around the text" if "other" in names else "special tokens"
