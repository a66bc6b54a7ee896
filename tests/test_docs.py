"""Every Python block of the documentation runs, with a tiny model in place of the named ones."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

import fairspan.calibration.calibration
import fairspan.calibration.temperature
import fairspan.calibration.treatment
import fairspan.corpus.corpus
import fairspan.corpus.marked_text
import fairspan.corpus.sentences
import fairspan.design.parts
import fairspan.model.build
import fairspan.model.saved
import fairspan.model.segments
import fairspan.stats.equivalence
import fairspan.studies.audit.run
import fairspan.studies.collapse.run
import fairspan.studies.evaluate.run
import fairspan.studies.inspect.inspection
import fairspan.studies.inspect.run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_code_on_a_page_runs(
    page: Path, make_tiny: Callable[..., SentenceTransformer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page are one program. Loading by name is replaced, since no test reaches a hub."""
    model = make_tiny("bert", "cls")
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda name: model)
    monkeypatch.chdir(tmp_path)
    names = {"model": model, "pages": ["w1 w2", "w3"], "folder": str(tmp_path / "saved")}
    exec(compile(python_blocks(page), str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "module",
    [
        fairspan.calibration.calibration,
        fairspan.calibration.temperature,
        fairspan.model.segments,
        fairspan.corpus.corpus,
        fairspan.corpus.marked_text,
        fairspan.corpus.sentences,
        fairspan.design.parts,
        fairspan.studies.inspect.inspection,
        fairspan.stats.equivalence,
        fairspan.calibration.treatment,
    ],
    ids=lambda m: m.__name__,
)
def test_examples_in_docstrings(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0
