"""`fairspan inspect` through the command's own entry, and what it prints, draws and writes."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import typer
from fairspan.report.inspection_page import colour_range, decimal, inspection_page, percent, save_inspection_page
from fairspan.report.inspection_picture import draw_inspection, save_inspection_picture
from fairspan.report.inspection_terminal import print_inspection
from rich.cells import cell_len
from rich.console import Console

from fairspan.cli import app
from fairspan.errors import LogError
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading, shares
from tests.browser import chromium, opened
from tests.commands import Run, example_lines
from tests.tiny import words

EVIL_TITLE = "<img src=x onerror=alert(1)>"
EVIL_TEXT = "</script><script>alert(2)</script> & \u2028 {{ 7*7 }} $x^2$ [bold] end"
COSINES = {"none": (0.8, 0.4, 0.2), "paper": (0.5, 0.45, 0.4), "tempscale": (0.6, 0.5, -0.1)}


def made(**changes: Any) -> Inspection:
    """Three segments, the second cut and the third never seen, under three treatments."""
    texts = ["First words of a text. " * 12, EVIL_TEXT, "第三段的文字 और कुछ शब्द"]
    titles, languages = [EVIL_TITLE, None, 'a "quoted" & long title ' * 6], ["en", None, "zh"]
    segments, place = [], 0
    for number, text in enumerate(texts, start=1):
        end = place + len(text)
        seen = (place, end) if number == 1 else (place, place + 9) if number == 2 else (place, place)
        counts = {1: (60, 60), 2: (20, 6), 3: (15, 0)}[number]
        title, language = titles[number - 1], languages[number - 1]
        segments.append(
            InspectedSegment(number, title, language, text, place, end, *counts, *seen, counts[0] + 2, False)
        )
        place = end + 1
    readings = tuple(
        Reading(name, cosines, shares(cosines), (0.3, 0.1, 0.0), 0.6, (0.9, 0.5, None))
        for name, cosines in COSINES.items()
    )
    whole = Inspection(
        model="/home/somebody/models/tiny",
        document="<b>page</b>.json",
        text=" ".join(texts),
        borders="as given",
        segments=tuple(segments),
        readings=readings,
        length=97,
        window=68,
        unit="tokens",
        prompt="",
        notes=("a note",),
    )
    return replace(whole, **changes)


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text("\n\n".join(f"# T{n}\n\n{words(20 + n, n)}" for n in range(3)), encoding="utf-8")
    return file


# --- the command


def test_it_prints_a_chart_and_says_what_it_is_not(run: Run, model: Path, page: Path) -> None:
    done = run("inspect", model, page)
    assert done.code == 0, done.err
    said = json.loads(run("inspect", model, page, "--json").out)
    assert [one["title"] for one in said["segments"]] == ["T0", "T1", "T2"]
    for treatment in said["treatments"]:
        for share, value in zip(treatment["share"], treatment["representation"], strict=True):
            numbers = rf"{treatment['treatment']}\s.*{re.escape(f'{share:.1%}')} +{re.escape(f'{value:.3f}')}"
            assert re.search(numbers.replace("-", "−"), done.out)
    assert "This is one document" in done.out
    assert "run fairspan audit" in done.out
    assert "page.md through" in done.out
    assert "3 segments by headings" in done.out


def test_what_was_never_seen_is_printed(run: Run, model: Path, page: Path) -> None:
    done = run("inspect", model, page, "--window", "40", "--treatments", "none")
    assert done.code == 0, done.err
    assert "warning: The document has" in done.out
    assert "the model reads 40" in done.out
    assert "never seen" in done.out
    assert "Traceback" not in done.err


def test_stdin_may_be_text_or_json(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, segments in (
        (f"{words(9, 1)}\n---\n{words(9, 2)}".encode(), 2),
        (json.dumps([words(9, 1), words(9, 2), words(9, 3)]).encode(), 3),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        borders = ["--borders", "rule"] if segments == 2 else []
        done = run("inspect", model, "-", *borders, "--json", "--treatments", "none")
        assert done.code == 0, done.err
        assert json.loads(done.out)["n"] == segments
        assert json.loads(done.out)["document"] == "stdin"


def test_a_picture_and_a_page_are_written_beside_the_json(run: Run, model: Path, page: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run("inspect", model, page, "--json", "--picture", "a/shares.svg", "--html", "a/page.html")
    assert done.code == 0, done.err
    json.loads(done.out)
    assert "picture: a/shares.svg" in done.err
    assert (tmp_path / "a" / "shares.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "a" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["nowhere.txt"], "there is no file nowhere.txt"),
        (["page.md", "--borders", "chapter"], "borders must be one of auto, heading"),
        (["page.md", "--parts", "0"], "--parts must be a whole number of at least 2"),
        (["page.md", "--parts", "1"], "at least 2"),
        (["page.md", "--parts", "2", "--borders", "blank"], "leave one of them out"),
        (["page.md", "--picture", "a.gif"], "a picture is one of"),
        (["page.md", "--html", "a.pdf"], "a page is an .html file"),
        (["page.md", "--treatments", "whitening"], "run an audit"),
        (["page.md", "--treatments", "peper"], "there is no treatment 'peper'"),
        (["page.md", "--window", "0"], "--window must be"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, model: Path, page: Path, typed: list[str], said: str
) -> None:
    done = run("inspect", model, *typed)
    assert done.code == 2
    assert done.out == ""
    assert said in done.last
    assert done.last.startswith("fairspan: ")
    assert "Traceback" not in done.err


def test_every_example_in_help_can_be_parsed(run: Run) -> None:
    done = run("inspect", "--help")
    examples = [*example_lines(done.out), *re.findall(r"\| (fairspan inspect .*?)\s*$", done.out, flags=re.MULTILINE)]
    assert len(examples) >= 4
    for line in examples:
        command: Any = typer.main.get_command(app)
        assert command.commands["inspect"].make_context("fairspan", shlex.split(line)[2:]).params


# --- the terminal


def printed(inspection: Inspection, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_inspection(console, inspection)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_of_the_chart_is_wider_than_the_terminal(width: int) -> None:
    """Chinese characters take two cells. Sentences above the chart are not broken, so that they can be searched."""
    _, _, chart = printed(made(), width).partition("note: a note\n")
    assert chart.count("█") > 10
    assert all(cell_len(line) <= width for line in chart.splitlines())


def test_bars_and_the_fair_mark_are_to_scale() -> None:
    """The longest share fills the bar; the mark stands at a third of all; a negative cosine has no bar."""
    lines = printed(made(), 80).splitlines()
    bars = [line for line in lines if re.match(r"   (none|paper|tempscale) ", line)]
    assert len(bars) == 9
    drawn = [line[13:61] for line in bars]
    lengths = [sum(character not in " ┊" for character in one) + ("┊█" in one or one.endswith("┊")) for one in drawn]
    assert lengths[0] == max(lengths) == 48
    fair = {one.index("┊") for one in drawn}
    assert fair == {round(48 * (1 / 3) / (0.8 / 1.4)) - 1}
    assert lengths[8] == 0
    assert "−0.100" in bars[8]
    assert "[bold]" in printed(made())


def test_shares_that_are_unknown_are_a_dash() -> None:
    negative = Reading("none", (-0.1, -0.2, -0.3), shares((-0.1, -0.2, -0.3)))
    found = printed(made(readings=(negative,)))
    assert found.count(" – ") == 3


# --- the picture


def test_the_bars_of_the_picture_are_the_shares(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = made()
    figure = draw_inspection(found)
    panels = [axes for axes in figure.axes if axes.patches]
    assert [axes.get_title() for axes in panels] == list(COSINES)
    for axes, reading in zip(panels, found.readings, strict=True):
        assert [bar.get_width() for bar in axes.patches] == pytest.approx([share or 0 for share in reading.share])
        assert [bool(bar.get_hatch()) for bar in axes.patches] == [False, False, True]
        written = [text.get_text() for text in axes.texts]
        for value in reading.representation:
            assert f"{value:.3f}".replace("-", "−") in written
    labels = [label.get_text() for label in panels[0].get_yticklabels()]
    assert EVIL_TITLE[:20] in labels[0]
    assert "6 of 20 tokens seen" in labels[1]
    assert "never seen" in labels[2]
    save_inspection_picture(found, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_too_many_segments_is_refused() -> None:
    pytest.importorskip("matplotlib")
    found = made()
    with pytest.raises(LogError, match="at most 100 segments, and this document has 120"):
        draw_inspection(replace(found, segments=found.segments * 40))


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


def test_a_page_names_no_folder_and_no_other_server() -> None:
    source = inspection_page(made())
    assert "/home/somebody" not in source
    assert "http://" not in source.replace("http://www.w3.org", "")
    assert "https://" not in source


def test_the_colour_scale_has_the_fair_share_in_its_middle() -> None:
    found = made()
    low, high = colour_range(found)
    every = [share for reading in found.readings for share in reading.share if share is not None]
    assert (low + high) / 2 == pytest.approx(found.fair)
    assert low <= min(every) + 1e-12
    assert high >= max(every) - 1e-12
    # Differences of a hundredth are not blown up to the whole scale.
    even = Reading("none", (0.50, 0.51, 0.50), shares((0.50, 0.51, 0.50)))
    low, high = colour_range(made(readings=(even,)))
    assert (high - low) / 2 == pytest.approx(0.25 * found.fair)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "inspection.html"
    save_inspection_page(made(), file)
    return file


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
def test_the_switch_sets_chips_and_bars_to_the_numbers(browser: Any, written: Path, place: int) -> None:
    inspection = made()
    reading, before = inspection.readings[place], inspection.readings[0]
    top = max(share or 0 for one in inspection.readings for share in one.share)
    with opened(browser, written) as found:
        page = found.page
        # With the keyboard alone: the first radio button, then arrows.
        page.locator("input[name=treatment]").first.focus()
        for _ in range(place):
            page.keyboard.press("ArrowDown")
        assert page.locator("[data-name]").inner_text() == reading.treatment
        assert page.locator("[data-chip]").all_inner_texts() == [percent(share) for share in reading.share]
        assert page.locator("[data-share]").all_inner_texts() == [percent(share) for share in reading.share]
        assert page.locator("[data-cosine]").all_inner_texts() == [decimal(one) for one in reading.representation]
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
        assert heats == pytest.approx([((share or 0) - low) / (high - low) for share in reading.share], abs=1e-3)
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
            assert f"{reading.treatment}: share {percent(reading.share[0])}" in tip.inner_text()
        assert EVIL_TITLE in tip.inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        page.locator("input[name=treatment]").first.focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.row") == "0"
        assert tip.is_visible()
        assert "on" in (page.locator("#s1").get_attribute("class") or "").split()
