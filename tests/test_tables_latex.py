"""Tables as LaTeX: every sign is set as it reads, and pdfLaTeX takes every table."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from fairspan.report.tables.latex import PACKAGES, to_document, to_latex
from fairspan.report.tables.named import NamedTable
from fairspan.report.tables.published import published_table

from tests.test_tables import audit, everything, study

__all__ = ["audit", "everything", "study"]


# --- tables


def test_rules_and_groups() -> None:
    text = to_latex(published_table(16), label="Table 16")
    assert text.count(r"\multicolumn{2}{c}") == 6
    assert r"\cmidrule(lr){3-4} \cmidrule(lr){5-6}" in text
    # One under the head, and one between each two of three sizes.
    assert text.count(r"\midrule") == 3
    assert (text.count(r"\toprule"), text.count(r"\bottomrule")) == (1, 1)
    assert r"\label{tab:table-16}" in text
    assert r"\begin{tabular}{llrrrrrrrrrrrr}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    # A group covers two cells, so that the first line has six signs fewer.
    assert [line.count(" & ") for line in rows] == [7, *[13] * 13]


def test_cells_are_those_of_the_published_table() -> None:
    """β3 of five segments in Table 1: the last two cells, by hand."""
    text = to_latex(published_table(1))
    assert r"& $-$0.46 & $-$0.16\rlap{$^{\scriptscriptstyle\square}$} \\" in text


# --- pdfLaTeX


@pytest.fixture(scope="module")
def pdflatex() -> str:
    found = shutil.which("pdflatex")
    if found is None:
        pytest.skip("needs pdflatex, in Debian texlive-latex-base and texlive-latex-recommended")
    kpsewhich = shutil.which("kpsewhich")
    for package in PACKAGES:
        if kpsewhich and not subprocess.run([kpsewhich, f"{package}.sty"], capture_output=True, check=False).stdout:
            pytest.skip(f"needs LaTeX's {package}")
    return found


def compiled(pdflatex: str, folder: Path, tables: Sequence[str]) -> str:
    """The log of a document of these tables; fails where LaTeX does."""
    folder.mkdir(exist_ok=True)
    (folder / "tables.tex").write_text(to_document(tables), encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said[-3000:]
    assert (folder / "tables.pdf").stat().st_size > 1000
    return said


def text_of(folder: Path) -> str:
    tool = shutil.which("pdftotext")
    if tool is None:
        pytest.skip("needs pdftotext, in Debian poppler-utils")
    done = subprocess.run([tool, "-layout", "tables.pdf", "-"], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.slow
def test_every_table_compiles(pdflatex: str, tmp_path: Path, everything: list[NamedTable]) -> None:
    """All tables of all verbs in one document, none wider than the line, none missing a sign."""
    said = compiled(pdflatex, tmp_path, [to_latex(one.table, one.name) for one in everything])
    assert "Overfull" not in said
    assert "Missing character" not in said
    text = text_of(tmp_path)
    last = everything[-1].table
    for cell in last.rows[0].cells:
        assert cell in text
    captions = re.findall(r"^\s*Table (\d+):", text, re.MULTILINE)
    assert sorted(set(map(int, captions))) == list(range(1, len(everything) + 1))
