"""Figures of any study: every number that is drawn is read back, and files come out the same each time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.errors import LogError, MissingExtra
from fairspan.report import style
from fairspan.report.chart import (
    Chart,
    HeatCell,
    HeatMap,
    Panel,
    Point,
    Series,
    domain_of,
    on_log_axis,
    point,
    tick_text,
    ticks,
)
from fairspan.report.figure import draw, figure_bytes
from fairspan.report.files import write_figures
from fairspan.report.scatter import Dot, Scatter
from fairspan.report.view import Section, View
from tests.report_example import EVIL, TREATMENTS, Estimate, heat, lines, profiles, rows, scatter, value, view

matplotlib = pytest.importorskip("matplotlib")


# --- reading figures back


# Machines without fonts for every script draw boxes, and say so; a test of its own is about that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:no installed font"),
    pytest.mark.filterwarnings("ignore:Glyph"),
]


def bars_of(axes: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of every set of bars its heights [N] and the ends [N, 2] of its error bars, by label."""
    from matplotlib.container import BarContainer

    found = {}
    for container in axes.containers:
        if isinstance(container, BarContainer) and container.errorbar is not None:
            ends = np.array(container.errorbar.lines[2][0].get_segments())[:, :, 1]
            found[container.get_label()] = np.array([bar.get_height() for bar in container]), ends
    return found


def curves_of(axes: Any) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of every curve with error bars x [N], y [N] and the ends [N, 2] of its bars, by label."""
    from matplotlib.container import ErrorbarContainer

    found = {}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.get_label():
            line, _, (bars,) = container.lines
            segments = bars.get_segments()
            ends = np.array([segment[:, 1] if len(segment) else [np.nan] * 2 for segment in segments])
            found[container.get_label()] = (*(np.array(part, np.float64) for part in line.get_data(orig=True)), ends)
    return found


def panels_of(figure: Any) -> dict[str, Any]:
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def legend_of(figure: Any) -> list[str]:
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def texts_of(figure: Any) -> Iterator[tuple[str, Any]]:
    """Every text that is seen, with its box in pixels."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    hidden: set[int] = set()
    for axes in figure.axes:
        if not axes.axison:
            hidden |= {id(text) for text in axes.findobj(Text) if text not in axes.texts}
        for axis in (axes.xaxis, axes.yaxis):
            # Ticks beyond the ends of an axis keep labels that are not drawn.
            drawn = {id(tick) for tick in axis._update_ticks()}
            found = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {id(text) for tick in found if id(tick) not in drawn for text in (tick.label1, tick.label2)}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            yield text.get_text(), text.get_window_extent()


def assert_legible(figure: Any) -> None:
    """All text lies on the page, and none on other text."""
    width, height = figure.bbox.width, figure.bbox.height
    found = list(texts_of(figure))
    for text, box in found:
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -1, text
    for (one, a), (other, b) in combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, (one, other)


# --- bars


def assert_bars(figure: Any, chart: Chart) -> None:
    panels = panels_of(figure)
    for panel in chart.panels:
        drawn = bars_of(panels[f"{panel.title}, {panel.heading}"])
        assert list(drawn) == [series.name for series in panel.series]
        for series in panel.series:
            heights, ends = drawn[series.name]
            np.testing.assert_allclose(heights, [one.estimate for one in series.points if one], rtol=1e-12)
            np.testing.assert_allclose(ends, [(one.low, one.high) for one in series.points if one], rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, -0.6])
def test_bars_are_the_points(shift: float) -> None:
    """Also below zero, where a line shows the foot of the bars."""
    chart = profiles(shift=shift)
    figure = draw(chart)
    assert_bars(figure, chart)
    assert value(2, 4, 0, 3) + shift == pytest.approx(chart.panels[3].series[2].points[3].estimate)  # type: ignore[union-attr]
    for axes in panels_of(figure).values():
        assert axes.get_ylim() == chart.domain(chart.panels[0])
        assert [line.get_ydata() for line in axes.lines if line.get_label() == "_zero"] == ([[0, 0]] if shift else [])
    assert legend_of(figure) == list(TREATMENTS)
    assert_legible(figure)


@pytest.mark.slow
def test_one_line_of_panels_for_each_heading() -> None:
    """Two sizes and three plans: two lines of three, a strip below each."""
    figure = draw(profiles())
    assert len(figure.axes) == 2 * 2 * 3
    strips = [axes for axes in figure.axes if axes.texts]
    for axes, count in zip(strips, (3, 3, 3, 4, 4, 4), strict=True):
        assert [bar.get_height() for bar in axes.containers[0]] == [20.0 * (1 + place) for place in range(count)]
        assert [text.get_text() for text in axes.texts] == [str(20 * (1 + place)) for place in range(count)]
        # On one scale: 80 is the largest size of all.
        assert axes.get_ylim() == (0, 80)
    assert [axes.get_ylabel() for axes in figure.axes].count("tokens") == 2


def test_large_sizes_are_short() -> None:
    figure = draw(profiles(sizes=(3,), plans=("en",), strip=61_400_000))
    [strip] = [axes for axes in figure.axes if axes.texts]
    assert [text.get_text() for text in strip.texts] == ["61.4M", "123M", "184M"]


@pytest.mark.parametrize("count", [1, 4, 12, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_any_number_of_panels_is_legible(count: int) -> None:
    plans = tuple(f"plan {number}" for number in range(count))
    figure = draw(replace(profiles(sizes=(3,), plans=plans), subtitle=""))
    assert len([axes for axes in figure.axes if axes.containers]) == 2 * count
    assert figure.get_figwidth() <= 14
    assert_legible(figure)


@pytest.mark.slow
def test_thin_bars_become_points() -> None:
    names = [f"t{number}" for number in range(7)]
    chart = profiles(treatments=names, sizes=(6,), plans=("a", "b", "c", "d"))
    grid = Chart("g", "t", "c", "bars", "x", "y", tuple(replace(one, heading="n") for one in chart.panels[:4] * 1))
    wide = replace(grid, panels=(*grid.panels, *(replace(one, heading="m") for one in grid.panels)))
    figure = draw(wide)
    assert figure.get_figwidth() <= 14
    panels = panels_of(figure)
    assert not any(bars_of(axes) for axes in panels.values())
    for panel in wide.panels:
        drawn = curves_of(panels[f"{panel.title}, {panel.heading}"])
        for series in panel.series:
            x, y, ends = drawn[series.name]
            np.testing.assert_allclose(y, [one.estimate for one in series.points if one])
            np.testing.assert_allclose(ends, [(one.low, one.high) for one in series.points if one])
            np.testing.assert_array_equal(np.round(x), np.arange(6))
    assert_legible(figure)


def test_many_labels_are_thinned_and_long_ones_wrapped() -> None:
    figure = draw(profiles(sizes=(30,), plans=("en",), strip=0))
    [axes] = figure.axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [str(1 + place) for place in range(0, 30, 3)]
    [panel] = profiles(sizes=(3,), plans=("en",), strip=0).panels
    named = replace(panel, labels=("ndcg@10 of all queries", "recall of long documents only", "mrr"))
    figure = draw(replace(profiles(), panels=(named, named), title="t"))
    assert figure.axes[0].get_xticklabels()[0].get_text() == "ndcg@10 of\nall queries"
    assert_legible(figure)


def test_a_legend_of_long_names_fits() -> None:
    names = [f"a very long name of a treatment with temperature 0.8 and more, number {k}" for k in range(5)]
    figure = draw(profiles(treatments=names, sizes=(3,), plans=("en", "de")))
    assert legend_of(figure) == names
    assert_legible(figure)


# --- lines


def test_lines_bounds_and_gaps() -> None:
    chart = lines()
    figure = draw(chart)
    panels = panels_of(figure)
    assert list(panels) == [panel.title for panel in chart.panels]
    for panel in chart.panels:
        axes = panels[panel.title]
        drawn = curves_of(axes)
        for series in panel.series[:2]:
            x, y, ends = drawn[series.name]
            known = [one for one in series.points if one]
            np.testing.assert_allclose(y[np.isfinite(y)], [one.estimate for one in known])
            np.testing.assert_array_equal(np.isnan(y), [one is None for one in series.points])
            kept = ends[np.isfinite(y)] if len(ends) == len(y) else ends
            np.testing.assert_allclose(kept, [(one.low, one.high) for one in known])
            # Four lengths, each twice the one before: even places on a logarithmic axis.
            np.testing.assert_allclose(x, [0, 1, 2, 3], atol=1e-12)
        [dashed] = [line for line in axes.lines if line.get_label() == "_limit"]
        assert list(dashed.get_ydata()) == [one.estimate for one in panel.series[2].points if one]
        assert dashed.get_linestyle() == "--"
        assert [panel.reference] * 2 in [list(line.get_ydata()) for line in axes.lines]
    assert legend_of(figure) == ["none", "paper", "limit in theory"]
    assert [axes.get_ylabel() for axes in panels.values()] == ["cosine", "", "rank", "distance"]
    assert panels["cosine"].get_ylim() == panels["cosine of words"].get_ylim() != panels["rank"].get_ylim()
    assert panels["rank"].get_xlabel() == "tokens of a text"
    assert_legible(figure)


def test_ticks_in_percent() -> None:
    figure = draw(lines(form=".1%"))
    labels = [label.get_text() for label in panels_of(figure)["cosine"].get_yticklabels()]
    assert labels == [f"{share}\u00a0%" for share in (0, 20, 40, 60, 80, 100)]


# --- rows


@pytest.mark.parametrize("shift", [0.0, -0.25])
def test_rows_are_the_points(shift: float) -> None:
    """Bars from 0 to either side, numbers and notes beside them, the first treatment marked in the second panel."""
    chart = rows(shift=shift)
    figure = draw(chart)
    panels = panels_of(figure)
    for panel in chart.panels:
        axes = panels[panel.title]
        known = [one for one in panel.series[0].points if one]
        widths = [bar.get_width() for container in axes.containers for bar in container]
        assert widths == pytest.approx([one.estimate for one in known])
        shown = [text.get_text() for text in axes.texts]
        assert [text for text in shown if not text.startswith("#")] == [
            "–" if one is None else f"{one.estimate:.3f}".replace("-", "−") for one in panel.series[0].points
        ]
        assert [text for text in shown if text.startswith("#")] == [one.note for one in known]
        low, high = axes.get_xlim()
        assert all(low <= one.estimate <= high for one in known)
        assert [0.25, 0.25] in [list(line.get_xdata()) for line in axes.lines]
    marks = [line.get_xdata()[0] for line in panels["paper"].lines if line.get_linewidth() == 1.4]
    assert marks == pytest.approx([one.estimate for one in chart.panels[0].series[0].points if one])
    assert_legible(figure)


# --- heat maps


def test_heat_maps_of_every_entry() -> None:
    found = replace(heat(), entries=TREATMENTS)
    figure = draw(found)
    panels = panels_of(figure)
    assert list(panels) == list(TREATMENTS)
    for place, axes in enumerate(panels.values()):
        [image] = axes.images
        shown = [text.get_text() for text in axes.texts]
        expected = [[np.nan if cell is None else cell.values[place] for cell in cells] for _, cells in found.rows]
        np.testing.assert_array_equal(np.array(image.get_array().filled(np.nan)), expected)
        assert shown == [f"{number:.3f}" for number in np.ravel(expected) if np.isfinite(number)]
        assert image.get_clim() == found.ends
        assert len(axes.patches) == sum(cell.framed for _, cells in found.rows for cell in cells if cell)
    assert_legible(figure)


def test_a_view_names_the_entries_of_its_heat_maps() -> None:
    assert list(panels_of(draw(view().chart("languages")))) == list(TREATMENTS)
    [axes] = draw(view().chart("sizes")).axes
    assert not axes.get_title()


def test_levels_are_on_one_scale() -> None:
    cells = (HeatCell((0.2, 0.6)), HeatCell((0.4, None)), None, HeatCell((float("nan"), 0.3)))
    found = HeatMap("h", "t", "c", "", ("1", "2"), (("en", cells[:2]), ("de", cells[2:])))
    assert found.ends == (0.2, 0.6)
    assert [found.level(number) for number in (0.2, 0.4, 0.6, None, float("nan"))] == [0.0, 0.5, 1.0, 0.0, 0.0]
    assert len(draw(found).axes) == 2
    flat = HeatMap("h", "t", "c", "", ("1",), (("en", (HeatCell((0.3,)),)),))
    assert flat.level(0.3) == 0.0
    draw(flat)
    draw(replace(flat, rows=(("en", (None,)),)))


# --- scatters


FRONT = [f"tiles={size},t=0.8" for size in (32, 64, 128, 256, 512)]


def drawn_lines(axes: Any, kind: str) -> dict[str, np.ndarray]:
    """[2, N] x and y of every line or mark whose label begins with `_kind`, by the rest of its label."""
    found = [line for line in axes.lines if str(line.get_label()).startswith(f"_{kind}")]
    return {line.get_label().removeprefix(f"_{kind}").strip(): np.array(line.get_data()) for line in found}


@pytest.mark.parametrize("do_nothing", [False, True])
def test_dots_are_the_numbers(do_nothing: bool) -> None:
    """Marks, both whiskers, and the one ring, which may be around the plain model."""
    found = scatter(do_nothing=do_nothing)
    figure = draw(found)
    [axes] = figure.axes
    looks = {"other": 19, "front": 5, "baseline": 1, "reference": 1}
    marks: dict[str, np.ndarray] = {}
    for look, count in looks.items():
        own = {name: place for name, place in drawn_lines(axes, look).items() if name}
        assert len(own) == count
        marks |= own
    across, up = drawn_lines(axes, "across"), drawn_lines(axes, "up")
    assert len(marks) == len(across) == len(up) == len(found.dots) == 26
    for dot in found.dots:
        x, y = dot.x.estimate, dot.y.estimate
        np.testing.assert_array_equal(marks[dot.name], [[x], [y]])
        np.testing.assert_array_equal(across[dot.name], [[dot.x.low, dot.x.high], [y, y]])
        np.testing.assert_array_equal(up[dot.name], [[x, x], [dot.y.low, dot.y.high]])
    assert list(drawn_lines(axes, "chosen")) == ["none" if do_nothing else FRONT[1]]
    assert legend_of(figure) == ["plain model", "chosen", "Pareto front", "reference", "other candidates"]
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left == 0, "no number is negative, so that the axis begins at 0"
    assert max(dot.x.high for dot in found.dots if dot.x.high) < right
    assert (
        low
        < min(dot.y.low for dot in found.dots if dot.y.low)
        < max(dot.y.high for dot in found.dots if dot.y.high)
        < high
    )


def test_an_unknown_interval_has_no_whisker_and_an_unknown_number_no_dot() -> None:
    nan = float("nan")
    dots = (
        Dot("a", Point(0.1, nan, nan), Point(0.5, 0.4, 0.6)),
        Dot("b", Point(0.2, 0.1, 0.3), Point(0.6, None, 0.7)),
        Dot("c", Point(nan, 0.1, 0.3), Point(0.6), chosen=True),
    )
    found = Scatter("s", "t", "c", "x", "y", dots)
    figure = draw(found)
    [axes] = figure.axes
    assert list(drawn_lines(axes, "across")) == ["b"]
    assert list(drawn_lines(axes, "up")) == ["a"]
    assert list(drawn_lines(axes, "other")) == ["a", "b"]
    assert legend_of(figure) == ["other candidates"]
    draw(replace(found, dots=()))
    draw(replace(found, dots=(Dot("a", Point(0.0), Point(0.0)),)))


def test_the_front_is_joined_from_left_to_right() -> None:
    """Exactly the dots that say so, given in any order, whatever their role."""
    dots = scatter().dots
    known = {dot.name: (dot.x.estimate, dot.y.estimate) for dot in dots}
    marked = tuple(replace(dot, front=dot.front or dot.role == "baseline") for dot in reversed(dots))
    for given_dots, names in ((dots, FRONT), (marked, [*FRONT, "none"])):
        [axes] = draw(replace(scatter(), dots=given_dots)).axes
        line = next(line for line in axes.lines if line.get_label() == "_front")
        np.testing.assert_array_equal(np.array(line.get_data()).T, [known[name] for name in names])


@pytest.mark.parametrize("do_nothing", [False, True])
def test_names_that_matter_are_written_and_none_on_another(do_nothing: bool) -> None:
    figure = draw(scatter(do_nothing=do_nothing))
    [axes] = figure.axes
    assert sorted(text.get_text() for text in axes.texts) == sorted(["none", "chunk-mean", *FRONT])
    assert [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"] == [
        "none" if do_nothing else FRONT[1]
    ]
    assert_legible(figure)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 40)), min_size=2, max_size=30),
    st.sampled_from([(168, 270), (280, 290), (1000, 400)]),
)
def test_no_name_is_placed_on_another_or_outside(given_dots: list[tuple[float, float, int]], plot: Any) -> None:
    """Whatever the dots: by the boxes of letters 0.62 as wide and 1.4 as high as their size. The first is chosen."""
    width, height = plot
    dots = tuple(
        Dot("n" * long, Point(x), Point(y), front=True, chosen=place == 0)
        for place, (x, y, long) in enumerate(given_dots)
    )
    found = Scatter("s", "t", "c", "x", "y", dots)
    (left, right), (low, high) = found.domains
    labels = found.labels(width, height, 11)
    boxes = []
    for label in labels:
        dot = found.dots[label.dot]
        x = (dot.x.estimate - left) / (right - left) * width + label.dx
        y = (high - dot.y.estimate) / (high - low) * height + label.dy
        long = len(label.text) * 0.62 * 11
        start = x - {"start": 0, "middle": long / 2, "end": long}[label.anchor]
        boxes.append((start, y - 0.7 * 11, start + long, y + 0.7 * 11))
    for a, b in combinations(boxes, 2):
        assert min(a[2], b[2]) - max(a[0], b[0]) < 1e-6 or min(a[3], b[3]) - max(a[1], b[1]) < 1e-6
    for x0, y0, x1, y1 in boxes:
        assert min(x0, y0, width - x1, height - y1) >= -1e-6
    assert len({label.dot for label in labels}) == len(labels)


# --- axes and points


@given(st.floats(-100, 100), st.floats(0.001, 100))
def test_ticks_are_round_and_few(low: float, reach: float) -> None:
    found = ticks(low, low + reach)
    assert 2 <= len(found) <= 12
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    assert low - 1e-6 <= found[0] <= found[-1] <= low + reach + 1e-6
    assert len({tick_text(mark, found, ".3f") for mark in found}) == len(found)


def test_an_axis_holds_every_interval_and_the_foot_of_bars() -> None:
    series = Series("a", 0, (point(Estimate(0.4, 0.3, 0.52)), None, point(Estimate(-0.1, np.nan, np.nan))))
    low, high = domain_of([[series]], zero=True)
    assert low <= -0.1
    assert high >= 0.52
    assert domain_of([[series]], zero=True, others=[2.0])[1] >= 2
    assert domain_of([[]], zero=False) == (0.0, 1.0)
    flat = Series("a", 0, (point(Estimate(0.4, 0.4, 0.4)),))
    assert domain_of([[flat]], zero=False)[0] < 0.4


def test_an_unknown_point_is_none() -> None:
    assert point(None) is None
    assert point(Estimate(np.nan, np.nan, np.nan)) is None
    assert point(Estimate(-0.1234, np.nan, 1.0), "x") == Point(-0.1234, None, 1.0, "x")
    series = Series("a", 0, (Point(float("nan")), Point(0.5, float("nan"), float("inf"))))
    assert series.points == (None, Point(0.5))
    draw(Chart("c", "t", "", "bars", "x", "y", (Panel("p", ("1", "2"), (series,)),)))


def test_a_log_axis() -> None:
    assert on_log_axis([50, 100, 200]) == pytest.approx((0, 0.5, 1))
    assert on_log_axis([7]) == on_log_axis([0, 1, 2]) == on_log_axis([3, 3]) == ()
    assert Panel("p", ("a", "b", "c"), ()).spots == (0, 0.5, 1)
    assert Panel("p", ("a",), ()).spots == (0.5,)


def test_a_fixed_axis_and_one_for_all() -> None:
    chart = lines()
    assert chart.domain(chart.panels[0]) == chart.domain(chart.panels[1])
    fixed = replace(chart, fixed=(-1.0, 1.0))
    assert [fixed.domain(panel) == (-1.0, 1.0) for panel in fixed.panels] == [True, True, False, False]


# --- files


@pytest.mark.slow
def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    kinds = ("svg", "PNG", ".pdf")
    few = replace(view(), sections=view().sections[2:], picture="")
    few = replace(few, sections=(*few.sections, Section("Heat", heats=(heat(entries=1), heat(name="languages")))))
    first, second = (write_figures(few, tmp_path / folder, kinds) for folder in ("a", "b"))
    names = ["candidates", "segments", "languages", "languages-2"]
    assert [file.name for file in first] == [f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")]
    for one, other in zip(first, second, strict=True):
        data = one.read_bytes()
        assert data == other.read_bytes(), one.name
        for dated in (b"CreationDate", b"dc:date", b"matplotlib.org"):
            assert dated not in data, (one.name, dated)


def test_the_order_of_files_makes_no_difference() -> None:
    chart = replace(lines(), panels=lines().panels[:1])
    figure = draw(chart)
    before = figure_bytes(figure, "svg")
    figure_bytes(figure, "png")
    assert figure_bytes(figure, "svg") == before == figure_bytes(draw(chart), "svg")


def test_text_of_an_svg_stays_text() -> None:
    drawn = figure_bytes(draw(profiles()), "svg").decode()
    for text in ("position", "zh:en, n = 3", "similarity", "tokens"):
        assert text in drawn


def test_other_formats_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LogError, match=r"^a picture is one of .png, .svg, .pdf, got 'gif'.$"):
        write_figures(view(), tmp_path / "out", ["svg", "gif"])
    monkeypatch.setattr("fairspan.report.style.find_spec", lambda name: None)
    for call in (lambda: write_figures(view(), tmp_path / "out"), lambda: draw(lines())):
        with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[report\]'"):
            call()
    assert not (tmp_path / "out").exists()


def test_settings_outside_a_figure_stay() -> None:
    before = dict(matplotlib.rcParams)
    figure_bytes(draw(profiles()), "svg")
    assert dict(matplotlib.rcParams) == before


# --- looks


def lightness(colour: str) -> float:
    """CIE L* (0 black, 100 white) of an sRGB colour, which is what is left of it in grey."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    y = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return 116 * (y ** (1 / 3) if y > 216 / 24389 else (24389 / 27 * y + 16) / 116) - 16


def test_treatments_are_told_apart_in_grey() -> None:
    """In bars by hatch or by at least 15 of 100 in lightness; on lines by their markers. Premise: white is 100."""
    assert lightness("#ffffff") == pytest.approx(100)
    assert lightness("#777777") == pytest.approx(50, abs=0.5)
    looks = [style.look_of(number) for number in range(len(style.COLOURS))]
    for one, other in combinations(looks, 2):
        assert one.hatch != other.hatch or abs(lightness(one.colour) - lightness(other.colour)) >= 15
        assert one.marker != other.marker
    assert all(lightness(look.colour) <= 75 for look in looks)


def test_colours_are_okabe_s_and_ito_s() -> None:
    theirs = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"}
    assert set(style.COLOURS[1:]) <= theirs


# --- names


def named(names: Sequence[str]) -> Chart:
    return profiles(treatments=names, sizes=(3,), plans=("en", EVIL))


def test_names_are_drawn_as_they_are() -> None:
    """A dollar sign is no formula, markup is escaped, and what no file can hold is replaced."""
    drawn = figure_bytes(draw(named(["a$_b$c", "half\ud800", EVIL])), "svg").decode()
    assert "a$_b$c" in drawn
    assert "half\ufffd" in drawn
    assert "&lt;img src=x" in drawn
    assert "<img" not in drawn


@pytest.mark.parametrize("name", ["校准 中文", "보정 한국어", "हिन्दी क्षत्रिय", "العربية"])
@pytest.mark.slow
def test_other_scripts_are_drawn_where_there_are_fonts(name: str) -> None:
    """Asked to draw them, matplotlib says nothing of boxes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = draw(named([name]))
        figure.savefig(io.BytesIO(), format="png")
    if caught:
        pytest.skip(f"no installed font shows {name}: {caught[0].message}")
    assert legend_of(figure) == [name]


def test_what_no_font_shows_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line when the figure is drawn, and none again when it is written."""
    monkeypatch.setattr(style, "FAMILIES", ("DejaVu Sans",))
    style._installed.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            figure = draw(named(["校准 한국어"]))
            figure_bytes(figure, "png")
            figure_bytes(figure, "pdf")
    finally:
        style._installed.cache_clear()
    [warning] = caught
    text = str(warning.message)
    assert "\n" not in text
    assert "no installed font shows 5 of a figure's characters" in text
    assert "fonts-noto-core and fonts-noto-cjk" in text


def test_a_view_without_charts(tmp_path: Path) -> None:
    empty = View("t", "h", (), (), {})
    assert write_figures(empty, tmp_path) == []
    with pytest.raises(LogError, match="there is no figure '', and nothing else to draw"):
        empty.chart()
