"""What an inspection shows: numbers written by hand in; frames, chart, table, terminal and page out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from fairspan.errors import LogError
from fairspan.report.chart import Chart
from fairspan.report.terminal import print_view
from fairspan.report.text import number
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading
from fairspan.studies.inspect.view import colour_range, inspection_page
from tests.browser import chromium, opened

EVIL_TITLE = "<img src=x onerror=alert(1)>"
EVIL_TEXT = "</script><script>alert(2)</script> & \u2028 {{ 7*7 }} $x^2$ [bold] end"
COSINES = {"none": (0.8, 0.4, 0.2), "paper": (0.5, 0.45, 0.4), "tempscale": (0.6, 0.5, -0.1)}


def made(**changes: Any) -> Inspection:
    """Three segments, the second cut and the third never seen, under three treatments that read alike."""
    texts = ["First words of a text. " * 12, EVIL_TEXT, "第三段的文字 और कुछ शब्द"]
    titles, languages = [EVIL_TITLE, None, 'a "quoted" & long title ' * 6], ["en", None, "zh"]
    segments, place = [], 0
    for which, text in enumerate(texts, start=1):
        end = place + len(text)
        seen = (place, end) if which == 1 else (place, place + 9) if which == 2 else (place, place)
        counts = {1: (60, 60), 2: (20, 6), 3: (15, 0)}[which]
        title, language = titles[which - 1], languages[which - 1]
        segments.append(
            InspectedSegment(which, title, language, text, place, end, *counts, *seen, counts[0] + 2, False)
        )
        place = end + 1
    seen: dict[str, Any] = {"segments": tuple(segments), "window": 68}
    readings = tuple(
        Reading(name, cosines, (0.3, 0.1, 0.0), 0.6, (0.9, 0.5, None), **seen) for name, cosines in COSINES.items()
    )
    whole = Inspection(
        model="/home/somebody/models/tiny",
        document="<b>page</b>.json",
        text=" ".join(texts),
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
    whole = tuple(replace(one, seen=one.tokens, seen_start=one.start, seen_end=one.end) for one in made().segments)
    return made(readings=tuple(replace(one, segments=whole, window=200) for one in made().readings))


def alone(cosines: tuple[float, ...]) -> Inspection:
    """The same document under one treatment that reads all of it and shows no more than its cosines."""
    seen: dict[str, Any] = {"segments": read().segments, "window": 200}
    return made(readings=(Reading("none", cosines, **seen),))


def further() -> Inspection:
    """The same under a fourth treatment, which reads all of it."""
    found = made()
    last = replace(read().readings[1], treatment="tiles")
    return replace(found, readings=(*found.readings, last))


def chart(inspection: Inspection) -> Chart:
    found = inspection.view.chart("shares")
    assert isinstance(found, Chart)
    return found


# --- frames


def test_frames_hold_everything() -> None:
    found = made()
    assert found.frame("readings").columns == [
        "treatment",
        "segment",
        "share",
        "representation",
        "attention",
        "retention",
        "seen",
    ]
    for reading in found.readings:
        own = found.frame("readings").filter(treatment=reading.treatment)
        assert own["segment"].to_list() == [1, 2, 3]
        assert own["share"].to_list() == list(reading.share)
        assert own["representation"].to_list() == list(COSINES[reading.treatment])
        assert own["attention"].to_list() == [0.3, 0.1, 0.0]
        assert own["retention"].to_list() == [0.9, 0.5, None]
    segments = found.frame("segments")
    assert segments["status"].to_list() == ["seen", "cut", "never seen"]
    assert segments["text"].to_list() == [segment.text for segment in found.segments]
    assert found.verdicts["attention_elsewhere"].to_list() == [0.6] * 3


def test_verdicts_compare_spreads_with_the_first() -> None:
    """0.8 − 0.2 at first; then 0.5 − 0.4, and 0.6 + 0.1."""
    found = read().verdicts
    assert found["verdict"].to_list() == ["baseline", "narrower", "wider"]
    assert found["spread"].to_list() == pytest.approx([0.6, 0.1, 0.7])
    assert found["sentence"][0] == (
        "segment 1 is represented best (0.800) and segment 3 least (0.200): a spread of 0.600"
    )


def test_only_segments_that_are_read_whole_are_counted() -> None:
    """The second is cut and the third never seen, so that there is nothing to compare the first with."""
    found = made().verdicts
    assert found["spread"].to_list() == [None] * 3
    assert found["counted"].to_list() == [1] * 3
    assert found["verdict"].to_list() == ["baseline", "not comparable", "not comparable"]
    assert found["sentence"][0] == "only segment 1 is read whole, so there is no spread"
    assert [one.share for one in made().readings] == [(None, None, None)] * 3
    assert [panel.reference for panel in chart(made()).panels] == [None] * 3


def test_treatments_are_compared_over_what_both_read_whole() -> None:
    """The first reads two of three: 0.8 and 0.4. The other reads all, with 0.5 and 0.45 for those and 0.4."""
    whole = read().segments
    two = (*whole[:2], replace(whole[2], seen=5, seen_end=whole[2].start + 3))
    first, last = (replace(one, segments=own) for one, own in zip(read().readings, (two, whole), strict=False))
    found = made(readings=(first, replace(last, treatment="tiles")))
    assert found.readings[0].share == pytest.approx((2 / 3, 1 / 3, None))
    assert found.readings[1].share == pytest.approx((50 / 135, 45 / 135, 40 / 135))
    assert [panel.reference for panel in chart(found).panels] == pytest.approx([1 / 2, 1 / 3])
    assert chart(found).dashes == "fair share of what is read whole"
    assert found.verdicts["spread"].to_list() == pytest.approx([0.4, 0.1])
    assert found.verdicts["verdict"].to_list() == ["baseline", "narrower"]
    first, second = found.verdicts["sentence"]
    assert first.endswith("a spread of 0.400 over segments 1 and 2; segment 3 not counted")
    words = "over segments 1 and 2, which none reads whole too, a spread of 0.050 after 0.400"
    assert second.endswith(f"a spread of 0.100; {words}")


def test_what_reads_all_of_it_is_named_where_nothing_does() -> None:
    assert made().warnings[-1] == (
        "To read all of it on this model, set the option window to 97 and use a treatment in tiles: tiles, or "
        "tiles+tile_size=34 for longer tiles."
    )
    assert not any("tile_size" in one for one in (*further().warnings, *read().warnings))


def test_json_holds_the_facts_as_well() -> None:
    said = json.loads(json.dumps(made().to_dict(), allow_nan=False))
    facts = {"format": 1, "verb": "inspect", "document": "<b>page</b>.json", "borders": "as given", "length": 97}
    facts |= {"window": 68, "unit": "tokens", "prompt": "", "n": 3, "unseen": 29, "notes": ["a note"]}
    assert {name: said[name] for name in facts} == facts
    assert said["fair_share"] == pytest.approx(1 / 3)
    assert "29 were never seen" in said["warnings"][0]
    assert "This is one document" in said["caveat"]
    second = said["segments"][1]
    assert said["text"][second["start"] : second["end"]] == EVIL_TEXT
    assert [one["treatment"] for one in said["readings"][::3]] == list(COSINES)


def test_what_a_model_does_not_show_is_null() -> None:
    found = alone((0.8, 0.4, 0.2))
    assert found.frame("readings")["attention"].null_count() == 3
    [table] = found.view.tables()
    assert [column.name for column in table.columns] == ["tokens", "seen", "share", "cosine"]


def test_a_treatment_that_reads_further_says_so_in_json() -> None:
    said = json.loads(json.dumps(further().to_dict(), allow_nan=False))
    assert [(one["treatment"], one["window"], one["unseen"]) for one in said["verdicts"]] == [
        ("none", 68, 29),
        ("paper", 68, 29),
        ("tempscale", 68, 29),
        ("tiles", 200, 0),
    ]
    seen = {one: [row["seen"] for row in said["readings"] if row["treatment"] == one] for one in ("none", "tiles")}
    assert seen == {"none": [60, 6, 0], "tiles": [60, 20, 15]}
    assert len(said["warnings"]) == 1
    assert said["warnings"][0].startswith("none, paper, tempscale: The document has 97 tokens and the model reads 68")


def test_python_shows_it_in_one_line_and_in_a_notebook() -> None:
    found = read()
    assert repr(found).startswith("<<b>page</b>.json through ")
    assert repr(found).endswith(" | none: baseline; paper: narrower; tempscale: wider>")
    shown = found._repr_html_()
    assert "&lt;b&gt;page&lt;/b&gt;.json" in shown
    assert "<b>page</b>" not in shown
    with pytest.raises(LogError, match="there is no frame 'rows', only verdicts, segments, readings"):
        found.frame("rows")


# --- chart and table


def test_bars_are_shares_beside_the_fair_one() -> None:
    found = read()
    panels = chart(found).panels
    assert [panel.title for panel in panels] == list(COSINES)
    for panel, reading in zip(panels, found.readings, strict=True):
        [series] = panel.series
        points = [one for one in series.points if one is not None]
        assert [one.estimate for one in points] == list(reading.share)
        assert [one.note for one in points] == [number(value) for value in reading.representation]
        assert panel.reference == pytest.approx(1 / 3)
    first, second, third = chart(made()).panels[0].labels
    assert first == f"1 {EVIL_TITLE} (en, 60 tokens)"
    assert second.startswith("2 cut: ")
    assert second.endswith("(6 of 20 tokens)")
    assert third.startswith("3 never seen: a ")
    assert third.endswith("(zh, 15 tokens)")
    assert "29 tokens never seen" in chart(made()).title


def test_labels_say_what_each_treatment_reads() -> None:
    found = chart(further())
    assert [panel.labels[2].startswith("3 never seen: ") for panel in found.panels] == [True, True, True, False]
    assert [panel.detail for panel in found.panels] == [*["29 tokens never seen"] * 3, ""]
    assert "never seen" not in found.title
    [table] = further().view.tables()
    seen = [row.cells[1].text for row in table.rows if row.heads[0] in ("none", "tiles")]
    assert seen == ["60", "6", "0", "60", "20", "15"]


def test_the_picture_draws_the_shares() -> None:
    pytest.importorskip("matplotlib")
    found = read()
    panels = [axes for axes in found.figure().axes if axes.axison]
    for axes, reading in zip(panels, found.readings, strict=True):
        assert [bar.get_width() for bar in axes.patches] == pytest.approx([share or 0 for share in reading.share])  # type: ignore[attr-defined]
    panels = [axes for axes in made().figure().axes if axes.axison]
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert "3 never seen" in labels[2]


def test_a_picture_of_too_many_segments_is_refused_and_a_notebook_goes_without() -> None:
    pytest.importorskip("matplotlib")
    found = made()
    reading = Reading("none", (0.5,) * 120, segments=found.segments * 40, window=68)
    many = replace(found, readings=(reading,))
    with pytest.raises(LogError, match="at most 100 rows, and this one would have 120"):
        many.figure()
    assert "<img" not in many._repr_html_()
    assert "<img" in found._repr_html_()


def test_the_table_has_all_numbers() -> None:
    [table] = read().view.tables()
    rows = {row.heads: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["tempscale", "2 " + made().segments[1].label] == [
        "20",
        "20",
        "45.5\u00a0%",
        "0.500",
        "10.0\u00a0%",
        "0.500",
    ]
    third = "3 " + made().segments[2].label
    assert rows["tempscale", third] == ["15", "15", "0.0\u00a0%", "−0.100", "0.0\u00a0%", "–"]
    assert table.frame.equals(read().frame("readings"))
    [table] = made().view.tables()
    cut = [cell.text for row in table.rows if row.heads == ("tempscale", third) for cell in row.cells]
    assert cut == ["15", "0", "–", "−0.100", "0.0\u00a0%", "–"], "the cosine is there, and counts for nothing"


# --- terminal


def printed(inspection: Inspection, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_view(console, inspection.view)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_what_was_never_seen_comes_first_and_the_heading_once() -> None:
    lines = printed(made(), 200).splitlines()
    assert lines[0].endswith("tiny: 3 segments as given, 97 tokens, of which the model reads 68")
    assert lines[1].startswith("note: The document has 97 tokens and the model reads 68: 29 were never seen. ")
    assert lines[2].startswith("note: To read all of it ")
    assert lines[3] == "note: a note"
    assert sum("segments as given" in line for line in lines) == 1
    for name in COSINES:
        assert sum(f"({name})" in line for line in lines) == 1, "each treatment's bars once"


def test_the_heading_names_who_does_not_read_it_whole() -> None:
    first = printed(further(), 200).splitlines()[0]
    assert first.endswith("97 tokens, of which none, paper, tempscale read 68")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_of_the_chart_is_wider_than_the_terminal(width: int) -> None:
    """Chinese characters take two cells. Sentences are not broken, so that they can be searched."""
    bars = [line for line in printed(read(), width).splitlines() if "█" in line]
    assert len(bars) == 8
    unread = [line for line in printed(made(), width).splitlines() if re.match(r"  \d ", line)]
    assert len(unread) == 9
    assert all(cell_len(line) <= width for line in bars + unread)
    assert sum("never seen" in line or "never s…" in line for line in unread) == 3


def test_bars_and_the_fair_mark_are_to_scale() -> None:
    """The longest bar ends at 0.6; the mark stands at a third; a negative cosine has no bar."""
    short = tuple(replace(segment, title="T", language=None) for segment in read().segments)
    readings = tuple(replace(reading, segments=short) for reading in read().readings)
    lines = [line for line in printed(made(readings=readings), 120).splitlines() if re.match(r"  \d ", line)]
    assert len(lines) == 9
    begin = 2 + len("3 T (15 tokens)") + 1
    length = len(lines[0]) - begin - len(" 57.1 % 0.800")
    bars = [line[begin : begin + length] for line in lines]
    fair = round(length / 3 / 0.6)
    assert {bar.index("┊") for bar in bars} == {fair - 1}
    # Eighths are rounded, and the mark takes the place of one character.
    filled = [len(bar.replace("┊", "█" if bar[fair:].strip() else " ").rstrip()) for bar in bars]
    expected = [length * (share or 0) / 0.6 for reading in read().readings for share in reading.share]
    assert filled == pytest.approx(expected, abs=1.1)
    assert filled[8] == 0
    assert "−0.100" in lines[8]


def test_shares_that_are_unknown_are_a_dash() -> None:
    """Not one cosine is positive."""
    found = alone((-0.1, -0.2, -0.3))
    assert chart(found).panels[0].series[0].points == (None,) * 3
    assert [row.cells[2].text for table in found.view.tables() for row in table.rows] == ["–"] * 3
    assert "−0.100" in printed(found)


# --- the page


class _Read(HTMLParser):
    """Elements that a page has, and the text of those that matter."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)


def test_markup_in_a_text_stays_text() -> None:
    source = inspection_page(made())
    read = _Read()
    read.feed(source)
    assert "img" not in read.elements
    # The data, the page's own script, and the switch of the theme.
    assert read.elements.count("script") == 3
    assert "alert(2)</script>" not in source
    assert "&lt;/script&gt;&lt;script&gt;alert(2)" in source
    assert "{{ 7*7 }}" in source
    data = re.search(r'id="inspection">(.*?)</script>', source, flags=re.DOTALL)
    assert data is not None
    assert not set("<>&\u2028\u2029") & set(data[1])
    assert json.loads(data[1])["segments"][0]["label"] == EVIL_TITLE


def test_a_page_knows_what_each_treatment_reads() -> None:
    """The runs of a text meet at the end of what any treatment reads, and the first treatment's marks are shown."""
    source = inspection_page(further())
    assert "window <b>68</b> (none, paper, tempscale)" in source
    assert "window <b>200</b> (tiles)" in source
    found = re.search(r'id="inspection">(.*?)</script>', source, flags=re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert [one["status"][1:] for one in data["treatments"]] == [*[["cut", "never seen"]] * 3, ["seen", "seen"]]
    assert [one["meta"][1] for one in data["treatments"][2:]] == ["6 of 20 tokens seen", "20 tokens"]
    mark = "14 tokens never seen"
    before = [[True] * 4, [""] * 4]
    after = [[False, False, False, True], [mark, mark, mark, ""]]
    assert data["segments"][1]["runs"] == [before, after]
    assert source.count(f">{mark}</span>") == 1
    assert "(none, paper, tempscale: cut)" in source


def test_a_page_names_no_folder_and_no_other_server() -> None:
    source = inspection_page(made())
    assert "/home/somebody" not in source
    assert "http://" not in source.replace("http://www.w3.org", "")
    assert "https://" not in source


def test_the_colour_scale_has_the_fair_share_in_its_middle() -> None:
    """In multiples of it, since treatments that read more share among more."""
    low, high = colour_range(read())
    every = [share * 3 for reading in read().readings for share in reading.share if share is not None]
    assert (low + high) / 2 == pytest.approx(1)
    assert low <= min(every) + 1e-12
    assert high >= max(every) - 1e-12
    # Differences of a hundredth are not blown up to the whole scale.
    low, high = colour_range(alone((0.50, 0.51, 0.50)))
    assert (high - low) / 2 == pytest.approx(0.25)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "inspection.html"
    return made().save_page(file)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_from_disk_and_asks_for_nothing(browser: Any, written: Path, width: int, dark: bool) -> None:
    with opened(browser, written, width=width, dark=dark) as found:
        assert found.page.locator(".segment").count() == 3
        assert found.page.evaluate("document.documentElement.scrollWidth") == width
        assert found.page.locator(".title").first.inner_text() == EVIL_TITLE
        assert EVIL_TEXT[:34] in found.page.locator(".segment").nth(1).inner_text().replace(
            "14 tokens never seen", ""
        ).replace("\n", "")
        assert found.page.locator("main img").count() == 0
        assert not found.complaints
        assert found.requests == [written.resolve().as_uri()]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_switch_sets_chips_and_bars_to_the_numbers(browser: Any, tmp_path: Path, place: int) -> None:
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
        assert page.locator("[data-chip]").all_inner_texts() == [number(share, ".1%") for share in reading.share]
        assert page.locator("[data-share]").all_inner_texts() == [number(share, ".1%") for share in reading.share]
        assert page.locator("[data-cosine]").all_inner_texts() == [number(one) for one in reading.representation]
        widths = page.evaluate(
            """[...document.querySelectorAll("[data-fill]")].map((fill) => fill.getBoundingClientRect().width
                / fill.parentElement.getBoundingClientRect().width)"""
        )
        assert widths == pytest.approx([(share or 0) / top for share in reading.share], abs=0.01)
        marks = page.locator("[data-before]")
        assert [marks.nth(number).is_visible() for number in range(3)] == [place > 0] * 3
        if place:
            left = marks.nth(0).evaluate("mark => parseFloat(mark.style.left)")
            assert left == pytest.approx(100 * (before.share[0] or 0) / top, abs=1e-6)
        heats = page.evaluate(
            """[...document.querySelectorAll(".segment")].map((one) => Number(one.style.getPropertyValue("--v")))"""
        )
        low, high = colour_range(inspection)
        assert heats == pytest.approx([((share or 0) * 3 - low) / (high - low) for share in reading.share], abs=1e-3)
        assert not found.complaints


@pytest.mark.slow
def test_the_switch_shows_what_the_treatment_reads(browser: Any, tmp_path: Path) -> None:
    with opened(browser, further().save_page(tmp_path / "page.html")) as found:
        page = found.page

        def shown() -> tuple[int, int, str]:
            marks = page.locator(".cut-mark:visible").all_inner_texts()
            return page.locator(".unseen").count(), page.locator(".segment.gone").count(), " ".join(marks)

        assert shown() == (2, 1, "14 tokens never seen")
        page.locator("input[name=treatment]").last.check()
        assert shown() == (0, 0, "")
        assert page.locator("[data-meta]").all_inner_texts() == ["en · 60 tokens", "20 tokens", "zh · 15 tokens"]
        page.locator("input[name=treatment]").first.check()
        assert shown() == (2, 1, "14 tokens never seen")
        assert not found.complaints


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = (colour) => {
    const [r, g, b] = [...rgb(colour)].slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const segment = document.querySelector(".segment"), found = [];
  for (const v of [0, 0.25, 0.5, 0.75, 1]) {
    segment.style.setProperty("--v", v);
    const style = getComputedStyle(segment);
    for (const part of [segment, segment.querySelector(".meta"), segment.querySelector(".title")])
      found.push(ratio(getComputedStyle(part).color, style.backgroundColor));
  }
  const unseen = getComputedStyle(document.querySelector(".unseen"));
  const probe = document.createElement("i"); document.body.append(probe);
  for (const name of ["--paper", "--faint"]) {
    probe.style.color = `var(${name})`;
    found.push(ratio(unseen.color, getComputedStyle(probe).color));
  }
  return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_on_every_colour(browser: Any, written: Path, dark: bool) -> None:
    """WCAG's contrast of 4.5 to 1, over the whole colour scale and on both stripes of what was never seen."""
    with opened(browser, written, dark=dark) as found:
        ratios = found.page.evaluate(CONTRAST)
    assert len(ratios) == 17
    assert min(ratios) >= 4.5


@pytest.mark.slow
def test_values_are_shown_on_hover_and_focus_and_go_with_escape(browser: Any, written: Path) -> None:
    with opened(browser, written) as found:
        page, tip = found.page, found.page.locator("#tip")
        page.hover("#s1")
        assert tip.is_visible()
        for reading in made().readings:
            assert f"{reading.treatment}: share {number(reading.share[0], '.1%')}" in tip.inner_text()
        assert EVIL_TITLE in tip.inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        page.locator("input[name=treatment]").first.focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.row") == "0"
        assert tip.is_visible()
        assert "on" in (page.locator("#s1").get_attribute("class") or "").split()
