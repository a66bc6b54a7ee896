"""A page in headless Chromium, opened from disk with the network off, and what it looks like.

`RENEW=1 python -m pytest tests/test_page_browser.py -k looks` stores its pictures anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
from fairspan.report.view import Section
from fairspan.studies.logs import save_page
from tests.browser import opened
from tests.report.example import (
    EVIL,
    FRAME,
    LABELS,
    TREATMENTS,
    hostile_table,
    page,
    profiles,
    rows,
    view,
)
from tests.runs.test_logs import audited

pytestmark = pytest.mark.slow

LONG = tuple(f"a long name of a treatment, {'x' * 60}={k}" for k in range(4))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example, the same with hostile names, and long names with bars below zero."""
    folder = tmp_path_factory.mktemp("pages")
    sections = (
        Section("Bars", charts=(profiles(treatments=LONG, plans=("en",), shift=-0.6, strip=6e7),)),
        Section("Rows", charts=(rows(treatments=LONG[:2], shift=-0.25),)),
        Section("Table", tables=(hostile_table(["a", "b" * 40]),)),
    )
    cards = tuple(replace(view().cards[0], name=name) for name in LONG)
    long = replace(view(), switch=LONG, sections=sections, cards=cards)
    made = {
        "plain": page(),
        "hostile": page(hostile=True),
        "long": make_page("long", [Part("p", long)]),
    }
    return {name: write_file(folder / f"{name}.html", text) for name, text in made.items()}


@pytest.fixture
def plain(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """The example, opened."""
    with opened(browser, pages["plain"]) as found:
        yield found.page


@pytest.mark.parametrize("name", ["plain", "hostile", "long"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_opens_from_disk_and_asks_for_nothing(
    browser: Any, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    """No word on the console, no other request, nothing wider than the screen, no empty chart."""
    with opened(browser, pages[name], width=width, dark=dark) as found:
        shown = found.page
        assert shown.locator(".drawn").count() == shown.locator("figure.panel").count() > 0
        assert shown.locator("figure.panel:not(:has([data-mark]))").count() == 0
        shown.get_by_role("radio", name="all, side by side").check()
        assert shown.evaluate("document.documentElement.scrollWidth") == width
        assert not found.complaints
        assert found.requests == [pages[name].resolve().as_uri()]


def bars(shown: Any) -> list[tuple[str, int, float, float, float]]:
    """Series, place, value, top and height in pixels of every bar, chart by chart."""
    return shown.evaluate(
        """() => [...document.querySelectorAll("[data-chart] [data-mark]:has(rect)")].map((mark) =>
            { const box = mark.querySelector("rect").getBoundingClientRect();
            const own = mark.closest("svg").getBoundingClientRect();
            return [mark.dataset.series, Number(mark.dataset.place), Number(mark.dataset.value),
                box.top - own.top, box.height];
        })"""
    )


def expected_bars(treatment: int) -> list[tuple[str, int, float]]:
    return [
        (one.name, place, point.estimate)
        for panel in profiles().shown
        for one in panel.series
        if one.number == treatment
        for place, point in enumerate(one.points)
        if point
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_switch_sets_the_bars_to_the_data(plain: Any, place: int) -> None:
    """Values, heights and labels are the chosen treatment's; dashed lines stay the first one's."""
    expected = expected_bars(place)
    plain.get_by_role("radio", name=TREATMENTS[place], exact=True).check()
    drawn = bars(plain)
    assert [(name, p, value) for name, p, value, *_ in drawn] == expected
    # All panels share one axis and one size, so that heights are proportional to values.
    scale = drawn[0][4] / drawn[0][2]
    assert [height for *_, height in drawn] == pytest.approx(
        [value * scale for *_, value in expected], abs=0.6
    )
    values = plain.locator("text.value").all_text_contents()
    assert values == [f"{value:.3f}" for *_, value in expected]
    ghosts = plain.evaluate(
        "[...document.querySelectorAll('svg [data-before]')].map((n) => +n.dataset.before)"
    )
    assert ghosts == ([value for *_, value in expected_bars(0)] if place else [])


def test_bars_below_zero_hang_from_it(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["long"]) as found:
        drawn = bars(found.page)
        assert min(value for _, _, value, *_ in drawn) < -0.2
        foot = [top if value < 0 else top + height for _, _, value, top, height in drawn]
        assert foot == pytest.approx([foot[0]] * len(foot), abs=0.6)


def test_several_runs_are_on_one_page(browser: Any, tmp_path: Path) -> None:
    logs = [audited(tmp_path / run, run=run) for run in ("m-1", "m-2")]
    file = save_page(logs, tmp_path / "page.html")
    with opened(browser, file) as found:
        first, second = (found.page.locator(f"#run{place}") for place in (1, 2))
        assert [run.locator("[data-mark]").count() for run in (first, second)] == [9, 9]
        first.get_by_role("radio").first.check()
        assert [run.locator("[data-mark]").count() for run in (first, second)] == [3, 9]
        assert not found.complaints


def test_rows_are_horizontal_bars(plain: Any) -> None:
    """Labels in full, widths proportional to values, the first treatment marked in the second."""
    panels = plain.locator("figure.panel:has(.rows)")
    assert panels.count() == 2
    for number, panel in enumerate(rows().panels):
        own = panels.nth(number)
        assert own.locator(".row-label").all_inner_texts() == list(LABELS)
        known = [one for one in panel.series[0].points if one]
        found_bars = own.locator("[data-mark]").evaluate_all(
            "(marks) => marks.map((m) => [+m.dataset.value, m.getBoundingClientRect().width])"
        )
        assert [value for value, _ in found_bars] == [one.estimate for one in known]
        scale = found_bars[0][1] / found_bars[0][0]
        widths = [abs(one.estimate) * scale for one in known]
        assert [width for _, width in found_bars] == pytest.approx(widths, abs=0.6)
        assert own.locator(".row-number").nth(2).inner_text() == "–"
    assert plain.locator("[data-before].row-before").count() == 3


def test_lines_fade_and_leave_gaps(plain: Any) -> None:
    """The one that is chosen stands out; nothing is drawn across a point that is unknown."""
    layers = "document.querySelector('figure.panel svg:has(circle)').querySelectorAll('g[opacity]')"
    faded = f"[...{layers}].map((g) => g.getAttribute('opacity'))"
    for name, expected in {
        "paper": ["0.25", "1", "1"],
        "all, side by side": ["1", "1", "1"],
        # This chart does not have it.
        "retrieval": ["1", "1", "1"],
    }.items():
        plain.get_by_role("radio", name=name, exact=True).check()
        assert plain.evaluate(faded) == expected
    strokes = plain.evaluate(f"[...{layers}].map((g) => g.querySelector('path').getAttribute('d'))")
    assert [stroke.count("M") for stroke in strokes] == [1, 2, 1]


def test_the_keyboard_reaches_every_mark(plain: Any) -> None:
    """One stop a chart, arrows from bar to bar, the value told; the switch by arrows as well."""
    plain.locator("figure.panel").first.locator("[tabindex='0']").focus()
    tip = plain.locator("#tip")
    assert tip.inner_text() == "position 1\n0.730 [0.700, 0.760]"
    plain.keyboard.press("ArrowRight")
    told = tip.inner_text()
    assert told.startswith("position 2")
    assert plain.evaluate("document.activeElement.getAttribute('aria-label')") == told.replace(
        "\n", "; "
    )
    plain.keyboard.press("Escape")
    assert tip.is_hidden()
    plain.keyboard.press("Tab")
    chart = plain.evaluate("document.activeElement.closest('figure').dataset.chart")
    assert chart.endswith("-1"), "the next stop is the next chart"
    stops = plain.locator("figure.panel:has([tabindex='0'])").count()
    assert stops == plain.locator("figure.panel").count()
    plain.get_by_role("radio", name="none", exact=True).focus()
    plain.keyboard.press("ArrowDown")
    assert {name for name, *_ in bars(plain)} == {"paper"}


def test_rows_are_saved_as_they_are_but_for_formulas(plain: Any) -> None:
    with plain.expect_download() as waiting:
        plain.get_by_role("button", name="raw rows").click()
    assert waiting.value.suggested_filename == "run-rows.csv"
    saved = pl.read_csv(waiting.value.path(), schema_overrides=FRAME.schema)
    guarded = pl.col("treatment").str.replace("^=", "'=")
    assert_frame_equal(saved, finite_frame(FRAME).with_columns(guarded))


def test_markup_in_names_stays_text(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["hostile"]) as found:
        shown = found.page
        shown.locator("[data-mark]").first.hover()
        assert shown.locator("h1").inner_text() == EVIL
        assert shown.title() == EVIL
        shown.get_by_role("radio", name=EVIL, exact=True).check()
        assert EVIL in shown.locator(".legend").last.inner_text()
        assert shown.locator(".verdict h3 span").first.inner_text() == EVIL
        assert shown.locator("img").count() == 0
        assert not found.complaints
        assert len(found.requests) == 1


def test_a_script_that_slipped_in_would_not_run(browser: Any, tmp_path: Path) -> None:
    """The page's policy names its own scripts by their hashes."""
    file = write_file(
        tmp_path / "page.html", page().replace("</main>", f"{EVIL}<script>alert(2)</script></main>")
    )
    with opened(browser, file) as found:
        assert not [told for told in found.complaints if told.startswith("dialog")]
        assert len([told for told in found.complaints if "Content Security Policy" in told]) >= 2
        assert found.page.locator("svg").count() > 0


def test_paper_shows_all_treatments_and_open_tables(plain: Any) -> None:
    assert plain.locator("details:not([open])").count() > 0
    plain.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert {name for name, *_ in bars(plain)} == set(TREATMENTS)
    assert plain.locator("details:not([open])").count() == 0
    plain.evaluate("dispatchEvent(new Event('afterprint'))")
    assert {name for name, *_ in bars(plain)} == {"none"}
    assert len(plain.pdf()) > 20_000


# --- pictures

STORED = Path(__file__).parent / "data" / "pages"
SHAPES = {
    f"{theme}-{width}": (width, theme == "dark")
    for theme in ("light", "dark")
    for width in (390, 1280)
}
SHAPES["print"] = (794, False)
CELLS = (12, 8)
# Grey levels of 255, the mean over a section. DejaVu and Liberation, with and without serifs, in
# place of Noto Sans change none by more than 5.6; a lost chart, lost bars and panels of half the
# width change one by at least 9.2.
TOLERANCE = 7.0
BROKEN = ["#run0-1 { display: none }", "#run0-2 figure { display: none }"]
BROKEN += ["html { filter: invert(1) }", "svg rect { display: none }"]
BROKEN += ["figure.panel { width: 50% }"]
BOXES = """(wanted) => [...document.querySelectorAll(wanted)]
    .map((one) => one.getBoundingClientRect()).filter((box) => box.width && box.height)
    .map((box) => [box.left, box.top, box.right, box.bottom])"""
STYLE = """(text) => { const own = new CSSStyleSheet(); own.replaceSync(text);
    document.adoptedStyleSheets = [own]; }"""


@pytest.mark.parametrize("style", ["", "body { font-family: serif }", *BROKEN])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_looks_as_stored(browser: Any, pages: dict[str, Path], shape: str, style: str) -> None:
    """By the mean grey levels of 12 × 8 cells of each section, whatever the font."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    width, dark = SHAPES[shape]
    with opened(browser, pages["plain"], width=width, dark=dark) as found:
        found.page.evaluate(STYLE, style)
        if shape == "print":
            found.page.emulate_media(media="print")
            # Charts whose width changes are drawn anew.
            found.page.wait_for_timeout(300)
            found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        found.page.wait_for_timeout(300)
        boxes = found.page.evaluate(BOXES, "header.top, main section")
        whole = image.open(BytesIO(found.page.screenshot(full_page=True))).convert("L")
    seen = np.stack(
        [np.asarray(whole.resize(CELLS, image.Resampling.BOX, box=box)) for box in boxes]
    )
    if os.environ.get("RENEW") and not style:
        image.fromarray(seen.reshape(-1, CELLS[0])).save(STORED / f"{shape}.png")
    stored = np.asarray(image.open(STORED / f"{shape}.png"), np.float64).reshape(-1, *CELLS[::-1])
    same = len(seen) == len(stored) and np.abs(seen - stored).mean((1, 2)).max() < TOLERANCE
    assert same == (style not in BROKEN)


@pytest.mark.parametrize("width", [390, 1280])
def test_dark_and_light_have_the_same_boxes_on_the_screen(
    browser: Any, pages: dict[str, Path], width: int
) -> None:
    boxes = []
    for dark in (False, True):
        with opened(browser, pages["plain"], width=width, dark=dark) as found:
            boxes.append(found.page.evaluate(BOXES, "body *:not(nav *)"))
    assert boxes[0] == boxes[1]
    assert max(right for _, _, right, _ in boxes[0]) <= width, "the numbers of tables as well"
