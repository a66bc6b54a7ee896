"""The documentation site: every page once in its navigation, and whole without a network."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import fairspan
from fairspan.cli import app
from tests.builders.browser import chromium, opened

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / ".site" / "bin" / "mkdocs"
OUTSIDE = {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md", "cli.md"}


def test_every_page_is_once_in_the_navigation() -> None:
    docs = ROOT / "docs"
    found = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    there = {page.relative_to(docs).as_posix() for page in found}
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    parts = re.findall(r"^  - (.+):$", nav, re.MULTILINE)
    assert parts == ["Start", "Measure", "Use", "Understand"]
    listed = re.findall(r"^ +- (?:.+: )?(\S+)$(?<!:)", nav, re.MULTILINE)
    assert sorted(listed) == sorted(there | OUTSIDE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it, with every link and anchor checked."""
    if not (MKDOCS.parents[1] / ".installed").exists():
        pytest.skip("needs MkDocs in .site: make site")
    folder = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_public_name_and_loads_nothing_from_elsewhere(site: Path) -> None:
    reference = (site / "reference.html").read_text("utf-8")
    named = set(re.findall(r'id="fairspan\.(\w+)"', reference))
    assert named == set(fairspan.__all__) - {"__version__"}
    commands = (site / "cli.html").read_text("utf-8")
    verbs = {name for name in app if not name.startswith("-")}
    assert set(re.findall(r'id="fairspan-([\w-]+)"', commands)) >= verbs
    loading = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//'
    )
    pages = {page.name: page.read_text("utf-8") for page in site.rglob("*.html")}
    assert [name for name, text in pages.items() if loading.search(text)] == []


@pytest.mark.slow
def test_a_page_opened_from_disk_can_be_searched(site: Path) -> None:
    with chromium() as browser, opened(browser, site / "findings" / "level.html") as shown:
        shown.page.click(".md-search__input")
        shown.page.keyboard.type("whitening")
        shown.page.wait_for_selector(".md-search-result__link")
        assert shown.complaints == []
        assert {address.partition(":")[0] for address in shown.requests} <= {"file", "data", "blob"}
