"""The page of a run in headless Chromium, opened from disk with the network off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fairspan.report.page.page import write_page
from fairspan.runs.log import RunLog
from fairspan.studies.audit.summary import summarize
from tests.browser import chromium, opened
from tests.test_page import EVIL, TREATMENTS, audited, searched, studied
from tests.test_report import simulated_log, simulated_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    folder = tmp_path_factory.mktemp("logs")
    return {"audit": audited(folder / "a"), "evaluate": searched(folder / "e"), "collapse": studied(folder / "c")}


@pytest.fixture(scope="module")
def pages(logs: dict[str, RunLog], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_page([log], folder / f"{name}.html") for name, log in logs.items()}


@pytest.mark.parametrize("name", ["audit", "evaluate", "collapse"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_from_disk_and_asks_for_nothing(
    browser: Any, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    """No word on the console, no request but for the file, nothing wider than the screen, a mark in each chart."""
    with opened(browser, pages[name], width=width, dark=dark) as found:
        page = found.page
        assert page.locator("svg").count() == page.locator("figure.panel").count() > 0
        assert page.locator("figure.panel:not(:has([data-mark]))").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not found.complaints
        assert found.requests == [pages[name].resolve().as_uri()]


def shown(page: Any) -> list[tuple[str, int, float, str]]:
    """Series, place, value and height in pixels of every bar, chart by chart."""
    return page.evaluate(
        """() => [...document.querySelectorAll("[data-chart] [data-mark]")].map((mark) => [
            mark.dataset.series, Number(mark.dataset.place), Number(mark.dataset.value),
            mark.querySelector("rect").getBoundingClientRect().height])"""
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_switch_sets_the_bars_to_the_numbers_of_the_log(
    browser: Any, pages: dict[str, Path], logs: dict[str, RunLog], place: int
) -> None:
    """Values, heights and labels are those of the treatment chosen; the dashed lines stay those of the first."""
    summary = summarize(logs["audit"])
    expected = [
        (cell.treatment, p, mean)
        for n in (3, 4)
        for plan in ("en", "zh")
        for cell in summary.cells
        if (cell.n, cell.plan, cell.treatment) == (n, plan, TREATMENTS[place])
        for p, mean in enumerate(cell.effects.means.estimate)
    ]
    with opened(browser, pages["audit"]) as found:
        page = found.page
        page.get_by_role("radio", name=TREATMENTS[place], exact=True).check()
        bars = shown(page)
        assert [(name, p) for name, p, *_ in bars] == [(name, p) for name, p, _ in expected]
        assert [value for *_, value, _ in bars] == pytest.approx([mean for *_, mean in expected], abs=1e-12)
        # All panels share one axis and one size, so that heights are proportional to values.
        scale = bars[0][3] / bars[0][2]
        assert [height for *_, height in bars] == pytest.approx([mean * scale for *_, mean in expected], abs=0.6)
        values = page.locator("text.value").all_text_contents()
        assert values == [f"{mean:.3f}" for *_, mean in expected]
        ghosts = page.evaluate("[...document.querySelectorAll('.ghost')].map((line) => Number(line.dataset.before))")
        first = [mean for cell in summary.cells if cell.treatment == "none" for mean in cell.effects.means.estimate]
        assert ghosts == pytest.approx(first if place else [], abs=1e-12)


def test_everything_side_by_side(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["audit"]) as found:
        found.page.get_by_role("radio", name="all, side by side").check()
        names = [name for name, *_ in shown(found.page)]
        assert {name: names.count(name) for name in TREATMENTS} == dict.fromkeys(TREATMENTS, 14)


def test_the_heat_map_follows_the_switch(browser: Any, pages: dict[str, Path], logs: dict[str, RunLog]) -> None:
    joint = {(one.n, one.treatment): one.model for one in summarize(logs["audit"]).joint}
    with opened(browser, pages["audit"]) as found:
        for name in TREATMENTS:
            found.page.get_by_role("radio", name=name, exact=True).check()
            cells = found.page.locator("[data-heat]").all_inner_texts()
            assert cells == [
                f"{joint[n, name].mean((p, language)).estimate:.3f}"
                for n in (3, 4)
                for language in ("en", "zh")
                for p in range(1, n + 1)
            ]


def test_the_keyboard_reaches_every_bar(browser: Any, pages: dict[str, Path]) -> None:
    """One stop a chart, arrows from bar to bar, the value told; the switch by arrows as well."""
    with opened(browser, pages["audit"]) as found:
        page = found.page
        page.locator("figure.panel").first.locator("[tabindex='0']").focus()
        tip = page.locator("#tip")
        assert "position 1" in tip.inner_text()
        page.keyboard.press("ArrowRight")
        told = tip.inner_text()
        assert "position 2" in told
        assert "against position 1: −" in told
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == told.replace("\n", "; ")
        page.keyboard.press("Tab")
        chart = page.evaluate("document.activeElement.closest('figure').dataset.chart")
        assert chart.endswith("-1"), "the next stop is the next chart"
        page.get_by_role("radio", name="none", exact=True).focus()
        page.keyboard.press("ArrowDown")
        assert {name for name, *_ in shown(page)} == {"paper"}


def test_pointing_at_a_bar_tells_its_interval(browser: Any, pages: dict[str, Path], logs: dict[str, RunLog]) -> None:
    means = summarize(logs["audit"]).cells[0].effects.means
    with opened(browser, pages["audit"]) as found:
        found.page.locator("[data-mark]").first.hover()
        told = found.page.locator("#tip").inner_text()
        assert f"{means.estimate[0]:.3f} [{means.low[0]:.3f}, {means.high[0]:.3f}]" in told


def test_rows_are_saved_as_they_are(browser: Any, pages: dict[str, Path], logs: dict[str, RunLog]) -> None:
    with opened(browser, pages["audit"]) as found:
        with found.page.expect_download() as waiting:
            found.page.get_by_role("button", name="raw rows").click()
        assert waiting.value.suggested_filename == f"{logs['audit'].run}-rows.csv"
        saved = pl.read_csv(waiting.value.path())
        assert saved["value"].to_list() == logs["audit"].rows["value"].to_list()


def test_markup_in_names_stays_text(browser: Any, tmp_path: Path) -> None:
    """As a title, a language, a note, the names of model and corpus: nothing runs, nothing is loaded."""
    rows = simulated_rows(lambda p, s: 0.5 - 0.1 * p, sets=5, plan=(EVIL, EVIL))
    named = {"name": EVIL, "fingerprint": "f"}
    log = simulated_log(tmp_path / "r", [rows], model=named, corpus=named, notes=[EVIL], plans=[EVIL])
    file = write_page([log], tmp_path / "page.html", title=EVIL)
    with opened(browser, file) as found:
        page = found.page
        page.locator("[data-mark]").first.hover()
        assert page.locator("h1").inner_text() == EVIL
        assert page.title() == EVIL
        assert EVIL in page.locator("figcaption").first.inner_text()
        assert page.locator("img").count() == 0
        assert not found.complaints
        assert len(found.requests) == 1


def test_a_script_that_slipped_in_would_not_run(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    """The page's policy names its own scripts by their hashes."""
    text = pages["audit"].read_text("utf-8").replace("</main>", f"{EVIL}<script>alert(2)</script></main>")
    file = tmp_path / "page.html"
    file.write_text(text, "utf-8")
    with opened(browser, file) as found:
        assert not [told for told in found.complaints if told.startswith("dialog")]
        assert len([told for told in found.complaints if "Content Security Policy" in told]) >= 2
        assert found.page.locator("svg").count() > 0


def test_themes(browser: Any, pages: dict[str, Path]) -> None:
    """As the system at first, then by the button; text keeps its contrast in both."""
    with opened(browser, pages["audit"], dark=True) as found:
        page = found.page
        backgrounds = []
        for _ in range(3):
            backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.get_by_role("button", name="Theme").click()
        assert backgrounds == ["rgb(20, 23, 26)", "rgb(255, 255, 255)", "rgb(20, 23, 26)"]


def test_paper_shows_all_treatments_and_open_tables(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["audit"]) as found:
        page = found.page
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert {name for name, *_ in shown(page)} == set(TREATMENTS)
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert {name for name, *_ in shown(page)} == {"none"}
        assert len(page.pdf()) > 20_000


def test_lines_of_a_study(browser: Any, pages: dict[str, Path]) -> None:
    """All at first; the one that is chosen stands out."""
    with opened(browser, pages["collapse"]) as found:
        page = found.page
        first = page.locator("figure.panel").first
        layers = "document.querySelector('figure.panel svg').querySelectorAll('g[opacity]')"
        faded = f"[...{layers}].map((g) => g.getAttribute('opacity'))"
        assert page.evaluate(faded) == ["1", "1"]
        page.get_by_role("radio", name="tempscale").check()
        assert page.evaluate(faded) == ["0.25", "1"]
        values = first.locator("[data-mark]").evaluate_all("(marks) => marks.map((m) => Number(m.dataset.value))")
        assert values == [0.2, 0.3, 0.5, 0.2, 0.25, 0.3]
