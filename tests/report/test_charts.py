"""Charts: every number that is drawn is read back from the specification, and from the picture."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.errors import MissingExtra
from fairspan.report.chart import Chart
from fairspan.report.drawing import COLOURS, DASHES, MOST_ROWS, SHAPES, draw, figure_bytes
from fairspan.report.files import write_figures
from fairspan.report.text import number
from tests.builders.saying import said_by
from tests.report.example import EVIL, LABELS, TREATMENTS, dots, lengths, profiles, rows, view

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

CHARTS = {"lines": profiles, "dots": dots, "numbers": lengths, "rows": rows}


def panels_of(chart: Chart) -> list[dict[str, Any]]:
    """The panels of the specification, with the values of their data in each layer."""
    specification = draw(chart).to_dict()
    for panel in specification["concat"]:
        for layer in panel["layer"]:
            # Of a single panel altair moves the data up.
            source = layer.get("data") or panel.get("data") or specification["data"]
            layer["values"] = specification["datasets"][source["name"]]
    panels: list[dict[str, Any]] = specification["concat"]
    return panels


@pytest.mark.parametrize("kind", CHARTS)
def test_marks_are_the_rows(kind: str) -> None:
    """Every number with its interval, panel by panel; intervals are marks of their own: bands of
    lines, bars of dots, and none where there is no interval."""
    chart = CHARTS[kind]()
    drawn = panels_of(chart)
    titles = ["" if chart.free else title for title, _ in chart.panels()]
    assert [panel["title"] for panel in drawn] == titles
    for panel, (_, frame) in zip(drawn, chart.panels(), strict=True):
        values = panel["layer"][0]["values"]
        assert [value["estimate"] for value in values] == frame[chart.y].to_list()
        for end in ("low", "high"):
            known = frame[end].to_list() if end in frame.columns else [None] * len(frame)
            assert [value[end] for value in values] == known
        assert [value["series"] for value in values] == frame["treatment"].to_list()
    expected = {"dots": ["rule", "point", "rect"], "rows": ["bar", "text", "text", "rule"]}
    lines = ["area", "line", "point"]
    expected |= {"lines": lines, "numbers": [*lines, "rule", "text"]}
    assert [layer["mark"]["type"] for layer in drawn[0]["layer"]] == expected[kind]


def test_many_bands_become_bars() -> None:
    chart = profiles(treatments=["a", "b", "c", "d"])
    marks = [layer["mark"]["type"] for layer in panels_of(chart)[0]["layer"]]
    assert marks == ["rule", "line", "point"]


def test_series_differ_without_colour() -> None:
    """By shapes and dashes, all in the order of the frame."""
    area, line, points = panels_of(profiles())[0]["layer"]
    assert area["encoding"]["color"]["scale"] == {
        "domain": list(TREATMENTS),
        "range": list(COLOURS[:3]),
    }
    assert line["encoding"]["strokeDash"]["scale"]["range"] == [list(dash) for dash in DASHES[:3]]
    assert points["encoding"]["shape"]["scale"]["range"] == list(SHAPES[:3])
    assert len(set(SHAPES)) == len(COLOURS) == len(set(map(tuple, DASHES)))


def test_panels_share_an_axis_unless_they_are_free() -> None:
    def axes(chart: Chart) -> list[Any]:
        return [panel["layer"][1]["encoding"]["y"] for panel in panels_of(chart)]

    assert [axis["scale"]["domain"] for axis in axes(profiles())] == [[0.0, 0.8]] * 2
    cosine, rank = axes(lengths())
    assert (cosine["title"], rank["title"]) == ("cosine", "rank")
    assert cosine["scale"]["domain"] == [0.0, 0.8]
    assert rank["scale"]["domain"] == [0.0, 40.0]


def test_axes_are_written_in_full() -> None:
    """And words at an edge stand on the side where there is room."""
    assert set(texts_in(lengths())) >= {"0.2", "40", "50", "400"}
    for place, align in ((60, "left"), (256, "right")):
        chart = replace(lengths(), edge=(place, "here"))
        assert panels_of(chart)[0]["layer"][-1]["mark"]["align"] == align


def of_one(**values: list[float]) -> Chart:
    """A chart of one number."""
    frame = pl.DataFrame({"x": ["a"], "treatment": ["b"], **values})
    return Chart(name="c", title="t", frame=frame, x="x")


@given(st.floats(-100, 100), st.floats(0.001, 100))
def test_an_axis_holds_every_interval_and_zero(low: float, reach: float) -> None:
    ends = {"low": [low], "estimate": [low + reach / 2], "high": [low + reach]}
    chart = of_one(**ends)
    bottom, top = chart.domain(chart.frame)
    tolerance = 1e-6 * (top - bottom)
    assert bottom - tolerance <= min(low, 0) <= max(low + reach, 0) <= top + tolerance
    assert top - bottom <= 1.6 * (max(low + reach, 0) - min(low, 0)) + 1e-9


def test_an_axis_without_numbers() -> None:
    chart = of_one(estimate=[float("nan")])
    frame = chart.frame
    assert chart.domain(frame) == (0.0, 1.0)
    assert replace(chart, margin=0.02).domain(frame) == (-0.02, 0.02)
    assert replace(chart, limits=(0.2, 0.4)).domain(frame) == (0.2, 0.4)
    assert figure_bytes(draw(chart), "pdf").startswith(b"%PDF")


def texts_in(chart: Chart) -> list[str]:
    return re.findall(r">([^<>]+)</text>", figure_bytes(draw(chart)).decode())


def test_numbers_and_notes_stand_beside_rows() -> None:
    """The level in every panel, and a dash for what is unknown."""
    texts = texts_in(rows())
    numbers = [text for text in texts if re.fullmatch(r"[−\d.]+\d{3}|–", text)]
    assert sorted(numbers) == sorted(map(number, rows().frame["share"]))
    assert texts.count("#1") == 2
    assert LABELS[2] in texts


def test_a_reader_who_cannot_see_it_is_told() -> None:
    description = draw(profiles(treatments=["none"], plans=["en"])).to_dict()["description"]
    assert description == (
        "Similarity by position. a model on a corpus. en: none: 1 0.550, 2 0.400, 3 0.250, 4 0.100"
    )


def test_too_many_rows_are_refused() -> None:
    labels = [f"row {place}" for place in range(MOST_ROWS + 1)]
    said = said_by(draw, rows(labels=labels))
    assert "at most 100 rows, and this one would have 101" in said


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    last = replace(view().sections[2], charts=(rows(LABELS[:1], TREATMENTS[:1]),))
    few = replace(view(), sections=(last, last), picture="")
    kinds = ["svg", "png"]
    first, second = (write_figures(few, tmp_path / folder, kinds) for folder in ("a", "b"))
    names = {file.name for file in first}
    assert names == {f"segments{number}.{kind}" for number in ("", "-2") for kind in kinds}
    for file, again in zip(first, second, strict=True):
        data = file.read_bytes()
        assert data == again.read_bytes()
        assert data.startswith(b"<svg" if file.suffix == ".svg" else b"\x89PNG")


def test_other_formats_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    said = said_by(write_figures, view(), out, ["svg", "gif"])
    assert said == "a picture is one of .png, .svg, .pdf, got 'figure.gif'."
    monkeypatch.setattr("fairspan.report.drawing.find_spec", lambda name: None)
    for call in ((write_figures, view(), out), (draw, profiles())):
        assert "pip install 'fairspan[report]'" in said_by(*call, kind=MissingExtra)
    assert not out.exists()


def test_names_are_drawn_as_they_are() -> None:
    """Markup is escaped, control characters are replaced, and every script is kept as text."""
    names = ["a$_b$c", EVIL, "bell\x07", "校准 हिन्दी العربية"]
    drawn = figure_bytes(draw(profiles(treatments=names, plans=("en", EVIL)))).decode()
    for text in ("a$_b$c", "&lt;img src=x", "bell\ufffd", "校准 हिन्दी العربية"):
        assert text in drawn
    assert "<img" not in drawn
