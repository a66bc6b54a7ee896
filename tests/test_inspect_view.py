"""What an inspection with given numbers shows: frames, chart, table, terminal and page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairspan.report.text import number
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading
from fairspan.studies.inspect.view import colour_range, inspection_page, view_of
from tests.browser import legend_of, opened
from tests.report_example import chart_of
from tests.test_logs import Page

EVIL_TITLE = "<img src=x onerror=alert(1)>"
EVIL_TEXT = "</script><script>alert(2)</script> & \u2028 {{ 7*7 }} $x^2$ [bold] end"
COSINES = {"none": (0.8, 0.4, 0.2), "paper": (0.5, 0.45, 0.4), "tempscale": (0.6, 0.5, -0.1)}


def made(**changes: Any) -> Inspection:
    """Three segments, the second cut and the third never seen, under three treatments."""
    texts = ["First words of a text. " * 12, EVIL_TEXT, "第三段的文字 और कुछ शब्द"]
    titles, languages = [EVIL_TITLE, None, 'a "quoted" & long title ' * 6], ["en", None, "zh"]
    segments, place = [], 0
    for which, text in enumerate(texts, start=1):
        end = place + len(text)
        seen = (place, end) if which == 1 else (place, place + 9) if which == 2 else (place, place)
        counts = {1: (60, 60), 2: (20, 6), 3: (15, 0)}[which]
        title, language = titles[which - 1], languages[which - 1]
        segments.append(InspectedSegment(which, title, language, text, place, end, *counts, *seen))
        place = end + 1
    seen: dict[str, Any] = {"segments": tuple(segments), "window": 68, "unseen": 29}
    readings = tuple(Reading(name, cosines, **seen) for name, cosines in COSINES.items())
    whole = Inspection(
        model="/home/somebody/models/tiny",
        document="<b>page</b>.json",
        text=" ".join(texts),
        borders="as given",
        readings=readings,
        length=97,
        unit="tokens",
        prompt="",
        show=view_of,
        write=inspection_page,
        notes=("a note",),
    )
    return replace(whole, **changes)


def read() -> Inspection:
    """The same with a window that holds all of it."""
    whole = tuple(
        replace(one, seen=one.tokens, seen_start=one.start, seen_end=one.end)
        for one in made().segments
    )
    return made(
        readings=tuple(
            replace(one, segments=whole, window=200, unseen=0) for one in made().readings
        )
    )


def alone(cosines: tuple[float, ...]) -> Inspection:
    """The same document under one treatment that reads all of it."""
    seen: dict[str, Any] = {"segments": read().segments, "window": 200, "unseen": 0}
    return made(readings=(Reading("none", cosines, **seen),))


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


def test_what_is_never_seen_has_no_share_and_only_what_is_read_whole_a_spread() -> None:
    """Of the second 6 of 20 tokens are read, of the third none: only the first counts."""
    found = made().verdicts
    assert found["spread"].to_list() == [None] * 3
    assert found["counted"].to_list() == [1] * 3
    assert (
        found["sentence"][0] == "the vector lacks segment 3, and 14 of the 20 tokens of segment 2"
    )
    first, second = 0.8, 0.4 * 6 / 20
    assert made().readings[0].share == pytest.approx(
        (first / (first + second), second / (first + second), 0.0)
    )
    assert [panel.reference for panel in chart_of(made().view, "shares").panels] == [
        pytest.approx(1 / 3)
    ] * 3


def test_what_reads_all_of_it_is_named_where_nothing_does() -> None:
    assert made().warnings[-1] == "The whole document is read by fair: name it as a treatment."
    assert not any("name it" in one for one in (*further().warnings, *read().warnings))


def test_headings_name_the_model_without_its_folders() -> None:
    assert repr(made()).startswith(
        "<<b>page</b>.json as embedded by tiny: 3 segments as given, 97 tokens"
    )
    assert "somebody" not in made()._repr_html_()


def test_json_holds_the_facts_as_well() -> None:
    said = json.loads(json.dumps(made().to_dict(), allow_nan=False))
    facts = {
        "format": 1,
        "verb": "inspect",
        "document": "<b>page</b>.json",
        "borders": "as given",
        "length": 97,
    }
    facts |= {"unit": "tokens", "prompt": "", "n": 3, "notes": ["a note"]}
    assert {name: said[name] for name in facts} == facts
    assert said["warnings"][0].startswith(
        "The last 29 of 97 tokens (29.9\xa0%) are not in the vector"
    )
    assert "This is one document" in said["caveat"]
    second = said["segments"][1]
    assert said["text"][second["start"] : second["end"]] == EVIL_TEXT
    assert [one["treatment"] for one in said["readings"][::3]] == list(COSINES)


def test_a_treatment_that_reads_further_says_so_in_json() -> None:
    said = json.loads(json.dumps(further().to_dict(), allow_nan=False))
    windows = [(one["treatment"], one["window"], one["unseen"]) for one in said["verdicts"]]
    assert windows == [*((name, 68, 29) for name in COSINES), ("tiles-64", 200, 0)]
    seen = {
        one: [row["seen"] for row in said["readings"] if row["treatment"] == one]
        for one in ("none", "tiles-64")
    }
    assert seen == {"none": [60, 6, 0], "tiles-64": [60, 20, 15]}
    warning, remedy = said["warnings"]
    assert warning.startswith("none, paper, tempscale: The last 29 of 97 tokens")
    assert remedy == "The whole document is read by tiles-64."


# --- chart and table


def test_bars_are_shares_beside_the_fair_one() -> None:
    found = read()
    panels = chart_of(found.view, "shares").panels
    assert [panel.title for panel in panels] == list(COSINES)
    for panel, reading in zip(panels, found.readings, strict=True):
        [series] = panel.series
        points = [one for one in series.points if one is not None]
        assert [one.estimate for one in points] == list(reading.share)
        assert [one.note for one in points] == [number(value) for value in reading.representation]
        assert panel.reference == pytest.approx(1 / 3)
    first, second, third = chart_of(made().view, "shares").panels[0].labels
    assert first == f"1 {EVIL_TITLE} (en · 60 tokens)"
    # Panels share their labels: what a treatment does not read is said in its panel.
    assert second.endswith("(20 tokens)")
    assert third.endswith("(zh · 15 tokens)")
    plain, *_, tiles = chart_of(further().view, "shares").panels
    assert plain.labels == tiles.labels
    drawn = [
        (one.note, one.void)
        for panel in (plain, tiles)
        for one in panel.series[0].points
        if one is not None
    ]
    assert drawn[:3] == [("0.800", False), ("0.400", False), ("unseen", True)]
    assert not any(void for _, void in drawn[3:])
    assert (plain.detail, tiles.detail) == ("29.9\xa0% never seen", "")


def test_the_table_has_all_numbers() -> None:
    [table] = read().view.tables()
    rows = {row.heads: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["tempscale", "2 " + made().segments[1].label] == [
        "20",
        "20",
        "45.5\u00a0%",
        "0.500",
    ]
    third = "3 " + made().segments[2].label
    assert rows["tempscale", third] == ["15", "15", "0.0\u00a0%", "−0.100"]
    [table] = made().view.tables()
    cut = [
        cell.text for row in table.rows if row.heads == ("tempscale", third) for cell in row.cells
    ]
    assert cut == ["15", "0", "0.0\xa0%", "−0.100"], "the cosine is there, and counts for nothing"


def test_retention_is_shown_where_it_was_measured() -> None:
    """The last of four treatments reads the document whole."""
    *others, last = further().readings
    found = made(readings=(*others, replace(last, retention=(0.9, 0.75, -0.1))))
    [table] = found.view.tables()
    assert table.columns[-1].name == "retention"
    assert [row.cells[-1].text for row in table.rows] == ["–"] * 9 + ["0.900", "0.750", "−0.100"]
    source = inspection_page(found)
    metas = [one["meta"][1] for one in Page(source).charts[0]["treatments"]]
    assert metas[2:] == ["6 of 20 tokens", "20 tokens · retention 0.750"]
    assert "<dt>retention</dt>" in source


# --- the page


def test_markup_in_a_text_stays_text() -> None:
    source = inspection_page(made())
    tags = [tag for tag, _ in Page(source).elements]
    assert "img" not in tags
    # The data, the page's own script, the switch of the theme, and how tables fit.
    assert tags.count("script") == 4
    assert "alert(2)</script>" not in source
    assert "&lt;/script&gt;&lt;script&gt;alert(2)" in source
    assert "{{ 7*7 }}" in source
    data = re.search(r'id="inspection">(.*?)</script>', source, flags=re.DOTALL)
    assert data is not None
    assert not set("<>&\u2028\u2029") & set(data[1])
    assert json.loads(data[1])["segments"][0]["label"] == EVIL_TITLE


def test_a_page_knows_what_each_treatment_reads() -> None:
    """Runs end where any treatment stops reading; the first treatment's marks are shown."""
    source = inspection_page(further())
    [data] = Page(source).charts
    assert [one["status"][1:] for one in data["treatments"]] == [
        *[["cut", "never seen"]] * 3,
        ["seen", "seen"],
    ]
    assert [one["meta"][1] for one in data["treatments"][2:]] == ["6 of 20 tokens", "20 tokens"]
    mark = "14 tokens never seen"
    before = [[True] * 4, [""] * 4]
    after = [[False, False, False, True], [mark, mark, mark, ""]]
    assert data["segments"][1]["runs"] == [before, after]
    assert source.count(f">{mark}</span>") == 1


def test_the_colour_scale_has_the_fair_share_in_its_middle() -> None:
    """In multiples of it, since treatments that read more share among more."""
    low, high = colour_range(read())
    every = [
        share * 3 for reading in read().readings for share in reading.share if share is not None
    ]
    assert (low + high) / 2 == pytest.approx(1)
    assert low <= min(every) + 1e-12
    assert high >= max(every) - 1e-12
    # Differences of a hundredth are not blown up to the whole scale.
    low, high = colour_range(alone((0.50, 0.51, 0.50)))
    assert (high - low) / 2 == pytest.approx(0.25)


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
        assert found.page.locator(".segment").count() == 3
        assert found.page.evaluate("document.documentElement.scrollWidth") == width
        assert found.page.locator(".title").first.inner_text() == EVIL_TITLE
        assert EVIL_TEXT[:34] in found.page.locator(".segment").nth(1).inner_text().replace(
            "14 tokens never seen", ""
        ).replace("\n", "")
        assert found.page.locator("main img").count() == 0
        assert legend_of(found.page) == (True, ["none"] * 3)
        assert not found.complaints
        assert found.requests == [written.resolve().as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_switch_sets_chips_and_bars_to_the_numbers(
    browser: Any, tmp_path: Path, place: int
) -> None:
    inspection = read()
    reading, before = inspection.readings[place], inspection.readings[0]
    top = max(share or 0 for one in inspection.readings for share in one.share)
    with opened(browser, inspection.save_page(tmp_path / "page.html")) as found:
        page = found.page
        # With the keyboard alone: the first radio button, then arrows.
        page.locator("input[name=treatment]").first.focus()
        for _ in range(place):
            page.keyboard.press("ArrowDown")
        assert page.locator("[data-name]").inner_text() == reading.treatment
        shares = [number(share, ".1%") for share in reading.share]
        assert page.locator("[data-chip]").all_inner_texts() == shares
        assert page.locator("[data-share]").all_inner_texts() == shares
        assert page.locator("[data-cosine]").all_inner_texts() == [
            number(one) for one in reading.representation
        ]
        widths = page.evaluate(
            """[...document.querySelectorAll("[data-fill]")].map((fill) =>
                fill.getBoundingClientRect().width
                / fill.parentElement.getBoundingClientRect().width)"""
        )
        assert widths == pytest.approx([(share or 0) / top for share in reading.share], abs=0.01)
        marks = page.locator("[data-before]")
        assert [marks.nth(number).is_visible() for number in range(3)] == [place > 0] * 3
        if place:
            left = marks.nth(0).evaluate("mark => parseFloat(mark.style.left)")
            assert left == pytest.approx(100 * (before.share[0] or 0) / top, abs=1e-6)
        heats = page.evaluate(
            """[...document.querySelectorAll(".segment")].map(
                (one) => Number(one.style.getPropertyValue("--v")))"""
        )
        low, high = colour_range(inspection)
        assert heats == pytest.approx(
            [((share or 0) * 3 - low) / (high - low) for share in reading.share], abs=1e-3
        )
        assert not found.complaints


@pytest.mark.slow
def test_the_switch_shows_what_the_treatment_reads(browser: Any, tmp_path: Path) -> None:
    with opened(browser, further().save_page(tmp_path / "page.html")) as found:
        page = found.page

        def shown() -> tuple[int, int, str]:
            marks = page.locator(".cut-mark:visible").all_inner_texts()
            return (
                page.locator(".unseen").count(),
                page.locator(".segment.gone").count(),
                " ".join(marks),
            )

        assert shown() == (2, 1, "14 tokens never seen")
        page.locator("input[name=treatment]").last.check()
        assert shown() == (0, 0, "")
        assert page.locator("[data-meta]").all_inner_texts() == [
            "en · 60 tokens",
            "20 tokens",
            "zh · 15 tokens",
        ]
        page.locator("input[name=treatment]").first.check()
        assert shown() == (2, 1, "14 tokens never seen")
        assert not found.complaints
