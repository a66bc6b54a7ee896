"""The empty figure: a grid of axes, wrapped labels, and a title whose layout is computed once."""

from __future__ import annotations

from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST = 12.5
"""Inches of a whole figure."""
LABEL_WIDTH = 32
"""Letters of a label in a chart of rows."""


def make_grid(
    size: tuple[float, float], down: int, across: int, **options: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of `size` inches, and its axes [down, across], which are off until used."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Shown by a notebook whether or not pyplot was imported."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    figure = NotebookFigure(figsize=size, layout="constrained")
    grid: np.ndarray = figure.subplots(down, across, squeeze=False, **options)
    for axes in grid.flat:
        axes.set_axis_off()
    return figure, grid


def wrapped(label: str, letters: int) -> str:
    """A label in at most three lines."""
    whole_words = letters < LABEL_WIDTH
    lines = wrap(label, letters, max_lines=3, placeholder="…", break_long_words=not whole_words)
    return "\n".join(lines)


def finish(figure: Figure, title: str, subtitle: str) -> Figure:
    """The figure with its title and a fixed layout, so that every file of it is the same."""
    figure.suptitle(f"{title}\n{subtitle}" if subtitle else title, fontsize=11)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")
    return figure
