"""The dots of a scatter and their names on the axes of a matplotlib figure."""

from typing import Any

from fairspan.report.chart import tick_text, ticks
from fairspan.report.scatter import Dot, Scatter
from fairspan.report.style import CHOSEN, DOTS, INK

_LETTERS = 8.0


def draw_dots(axes: Any, scatter: Scatter) -> None:
    """Whiskers, the line of the front, and marks; others are small and grey."""
    across, up = scatter.domains
    for axis, (low, high), form in ((axes.xaxis, across, scatter.x_form), (axes.yaxis, up, scatter.form)):
        marks = ticks(low, high)
        axis.set_ticks(marks, labels=[tick_text(mark, marks, form) for mark in marks])
    axes.set(xlim=across, ylim=up, xlabel=scatter.x_label, ylabel=scatter.y_label)
    axes.grid(color="#eeeeee", linewidth=0.8)
    front = [(one.x.estimate, one.y.estimate) for one in scatter.front]
    axes.plot(
        *zip(*front, strict=True) if front else ((), ()), color=DOTS["front"].colour, linewidth=0.9, label="_front"
    )
    for layer, dot in enumerate(scatter.dots, start=3):
        _draw_dot(axes, dot, layer)
    for look, words in scatter.legend.items():
        _mark(axes, [], [], look, label=words)


def _draw_dot(axes: Any, dot: Dot, layer: int) -> None:
    x, y = dot.x.estimate, dot.y.estimate
    line = {"color": DOTS[dot.look].colour, "linewidth": 0.8, "zorder": layer, "clip_on": False}
    if dot.x.low is not None and dot.x.high is not None:
        axes.plot([dot.x.low, dot.x.high], [y, y], label=f"_across {dot.name}", **line)
    if dot.y.low is not None and dot.y.high is not None:
        axes.plot([x, x], [dot.y.low, dot.y.high], label=f"_up {dot.name}", **line)
    for look in (dot.look, "chosen") if dot.chosen else (dot.look,):
        _mark(axes, [x], [y], look, label=f"_{look} {dot.name}", zorder=layer, clip_on=False)


def _mark(axes: Any, x: list[float], y: list[float], look: str, **options: Any) -> None:
    if look == "chosen":
        ring = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "markeredgecolor": CHOSEN}
        axes.plot(x, y, linestyle="none", markeredgewidth=1.6, **ring, **options)
        return
    edge = INK if look == "baseline" else "white"
    size = 4.5 if look == "other" else 6.5
    shape = {"marker": DOTS[look].marker, "markersize": size, "markeredgecolor": edge, "markeredgewidth": 0.6}
    axes.plot(x, y, linestyle="none", color=DOTS[look].colour, **shape, **options)


def write_names(axes: Any, scatter: Scatter) -> None:
    """The names beside their dots, when the axes have their place in the figure."""
    box = axes.get_window_extent()
    points = 72 / axes.figure.dpi
    aligned = {"start": "left", "middle": "center", "end": "right"}
    for label in scatter.labels(box.width * points, box.height * points, _LETTERS):
        dot = scatter.dots[label.dot]
        leader = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            label.text,
            (dot.x.estimate, dot.y.estimate),
            (label.dx, -label.dy),
            textcoords="offset points",
            ha=aligned[label.anchor],
            va="center",
            fontsize=_LETTERS,
            fontweight="bold" if dot.chosen else "normal",
            arrowprops={**leader, "relpos": (0 if label.dx > 0 else 1, 0.5)} if label.far else None,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
            zorder=100,
        )
