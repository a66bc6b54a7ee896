"""How every figure looks: colours, hatches, markers, fonts; and its file, always the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from fairspan.errors import FairspanError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart under colour blindness; grey is for the plain model.
COLOURS = ("#999999", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
# Two neighbours without a hatch differ in lightness, all others in their hatch.
HATCHES = ("", "", "///", "...", "xx", "\\\\\\", "oo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = (0, (4, 3))
INK = "#333333"
PALE = "#d9d9d9"

# DejaVu Sans comes with matplotlib; the others, where installed, are for the scripts it lacks.
FAMILIES = (
    "DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "PingFang SC",
    "Microsoft YaHei", "Noto Sans KR", "Apple SD Gothic Neo", "Malgun Gothic",
    "Noto Sans Devanagari", "Kohinoor Devanagari", "Nirmala UI", "Noto Sans Bengali",
    "Noto Sans Tamil", "Noto Sans Thai", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Arial Unicode MS",
)  # fmt: skip

WIDEST = 12.5
"""Inches of a whole figure."""
LABEL_WIDTH = 32
"""Letters of a label in a chart of rows."""

_SETTINGS = Path(__file__).parent / "assets" / "figures.mplstyle"
# Without dates, so that the same figure is the same file.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}
FORMATS = tuple(f".{kind}" for kind in _METADATA)


@dataclass(frozen=True, slots=True)
class Look:
    """How one treatment is drawn in every panel."""

    colour: str
    hatch: str
    marker: str


def look_of(number: int) -> Look:
    """The look of the treatment with that number; dark ink for what belongs to no treatment."""
    if number < 0:
        return Look(INK, "", "o")
    looks = list(zip(COLOURS, HATCHES, MARKERS, strict=True))
    return Look(*looks[number % len(looks)])


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of every figure. Characters that no font shows are boxes, without a warning."""
    from matplotlib import style

    with warnings.catch_warnings(), style.context([_SETTINGS, {"font.family": _installed()}]):
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


@cache
def _installed() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return [*(family for family in FAMILIES if family in installed), "sans-serif"]


def require_drawing(file: Path) -> None:
    """Raise at once if a picture could not be drawn into that file later on."""
    if file.suffix.lower() not in FORMATS:
        raise FairspanError(f"a picture is one of {', '.join(FORMATS)}, got {file.name!r}.")
    require_matplotlib()


def require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise MissingExtra("a picture needs matplotlib: pip install 'fairspan[report]'.")


def figure_bytes(figure: Figure, kind: str = "svg") -> bytes:
    """A figure as PNG, SVG or PDF, the same bytes each time."""
    buffer = BytesIO()
    with house_style():
        figure.savefig(buffer, format=kind, dpi=150, metadata=_METADATA[kind])
    return buffer.getvalue()


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
