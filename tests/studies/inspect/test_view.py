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
COSINES = {"none": (0.8, 0.4, 0.2), "paper": (0.5, 0.45, 0.4), "tempscale": (0.6, 0.5, -0.1)}


def made(**changes: Any) -> Inspection:
    """Three segments, the second cut and the third never seen, under three treatments."""
    texts = ["First words of a text. " * 12, EVIL_TEXT, "第三段的文字 और कुछ शब्द"]
    titles, languages = [EVIL_TITLE, None, 'a "quoted" & long title ' * 6], ["en", None, "zh"]
    counts = [(60, 60, 0, len(texts[0])), (20, 6, 0, 9), (15, 0, 0, 0)]
    segments = tuple(
        InspectedSegment(number, title, language, text, *read)
        for number, (title, language, text, read) in enumerate(
            zip(titles, languages, texts, counts, strict=True), start=1
        )
    )
    seen: dict[str, Any] = {"segments": segments, "window": 68, "unseen": 29}
    readings = tuple(Reading(name, cosines, **seen) for name, cosines in COSINES.items())
    whole = Inspection(
        model="/home/somebody/models/tiny",
        document="<b>page</b>.json",
        borders="as given",
        readings=readings,
        length=97,
        unit="tokens",
        prompt="",
        notes=("a note",),
    )
    return replace(whole, **changes)


def read() -> Inspection:
    """The same with a window that holds all of it."""
    whole = tuple(
        replace(one, seen=one.tokens, first=0, last=len(one.text)) for one in made().segments
    )
    return made(
        readings=tuple(
            replace(one, segments=whole, window=200, unseen=0) for one in made().readings
        )
    )


def further() -> Inspection:
    """The same under a fourth treatment, which reads all of it."""
    found = made()
    last = replace(read().readings[1], treatment="tiles-64")
    return replace(found, readings=(*found.readings, last))


# --- frames


def test_frames_hold_everything() -> None:
    found = made()
    assert found.frame("readings").columns == [
        "treatment",
        "segment",
        "tokens",
        "seen",
        "share",
        "representation",
        "retention",
    ]
    for reading in found.readings:
        own = found.frame("readings").filter(treatment=reading.treatment)
        assert own["segment"].to_list() == [1, 2, 3]
        assert own["share"].to_list() == list(reading.share)
        assert own["representation"].to_list() == list(COSINES[reading.treatment])
    segments = found.frame("segments")
    assert segments["status"].to_list() == ["seen", "cut", "never seen"]
    assert segments["text"].to_list() == [segment.text for segment in found.segments]


def test_headings_name_the_model_without_its_folders() -> None:
    assert repr(made()).startswith(
        "<<b>page</b>.json as embedded by tiny: 3 segments as given, 97 tokens"
    )
    assert "somebody" not in made()._repr_html_()


def test_json_holds_the_facts_as_well() -> None:
    said = json.loads(json.dumps(made().to_dict(), allow_nan=False))
    facts = {
        "format": 2,
        "verb": "inspect",
        "document": "<b>page</b>.json",
        "borders": "as given",
        "length": 97,
    }
    facts |= {"unit": "tokens", "prompt": "", "n": 3, "notes": ["a note"]}
    assert {name: said[name] for name in facts} == facts
    assert "This is one document" in said["caveat"]
    assert said["segments"][1]["text"] == EVIL_TEXT
    assert [one["treatment"] for one in said["readings"][::3]] == list(COSINES)


# --- chart and table


def test_bars_are_shares_beside_the_fair_one() -> None:
    """With cosines beside them, or how much of a segment is read."""
    chart = read().view.chart("shares")
    assert (chart.kind, chart.x, chart.y) == ("rows", "label", "share")
    assert chart.level == (pytest.approx(1 / 3), "fair share")
    for (title, rows), reading in zip(chart.panels(), read().readings, strict=True):
        assert title == reading.treatment
        assert rows["share"].to_list() == list(reading.share)
        assert rows["note"].to_list() == [number(value) for value in reading.representation]
    plain, *_, tiles = dict(further().view.chart().panels()).values()
    first, second, third = plain["label"]
    assert first == f"1 {EVIL_TITLE}"
    assert second.startswith("2 </script>")
    assert third.startswith('3 a "quoted" & long title')
    assert third.endswith("…")
    assert plain["label"].equals(tiles["label"])
    assert plain["note"].to_list() == ["0.800", "6 of 20", "unseen"]
    assert tiles["note"].to_list() == ["0.500", "0.450", "0.400"]


def test_the_table_has_all_numbers() -> None:
    """Of what is cut the cosine is there, and counts for nothing."""
    second, third = (f"{place + 1} {made().segments[place].label}" for place in (1, 2))
    [table] = read().view.tables()
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["tempscale", second] == ("20", "45.5\xa0%", "0.500")
    assert rows["tempscale", third] == ("15", "0.0\xa0%", "−0.100")
    [table] = made().view.tables()
    assert table.rows[-1] == ("tempscale", third, "0 of 15", "0.0\xa0%", "−0.100")


def test_retention_is_shown_where_it_was_measured() -> None:
    """The last of four treatments reads the document whole."""
    *others, last = further().readings
    found = made(readings=(*others, replace(last, retention=(0.9, 0.75, -0.1))))
    [table] = found.view.tables()
    assert list(table.cells)[-1] == "retention"
    assert [row[-1] for row in table.rows] == ["–"] * 9 + ["0.900", "0.750", "−0.100"]
    source = inspection_page(found)
    assert "6 of 20 tokens · cosine 0.500</span>" in source
    assert "20 tokens · cosine 0.450 · retention 0.750</span>" in source
    assert "<dt>retention</dt>" in source


# --- the page


def test_markup_in_a_text_stays_text() -> None:
    source = inspection_page(made())
    tags = [tag for tag, _ in Page(source).elements]
    assert "img" not in tags
    assert tags.count("script") == 1
    assert "alert(2)</script>" not in source
    assert "&lt;/script&gt;&lt;script&gt;alert(2)" in source
    assert "{{ 7*7 }}" in source


def test_a_page_shows_what_each_treatment_reads() -> None:
    """One column for each treatment; what it does not read is marked in it."""
    source = inspection_page(further())
    sections = re.findall(r'<section class="segment.*?</section>', source, flags=re.DOTALL)
    assert len(sections) == 3 * 4
    for place, section in enumerate(sections):
        segment, treatment = divmod(place, 4)
        assert f"Segment {segment + 1}, {[*COSINES, 'tiles-64'][treatment]}" in section
        is_cut = segment == 1 and treatment < 3
        assert ("14 tokens never seen" in section) == is_cut
        assert ('class="unseen"' in section) == (segment > 0 and treatment < 3)
        assert ('class="segment gone"' in section) == (segment == 2 and treatment < 3)


def test_colours_have_the_fair_share_in_their_middle() -> None:
    """From no share to twice the fair one."""
    found = read()
    heats = [float(heat) for heat in re.findall(r"--v: ([\d.]+)", inspection_page(found))]
    shares = [reading.share[place] or 0 for place in range(3) for reading in found.readings]
    assert heats == pytest.approx([min(1, 3 * share / 2) for share in shares], abs=1e-4)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "inspection.html"
    return made().save_page(file)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_from_disk_and_asks_for_nothing(
    browser: Any, written: Path, width: int, dark: bool
) -> None:
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
