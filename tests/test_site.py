"""The documentation site: every page once in its navigation; built strictly, it is whole without a
network.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import fairspan
from tests.browser import chromium, opened

ROOT = Path(__file__).parents[1]
MKDOCS = ROOT / ".site" / "bin" / "mkdocs"
OUTSIDE = {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md"}


def test_every_page_is_once_in_the_navigation() -> None:
    docs = ROOT / "docs"
    there = {
        page.relative_to(docs).as_posix()
        for kind in ("*.md", "*.ipynb")
        for page in docs.rglob(kind)
    }
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    assert re.findall(r"^  - (.+):$", nav, re.MULTILINE) == [
        "Start",
        "Measure",
        "Use",
        "Understand",
    ]
    assert sorted(re.findall(r"^ +- (?:.+: )?(\S+)$(?<!:)", nav, re.MULTILINE)) == sorted(
        there | OUTSIDE
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it, with every link and anchor checked."""
    if not (MKDOCS.parents[1] / ".installed").exists():
        pytest.skip("needs MkDocs in .site: make site")
    folder = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_public_name_and_loads_nothing_from_elsewhere(site: Path) -> None:
    reference = (site / "reference.html").read_text("utf-8")
    assert set(re.findall(r'id="fairspan\.(\w+)"', reference)) == set(fairspan.__all__) - {
        "__version__"
    }
    loading = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//'
    )
    assert [
        page.name for page in site.rglob("*.html") if loading.search(page.read_text("utf-8"))
    ] == []


@pytest.mark.slow
def test_a_page_opened_from_disk_can_be_searched(site: Path) -> None:
    with chromium() as browser, opened(browser, site / "findings" / "tiles.html") as shown:
        shown.page.click(".md-search__input")
        shown.page.keyboard.type("whitening")
        shown.page.wait_for_selector(".md-search-result__link")
        assert shown.complaints == []
        assert {address.partition(":")[0] for address in shown.requests} <= {"file", "data", "blob"}
