"""One document under the lens as a picture: a panel for each treatment, a bar for each segment (IRF's Figure 2)."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from fairspan.errors import LogError
from fairspan.report.figures.style import COLOURS, INK, finish, house_style, short_name, write_figure
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IN_A_ROW = 4
MOST_SEGMENTS = 100
_LABEL_WIDTH, _LABEL_LINES = 30, 2
_UNSEEN, FAINT_INK = "#b5b5b5", "#666666"


def draw_inspection(inspection: Inspection) -> Figure:
    """The figure: bars are shares, a broken line the fair one; a segment that was never seen is hatched."""
    from matplotlib import rc_context

    if inspection.n > MOST_SEGMENTS:
        raise LogError(
            f"a picture shows at most {MOST_SEGMENTS} segments, and this document has {inspection.n}: write a page, "
            "or choose other borders."
        )
    # A dollar sign in somebody's text is no formula.
    with house_style(), rc_context({"text.parse_math": False}):
        return _draw(inspection)


def save_inspection_picture(inspection: Inspection, file: Path) -> None:
    """Draw into a PNG, SVG or PDF."""
    write_figure(draw_inspection(inspection), file)


def _draw(inspection: Inspection) -> Figure:
    from matplotlib.figure import Figure

    across = min(_IN_A_ROW, len(inspection.readings))
    down = -(-len(inspection.readings) // across)
    figure = Figure(figsize=(2.4 + 2.7 * across, 0.9 + (0.5 * inspection.n + 0.65) * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    places = [axes for row in grid for axes in row]
    for number, (axes, reading) in enumerate(zip(places, inspection.readings, strict=False)):
        _draw_panel(axes, inspection, reading, COLOURS[min(number, 1)])
        if number:
            _mark_before(axes, inspection.readings[0])
    for axes in places[len(inspection.readings) :]:
        axes.set_axis_off()
    first = places[0]
    first.set_yticks(
        range(inspection.n), [_label(segment, inspection.unit) for segment in inspection.segments], fontsize=8
    )
    first.set_ylim(inspection.n - 0.5, -0.5)
    known = [share for reading in inspection.readings for share in reading.share if share is not None]
    top = max([inspection.fair, *known])
    # Room at the right for the numbers.
    first.set_xlim(0, 1.6 * top)
    first.set_xticks([tick for tick in first.get_xticks() if tick <= 1.05 * top])
    unseen = "" if not inspection.unseen else f" ({inspection.unseen:,} {inspection.unit} never seen)"
    mark = f"; grey mark: {inspection.treatments[0]}" if len(inspection.readings) > 1 else ""
    figure.supxlabel(f"share of the similarity of the document and its segments{mark}", fontsize=8)
    named = _short(short_name(inspection.model), 40)
    return finish(figure, f"{_short(inspection.document, 40)} through {named}{unseen}")


def _draw_panel(axes: Any, inspection: Inspection, reading: Reading, colour: str) -> None:
    from matplotlib.ticker import PercentFormatter

    for place, segment in enumerate(inspection.segments):
        share = reading.share[place]
        unseen = segment.status == "never seen"
        axes.barh(
            place,
            share or 0.0,
            0.72,
            color="white" if unseen else colour,
            edgecolor=_UNSEEN if unseen else colour,
            hatch="////" if unseen else "",
            linewidth=0.8,
        )
        shown = "–" if share is None else f"{100 * share:.1f} %"
        cosine = f"{reading.representation[place]:.3f}".replace("-", "−")
        _write(axes, shown, 0.84, place, INK)
        _write(axes, cosine, 1.0, place, FAINT_INK)
    _write(axes, "share", 0.84, 0, FAINT_INK, above=True)
    _write(axes, "cosine", 1.0, 0, FAINT_INK, above=True)
    axes.axvline(inspection.fair, color="#222222", linestyle=(0, (4, 3)), linewidth=1, zorder=3)
    axes.annotate(
        f"fair {100 * inspection.fair:.0f} %",
        (inspection.fair, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="center",
        fontsize=7.5,
        color=FAINT_INK,
    )
    axes.set_title(_short(reading.treatment, 32), pad=15, fontweight="bold")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.tick_params(axis="x", labelsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _mark_before(axes: Any, before: Reading) -> None:
    for place, share in enumerate(before.share):
        if share is not None:
            axes.plot([share, share], [place - 0.36, place + 0.36], color=INK, linewidth=2.2, solid_capstyle="butt")
            axes.plot([share, share], [place - 0.36, place + 0.36], color=COLOURS[0], linewidth=1.4)


def _write(axes: Any, text: str, right: float, place: float, colour: str, *, above: bool = False) -> None:
    """A word whose right end is at that part of the panel's width."""
    axes.annotate(
        text,
        (right, 1 if above else place),
        xycoords=("axes fraction", "axes fraction" if above else "data"),
        xytext=(0, 2 if above else 0),
        textcoords="offset points",
        ha="right",
        va="baseline" if above else "center",
        fontsize=7.5 if above else 8.5,
        color=colour,
    )


def _label(segment: InspectedSegment, unit: str) -> str:
    lines = wrap(segment.label, _LABEL_WIDTH, max_lines=_LABEL_LINES, placeholder="…") or [""]
    facts = [segment.language] if segment.language else []
    facts.append(
        f"{segment.seen} of {segment.tokens} {unit} seen" if segment.status == "cut" else f"{segment.tokens} {unit}"
    )
    if segment.status == "never seen":
        facts.append(segment.status)
    return f"{segment.number}  " + "\n".join(lines) + f"\n({', '.join(facts)})"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
