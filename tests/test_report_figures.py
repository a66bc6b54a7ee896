"""Figures of any study: every number that is drawn is read back, and files come out the same each
time."""

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

from fairspan.errors import FairspanError, MissingExtra
from fairspan.report.chart import (
    Chart,
    Panel,
    Point,
    Series,
    domain_of,
    point,
    tick_text,
    ticks,
)
from fairspan.report.figure import draw
from fairspan.report.files import write_figures
from fairspan.report.style import figure_bytes
from tests.report_example import (
    EVIL,
    TREATMENTS,
    Estimate,
    lines,
    profiles,
    rows,
    value,
    view,
)

matplotlib = pytest.importorskip("matplotlib")


# Machines without fonts for every script draw boxes.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph")


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
            ends = np.array(
                [segment[:, 1] if len(segment) else [np.nan] * 2 for segment in segments]
            )
            found[container.get_label()] = (
                *(np.array(part, np.float64) for part in line.get_data(orig=True)),
                ends,
            )
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
            hidden |= {
                id(text)
                for tick in found
                if id(tick) not in drawn
                for text in (tick.label1, tick.label2)
            }
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


def assert_bars(figure: Any, chart: Chart) -> None:
    panels = panels_of(figure)
    for panel in chart.panels:
        drawn = bars_of(panels[f"{panel.title}, {panel.heading}"])
        assert list(drawn) == [series.name for series in panel.series]
        for series in panel.series:
            heights, ends = drawn[series.name]
            np.testing.assert_allclose(
                heights, [one.estimate for one in series.points if one], rtol=1e-12
            )
            np.testing.assert_allclose(
                ends, [(one.low, one.high) for one in series.points if one], rtol=1e-9
            )


@pytest.mark.parametrize("shift", [0.0, -0.6])
def test_bars_are_the_points(shift: float) -> None:
    """Also below zero, where a line shows the foot of the bars."""
    chart = profiles(shift=shift)
    figure = draw(chart)
    assert_bars(figure, chart)
    assert value(2, 4, 0, 3) + shift == pytest.approx(chart.panels[3].series[2].points[3].estimate)  # type: ignore[union-attr]
    for axes in panels_of(figure).values():
        assert axes.get_ylim() == chart.domain(chart.panels[0])
        assert [line.get_ydata() for line in axes.lines if line.get_label() == "_zero"] == (
            [[0, 0]] if shift else []
        )
    assert legend_of(figure) == list(TREATMENTS)
    assert_legible(figure)


@pytest.mark.slow
def test_one_line_of_panels_for_each_heading() -> None:
    """Two sizes and three plans: two lines of three, a strip below each."""
    figure = draw(profiles())
    assert len(figure.axes) == 2 * 2 * 3
    strips = [axes for axes in figure.axes if axes.texts]
    for axes, count in zip(strips, (3, 3, 3, 4, 4, 4), strict=True):
        assert [bar.get_height() for bar in axes.containers[0]] == [
            20.0 * (1 + place) for place in range(count)
        ]
        assert [text.get_text() for text in axes.texts] == [
            str(20 * (1 + place)) for place in range(count)
        ]
        # On one scale: 80 is the largest size of all.
        assert axes.get_ylim() == (0, 80)
    assert [axes.get_ylabel() for axes in figure.axes].count("tokens") == 2


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
    assert (
        panels["cosine"].get_ylim()
        == panels["cosine of words"].get_ylim()
        != panels["rank"].get_ylim()
    )
    assert panels["rank"].get_xlabel() == "tokens of a text"
    assert_legible(figure)


def test_no_line_leads_to_labels_that_are_apart() -> None:
    """Of too many bars only points are drawn; the last two are apart."""
    chart = profiles(treatments=list("abcdefghijklmn"), sizes=(40,), strip=0)
    chart = replace(chart, panels=tuple(replace(panel, apart=2) for panel in chart.panels))
    for panel, axes in zip(chart.panels, panels_of(draw(chart)).values(), strict=True):
        for series in panel.series:
            y = curves_of(axes)[series.name][1]
            *joined, first, last = [point.estimate for point in series.points if point]
            np.testing.assert_allclose(y, [*joined, np.nan, first, np.nan, last])


@pytest.mark.parametrize("shift", [0.0, -0.25])
def test_rows_are_the_points(shift: float) -> None:
    """Bars from 0 to either side, numbers and notes beside them, the first treatment marked in the
    second panel."""
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
            "–" if one is None else f"{one.estimate:.3f}".replace("-", "−")
            for one in panel.series[0].points
        ]
        assert [text for text in shown if text.startswith("#")] == [one.note for one in known]
        low, high = axes.get_xlim()
        assert all(low <= one.estimate <= high for one in known)
        assert [0.25, 0.25] in [list(line.get_xdata()) for line in axes.lines]
    marks = [line.get_xdata()[0] for line in panels["paper"].lines if line.get_linewidth() == 1.4]
    assert marks == pytest.approx([one.estimate for one in chart.panels[0].series[0].points if one])
    assert_legible(figure)


@given(st.floats(-100, 100), st.floats(0.001, 100))
def test_ticks_are_round_and_few(low: float, reach: float) -> None:
    found = ticks(low, low + reach)
    assert 2 <= len(found) <= 12
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    assert low - 1e-6 <= found[0] <= found[-1] <= low + reach + 1e-6
    assert len({tick_text(mark, found, ".3f") for mark in found}) == len(found)


def test_an_axis_holds_every_interval_and_the_foot_of_bars() -> None:
    series = Series(
        "a", 0, (point(Estimate(0.4, 0.3, 0.52)), None, point(Estimate(-0.1, np.nan, np.nan)))
    )
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
    series = Series("a", 0, (None, point(Estimate(0.5, np.nan, np.inf))))
    figure = draw(Chart("c", "t", "bars", "x", "y", (Panel("p", ("1", "2"), (series,)),)))
    (bars,) = [item for item in figure.axes[0].containers if hasattr(item, "errorbar")]
    caps = [cap.get_ydata(orig=False) for cap in bars.errorbar.lines[1]]
    assert np.isnan(caps).all(), "no caps without an interval"


@pytest.mark.slow
def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    kinds = ("svg", "PNG", ".pdf")
    few = replace(view(), sections=view().sections[2:], picture="")
    few = replace(few, sections=(*few.sections, *few.sections))
    first, second = (write_figures(few, tmp_path / folder, kinds) for folder in ("a", "b"))
    names = ["segments", "segments-2"]
    assert [file.name for file in first] == [
        f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")
    ]
    for one, other in zip(first, second, strict=True):
        data = one.read_bytes()
        assert data == other.read_bytes(), one.name
        for dated in (b"CreationDate", b"dc:date", b"matplotlib.org"):
            assert dated not in data, (one.name, dated)


def test_text_of_an_svg_stays_text() -> None:
    drawn = figure_bytes(draw(profiles()), "svg").decode()
    for text in ("position", "zh:en, n = 3", "similarity", "tokens"):
        assert text in drawn


def test_other_formats_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        FairspanError, match=r"^a picture is one of .png, .svg, .pdf, got 'figure.gif'.$"
    ):
        write_figures(view(), tmp_path / "out", ["svg", "gif"])
    monkeypatch.setattr("fairspan.report.style.find_spec", lambda name: None)
    for call in (lambda: write_figures(view(), tmp_path / "out"), lambda: draw(lines())):
        with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[report\]'"):
            call()
    assert not (tmp_path / "out").exists()


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
