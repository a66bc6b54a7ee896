"""How every figure looks: colours, hatches and markers, sizes of text, and files that come out the same each time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.errors import LogError, MissingExtra
from fairspan.report.figures.fonts import FIRST, LAST, choose_fonts, give_fonts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which stay apart under colour blindness; the first, grey, is for the model as it comes.
COLOURS = ("#999999", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
# Two neighbours without a hatch are told apart by how light they are, all others by their hatch.
HATCHES = ("", "", "///", "...", "xx", "\\\\\\", "oo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = (".png", ".svg", ".pdf")
DASHES = (0, (4, 3))
INK, FAINT, PALE = "#333333", "#999999", "#d9d9d9"

_RC: dict[str, Any] = {
    # The second is for readers of an SVG who do not have the first.
    "font.family": [FIRST, LAST],
    "font.sans-serif": [FIRST],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "figure.titlesize": 11,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "axes.unicode_minus": True,
    "axes.axisbelow": True,
    # Names come from outside, and a dollar sign in one is no formula.
    "text.parse_math": False,
    "text.color": "#1a1a1a",
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.9,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.hspace": 0.0,
    "figure.constrained_layout.wspace": 0.02,
    # Text in SVG stays text, and fonts in PDF can be searched and copied.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    # Names inside a file would otherwise be drawn at random.
    "svg.hashsalt": "fairspan",
    "path.simplify": True,
}
# Inches: beside a legend, and of a line in it.
_MARGIN, _LINE = 0.1, 0.19
# Without dates, so that the same figure is the same file.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one treatment is drawn in every panel."""

    colour: str
    hatch: str
    marker: str


def look_of(number: int) -> Look:
    """The look of the treatment with that number, from 0."""
    return Look(COLOURS[number % len(COLOURS)], HATCHES[number % len(HATCHES)], MARKERS[number % len(MARKERS)])


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of every figure, which end with the block."""
    import matplotlib

    settings: Any = _RC
    with matplotlib.rc_context(settings):
        yield


def finish(figure: Figure, title: str | None = None) -> Figure:
    """Give a drawn figure its title, to each text fonts that show it, and to all their places once and for all."""
    if title is not None:
        figure.suptitle(title, fontsize=11)
    choose_fonts(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        with _without_boxes():
            engine.execute(figure)
        # Laid out again for each file, a figure would not be the same twice.
        figure.set_layout_engine("none")
    return figure


@contextmanager
def _without_boxes() -> Iterator[None]:
    """Without matplotlib's warnings of single characters: what no font shows was said in one line."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def require_format(suffix: str, name: str) -> None:
    """Raise if a picture of that kind is not drawn."""
    if suffix.lower() not in FORMATS:
        raise LogError(f"a picture is one of {', '.join(FORMATS)}, got {name!r}.")


def require_drawing(file: Path) -> None:
    """Raise at once if a picture could not be drawn into that file later on."""
    require_format(file.suffix, file.name)
    require_matplotlib()


def require_matplotlib() -> None:
    if find_spec("matplotlib") is None:
        raise MissingExtra("a picture needs matplotlib: pip install 'fairspan[report]'.")


def figure_bytes(figure: Figure, kind: str = "svg") -> bytes:
    """A figure as a PNG, SVG or PDF, the same bytes each time."""
    buffer = io.BytesIO()
    with house_style(), _without_boxes():
        figure.savefig(buffer, format=kind, dpi=150, metadata=_METADATA[kind])
    return buffer.getvalue()


def write_figure(figure: Figure, file: Path) -> None:
    """Write a figure into a PNG, SVG or PDF."""
    require_drawing(file)
    drawn = figure_bytes(figure, file.suffix.lower().removeprefix("."))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(drawn)
    except OSError as error:
        raise LogError(f"{file} cannot be written: {error.strerror}.") from None


def add_legend(figure: Figure, axes: Any, *, last: str | None = None) -> None:
    """What the marks of one panel stand for, below all of them, in as many columns as fit; `last` at the end."""
    found = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda item: item[1] == last)
    if not found:
        return
    handles, shown = zip(*found, strict=True)
    width = figure.get_figwidth() - 2 * _MARGIN
    for columns in range(len(shown), 0, -1):
        legend = figure.legend(handles, shown, loc="outside lower center", ncols=columns)
        give_fonts(legend.get_texts())
        with _without_boxes():
            fits = legend.get_window_extent().width / figure.dpi <= width
        if fits or columns == 1:
            break
        legend.remove()
    # A legend of many rows is not to take the room of the panels.
    figure.set_figheight(figure.get_figheight() + _LINE * (-(-len(shown) // columns) - 1))


def short_name(name: str) -> str:
    """The last part of a path or a hub's name, which fits a title."""
    return name.rstrip("/").split("/")[-1]


def draw_curve(
    axes: Any, where: Any, estimates: Any, lows: Any, highs: Any, look: Look, *, aside: float = 0.0, **options: Any
) -> None:
    """Points with their intervals on a line, in a treatment's look.

    Args:
        aside: points (of 72 to an inch) to the right of where they belong, so that intervals do not cover each other.
    """
    from matplotlib.transforms import ScaledTranslation

    drawn: dict[str, Any] = {
        "color": look.colour,
        "marker": look.marker,
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
        "linewidth": 1.4,
        "elinewidth": 0.9,
        "capsize": 2,
    }
    container = axes.errorbar(where, estimates, yerr=reach(estimates, lows, highs), **{**drawn, **options})
    if aside:
        # Only how they are drawn: the data, and with them the scale of the axes, stay where they were.
        shifted = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
        for artist in container.get_children():
            artist.set_transform(shifted)


def draw_bars(
    axes: Any, where: Any, width: float, estimates: Any, lows: Any, highs: Any, look: Look, **options: Any
) -> None:
    """Bars with their intervals, in a treatment's look."""
    axes.bar(
        where,
        estimates,
        width,
        yerr=reach(estimates, lows, highs),
        color=look.colour,
        hatch=look.hatch,
        edgecolor="white",
        linewidth=0,
        error_kw={"elinewidth": 1, "capsize": 2, "ecolor": INK},
        **options,
    )


def draw_strip(axes: Any, values: Any, labels: list[str], top: float, name: str | None = None) -> None:
    """Grey bars with their numbers in them: how long or large what stands above is."""
    axes.bar(range(len(labels)), values, 0.8, color=PALE, label="_size")
    for place, (value, label) in enumerate(zip(values, labels, strict=True)):
        inside = value > top / 2
        height = value / 2 if inside else value + top / 20
        axes.text(place, height, label, ha="center", va="center" if inside else "bottom", fontsize=7, color=INK)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.set_ylim(0, top)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    if name is not None:
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=7.5, color=INK)


def spread_out(number: int, count: int, room: float = 0.8) -> float:
    """How far the mark of one of `count` treatments stands from the middle of their place."""
    return (number - (count - 1) / 2) * room / count


def reach(estimates: Any, lows: Any, highs: Any) -> np.ndarray:
    """Lengths [2, N] of error bars; none where an interval is not known."""
    middle, low, high = (np.asarray(values, np.float64) for values in (estimates, lows, highs))
    return np.abs(np.nan_to_num(np.stack([middle - low, high - middle]), posinf=0.0, neginf=0.0))
