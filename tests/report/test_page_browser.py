"""A page in headless Chromium, opened from disk with the network off, and what it looks like.

`RENEW=1 python -m pytest tests/report/test_page_browser.py -k looks` stores its pictures anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fairspan.report.files import write_file
from fairspan.report.frames import finite_frame
from fairspan.report.page import Part, make_page
from fairspan.report.table import Column, Table
from fairspan.report.view import Section
from tests.builders import browser as browsers
from tests.report.example import (
    EVIL,
    FRAME,
    hostile_table,
    page,
    profiles,
    rows,
    view,
)

pytestmark = pytest.mark.slow

LONG = tuple(f"a long name of a treatment, {'x' * 60}={k}" for k in range(4))
NUMBERS = Table(
    "numbers",
    "Numbers and words",
    pl.DataFrame({"name": ["b", "d", "a", "c"], "value": [12345.5, None, -2.0, 3.0]}),
    heads=("name",),
    columns={"value": Column("value", form=",.1f")},
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example, the same with hostile names, and long names with bars below zero."""
    folder = tmp_path_factory.mktemp("pages")
    sections = (
        Section("Lines", charts=(profiles(treatments=LONG, plans=("en",), shift=-0.6),)),
        Section("Rows", charts=(rows(treatments=LONG[:2], shift=-0.25),)),
        Section("Tables", tables=(NUMBERS, hostile_table(["a", "b" * 40]))),
    )
    cards = tuple(replace(view().cards[0], name=name) for name in LONG)
    long = replace(view(), sections=sections, cards=cards)
    made = {
        "plain": page(),
        "hostile": page(hostile=True),
        "long": make_page("long", Part(long)),
    }
    return {name: write_file(folder / f"{name}.html", text) for name, text in made.items()}


@contextmanager
def opened(browser: Any, place: Path, **how: Any) -> Iterator[browsers.Opened]:
    """A page with all of its charts drawn."""
    with browsers.opened(browser, place, **how) as found:
        found.page.wait_for_function("!document.querySelector('[data-chart]:not(:has(svg))')")
        yield found


@pytest.fixture
def plain(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """The example, opened."""
    with opened(browser, pages["plain"]) as found:
        yield found.page


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [("plain", 390, True), ("hostile", 1280, False), ("long", 1280, False), ("long", 390, True)],
)
def test_it_opens_from_disk_and_asks_for_nothing(
    browser: Any, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    """No word on the console, no other request, nothing wider than the screen, and charts in their
    own size, whose text can be read."""
    with opened(browser, pages[name], width=width, dark=dark) as found:
        assert found.page.locator("[data-chart]").count() > 0
        assert found.page.evaluate("document.documentElement.scrollWidth") == width
        shrunk = found.page.evaluate(
            """[...document.querySelectorAll("[data-chart] svg")].map(
                (svg) => svg.getBoundingClientRect().width / svg.width.baseVal.value)"""
        )
        assert min(shrunk) > 0.9
        assert not found.complaints
        assert found.requests == [pages[name].resolve().as_uri()]


def test_charts_fit_a_window_that_changes(browser: Any, pages: dict[str, Path]) -> None:
    """Two panels side by side, then one below the other."""
    chart = "document.querySelector('[data-chart=profiles] svg').getBoundingClientRect()"
    with opened(browser, pages["plain"]) as found:
        wide = found.page.evaluate(f"{chart}.height")
        found.page.set_viewport_size({"width": 390, "height": 900})
        found.page.wait_for_function(f"{chart}.height > {1.5 * wide}")
        assert found.page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_name_in_a_legend_fades_the_others(plain: Any) -> None:
    """Of each of two panels a band, a line and four points of the two others."""
    chart = plain.locator("[data-chart=profiles]")
    assert chart.locator("path[opacity='0.15']").count() == 0
    chart.locator(".role-legend-label text", has_text="paper").click()
    chart.locator("path[opacity='0.15']").first.wait_for()
    assert chart.locator("path[opacity='0.15']").count() == 2 * 2 * 6


def test_a_mark_tells_its_numbers(plain: Any) -> None:
    plain.locator("[data-chart=profiles] .mark-symbol path").first.hover()
    tip = plain.locator("#vg-tooltip-element")
    tip.wait_for()
    told = "treatment none position 1 similarity 0.550 [0.520, 0.580] documents 12"
    assert " ".join(tip.inner_text().split()) == told


def test_a_heading_sorts_its_column(browser: Any, pages: dict[str, Path]) -> None:
    """By numbers, with those that are unknown last, or by names; twice turns it round."""
    with opened(browser, pages["long"]) as found:
        table = found.page.locator("table").first
        value, name = table.locator("thead th:last-child"), table.locator("thead th:first-child")
        for heading, order in ((value, "acbd"), (name, "abcd")):
            for direction, expected in (("ascending", order), ("descending", order[::-1])):
                heading.get_by_role("button").click()
                assert heading.get_attribute("aria-sort") == direction
                assert table.locator("[aria-sort]").count() == 1
                assert table.locator("tbody th").all_inner_texts() == list(expected)
        assert set(table.locator("tbody td").all_inner_texts()) == {"12,345.5", "–", "−2.0", "3.0"}


def test_rows_are_saved_as_they_are_but_for_formulas(plain: Any) -> None:
    with plain.expect_download() as waiting:
        plain.get_by_role("button", name="raw rows").click()
    assert waiting.value.suggested_filename == "run-rows.csv"
    saved = pl.read_csv(waiting.value.path(), schema_overrides=FRAME.schema)
    guarded = pl.col("treatment").str.replace("^=", "'=")
    assert_frame_equal(saved, finite_frame(FRAME).with_columns(guarded))


def test_markup_in_names_stays_text(browser: Any, pages: dict[str, Path]) -> None:
    """In headings, cards, legends, and what a mark tells."""
    with opened(browser, pages["hostile"]) as found:
        shown = found.page
        assert shown.locator("h1").inner_text() == EVIL
        assert shown.title() == EVIL
        assert shown.locator(".verdict h3 span").first.inner_text() == EVIL
        legend = shown.locator("[data-chart=profiles] .role-legend-label text")
        assert legend.first.text_content() == EVIL
        shown.locator("[data-chart=profiles] .mark-symbol path").first.hover()
        tip = shown.locator("#vg-tooltip-element")
        tip.wait_for()
        assert EVIL in tip.inner_text()
        assert shown.locator("img").count() == 0
        assert not found.complaints


def test_a_script_that_slipped_in_would_not_run(browser: Any, tmp_path: Path) -> None:
    """The page's policy names its own scripts by their hashes."""
    file = write_file(
        tmp_path / "page.html", page().replace("</main>", f"{EVIL}<script>alert(2)</script></main>")
    )
    with opened(browser, file) as found:
        assert not [told for told in found.complaints if told.startswith("dialog")]
        assert len([told for told in found.complaints if "Content Security Policy" in told]) >= 2


def test_paper_shows_what_is_closed(plain: Any) -> None:
    closed = plain.locator("details:not([open])")
    before = closed.count()
    assert before > 1
    plain.locator("summary").first.click()
    plain.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
    plain.evaluate("dispatchEvent(new Event('afterprint'))")
    assert closed.count() == before - 1, "what a reader opened stays open"
    assert len(plain.pdf()) > 20_000


# --- pictures

STORED = Path(__file__).parent / "pages"
SHAPES = {
    f"{theme}-{width}": (width, theme == "dark")
    for theme in ("light", "dark")
    for width in (390, 1280)
}
SHAPES["print"] = (794, False)
CELLS = (12, 8)
# Grey levels of 255, the mean over a section. A font with serifs in place of Noto Sans changes none
# by more than 3.3; lost charts and charts of half the width change one by at least 5.4.
TOLERANCE = 4.3
BROKEN = ["#section-1 { display: none }", "#section-2 figure { display: none }"]
BROKEN += ["html { filter: invert(1) }", "figure svg { visibility: hidden }"]
BROKEN += ["figure svg { width: 50% }"]
BOXES = """(wanted) => [...document.querySelectorAll(wanted)]
    .map((one) => one.getBoundingClientRect()).filter((box) => box.width && box.height)
    .map((box) => [box.left, box.top, box.right, box.bottom])"""
STYLE = """(text) => { const own = new CSSStyleSheet(); own.replaceSync(text);
    document.adoptedStyleSheets = [own]; }"""


@pytest.mark.parametrize("shape", SHAPES)
def test_it_looks_as_stored(browser: Any, pages: dict[str, Path], shape: str) -> None:
    """By the mean grey levels of 12 × 8 cells of each section, whatever the font. What is broken on
    purpose is told apart, in one shape for all."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    width, dark = SHAPES[shape]
    file = STORED / f"{shape}.png"
    with opened(browser, pages["plain"], width=width, dark=dark) as found:
        if shape == "print":
            found.page.emulate_media(media="print")
            found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        far = {}
        broken = BROKEN if shape == "light-1280" else []
        for style in ("", "body { font-family: serif }", *broken):
            found.page.evaluate(STYLE, style)
            # Charts whose width changes are drawn anew.
            found.page.wait_for_timeout(500)
            boxes = found.page.evaluate(BOXES, "header.top, main section")
            whole = image.open(BytesIO(found.page.screenshot(full_page=True))).convert("L")
            seen = np.stack(
                [np.asarray(whole.resize(CELLS, image.Resampling.BOX, box=box)) for box in boxes]
            )
            if os.environ.get("RENEW") and not style:
                image.fromarray(seen.reshape(-1, CELLS[0])).save(file)
            stored = np.asarray(image.open(file), np.float64).reshape(-1, *CELLS[::-1])
            same = len(seen) == len(stored)
            far[style] = np.abs(seen - stored).mean((1, 2)).max() if same else 255.0
    print(f"\n{shape}: {far}")
    assert [style for style, distance in far.items() if distance > TOLERANCE] == broken
