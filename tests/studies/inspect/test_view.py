"""What an inspection with given numbers shows: frames, chart, table, terminal and page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairspan.report.text import number
from fairspan.studies.inspect.reading import InspectedSegment, Reading
from fairspan.studies.inspect.view import Inspection, inspection_page
from tests.builders.browser import legend_of, opened
from tests.runs.test_logs import Page

EVIL_TITLE = "<img src=x onerror=alert(1)>"
EVIL_TEXT = "</script><script>alert(2)</script> & \u2028 {{ 7*7 }} $x^2$ [bold] end"
COSINES = {"none": (0.8, 0.4, 0.2), "tempscale": (0.6, 0.5, -0.1), "tiles-64": (0.5, 0.45, 0.4)}


@pytest.fixture(scope="module")
def made() -> Inspection:
    """Three segments under three treatments. For the first two the second segment is cut, and the
    third never seen; the last one reads the document whole, and has retention."""
    texts = ["First words of a text. " * 12, EVIL_TEXT, "第三段的文字 और कुछ शब्द"]
    titles = [EVIL_TITLE, None, 'a "quoted" & long title ' * 6]
    counts = [(60, 60, 0, len(texts[0])), (20, 6, 0, 9), (15, 0, 0, 0)]
    rows = zip(titles, ["en", None, "zh"], texts, counts, strict=True)
    cut = tuple(
        InspectedSegment(place, title, language, text, *read)
        for place, (title, language, text, read) in enumerate(rows, start=1)
    )
    whole = tuple(replace(part, seen=part.tokens, first=0, last=len(part.text)) for part in cut)
    readings = [Reading(name, cosines, cut, 68, 29) for name, cosines in COSINES.items()]
    last = replace(readings[-1], segments=whole, window=200, unseen=0, retention=(0.9, 0.75, -0.1))
    return Inspection(
        model="/home/somebody/models/tiny",
        document="<b>page</b>.json",
        borders="as given",
        readings=(*readings[:-1], last),
        length=97,
        unit="tokens",
        prompt="",
        notes=("a note",),
    )


@pytest.fixture(scope="module")
def source(made: Inspection) -> str:
    return inspection_page(made)


def test_json_holds_everything(made: Inspection) -> None:
    told = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    facts = {"format": 2, "verb": "inspect", "document": "<b>page</b>.json", "length": 97, "n": 3}
    assert {name: told[name] for name in facts} == facts
    assert "This is one document" in told["caveat"]
    windows = [(row["treatment"], row["window"], row["unseen"]) for row in told["verdicts"]]
    assert windows == [("none", 68, 29), ("tempscale", 68, 29), ("tiles-64", 200, 0)]
    assert [row["status"] for row in told["segments"]] == ["seen", "cut", "never seen"]
    assert told["segments"][1]["text"] == EVIL_TEXT
    columns = ["treatment", "segment", "tokens", "seen", "share", "representation", "retention"]
    assert [list(row) for row in told["readings"]] == [columns] * 9
    for place, reading in enumerate(made.readings):
        rows = told["readings"][3 * place : 3 * place + 3]
        assert [row["treatment"] for row in rows] == [reading.treatment] * 3
        assert [row["segment"] for row in rows] == [1, 2, 3]
        assert [row["seen"] for row in rows] == [part.seen for part in reading.segments]
        assert [row["share"] for row in rows] == list(reading.share)
        assert [row["representation"] for row in rows] == list(COSINES[reading.treatment])


def test_headings_name_the_model_without_its_folders(made: Inspection) -> None:
    assert repr(made).startswith(
        "<<b>page</b>.json as embedded by tiny: 3 segments as given, 97 tokens"
    )
    assert "somebody" not in repr(made)


def test_bars_are_shares_beside_the_fair_one(made: Inspection) -> None:
    """With cosines beside them, or how much of a segment is read."""
    chart = made.view.chart("shares")
    assert (chart.kind, chart.x, chart.y) == ("rows", "label", "share")
    assert chart.level == (pytest.approx(1 / 3), "fair share")
    panels = dict(chart.panels())
    assert list(panels) == list(COSINES)
    for rows, reading in zip(panels.values(), made.readings, strict=True):
        assert rows["share"].to_list() == list(reading.share)
        first, second, third = rows["label"]
        assert first == f"1 {EVIL_TITLE}"
        assert second.startswith("2 </script>")
        assert third.startswith('3 a "quoted" & long title')
        assert third.endswith("…")
    assert panels["none"]["note"].to_list() == ["0.800", "6 of 20", "unseen"]
    assert panels["tiles-64"]["note"].to_list() == [number(n) for n in COSINES["tiles-64"]]


def test_the_table_has_all_numbers(made: Inspection) -> None:
    """Of what is cut the cosine is there, and counts for nothing; retention where it was
    measured."""
    [table] = made.view.tables()
    assert list(table.cells)[-1] == "retention"
    rows = {row[:2]: row[2:] for row in table.rows}
    third = f"3 {made.segments[2].label}"
    assert rows["tempscale", third] == ("0 of 15", "0.0\xa0%", "−0.100", "–")
    assert rows["tiles-64", third] == ("15", "29.6\xa0%", "0.400", "−0.100")


def test_markup_in_a_text_stays_text(source: str) -> None:
    tags = [tag for tag, _ in Page(source).elements]
    assert "img" not in tags
    assert tags.count("script") == 1
    assert "alert(2)</script>" not in source
    assert "&lt;/script&gt;&lt;script&gt;alert(2)" in source
    assert "{{ 7*7 }}" in source


def test_a_page_shows_what_each_treatment_reads(source: str) -> None:
    """One column for each treatment; what it does not read is marked in it."""
    sections = re.findall(r'<section class="segment.*?</section>', source, flags=re.DOTALL)
    assert len(sections) == 3 * 3
    for place, section in enumerate(sections):
        segment, treatment = divmod(place, 3)
        assert f"Segment {segment + 1}, {[*COSINES][treatment]}" in section
        is_cut = treatment < 2
        assert ("14 tokens never seen" in section) == (is_cut and segment == 1)
        assert ('class="unseen"' in section) == (is_cut and segment > 0)
        assert ('class="segment gone"' in section) == (is_cut and segment == 2)
    assert "6 of 20 tokens · cosine 0.500</span>" in sections[4]
    assert "20 tokens · cosine 0.450 · retention 0.750</span>" in sections[5]
    assert "<dt>retention</dt>" in source


def test_colours_have_the_fair_share_in_their_middle(made: Inspection, source: str) -> None:
    """From no share to twice the fair one; what is never seen has none."""
    heats = [float(heat) for heat in re.findall(r"--v: ([\d.]+)", source)]
    shares = [reading.share[place] or 0 for place in range(3) for reading in made.readings]
    expected = [min(1, 3 * share / 2) for share in shares if share]
    assert [heat for heat in heats if heat] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, True), (390, False)])
def test_it_opens_from_disk_and_asks_for_nothing(
    browser: Any, made: Inspection, tmp_path: Path, width: int, dark: bool
) -> None:
    written = made.save_page(tmp_path / "inspection.html")
    with opened(browser, written, width=width, dark=dark) as found:
        assert found.page.locator(".segment").count() == 9
        assert found.page.evaluate("document.documentElement.scrollWidth") == width
        assert found.page.locator(".title").first.inner_text() == EVIL_TITLE
        text = found.page.locator(".segment").nth(3).inner_text()
        assert EVIL_TEXT[:34] in text.replace("14 tokens never seen", "").replace("\n", "")
        assert found.page.locator("main img").count() == 0
        assert legend_of(found.page) == (True, ["none"] * 3)
        assert not found.complaints
        assert found.requests == [written.resolve().as_uri()]
