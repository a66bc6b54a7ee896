"""Tables as LaTeX: every sign is set as it reads, and pdfLaTeX takes every table."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairspan.report.tables.latex import LONGEST, PACKAGES, to_document, to_latex
from fairspan.report.tables.latex_text import DEFINITION, OTHER, escape
from fairspan.report.tables.named import NamedTable
from fairspan.report.tables.of_run import tables_of
from fairspan.report.tables.published import published_table
from fairspan.report.tables.table import Column, Row, Table
from fairspan.studies.audit.summary import Summary
from fairspan.studies.collapse.summary import LengthSummary
from fairspan.studies.evaluate.summary import RetrievalSummary
from tests.test_report import simulated_log, simulated_rows
from tests.test_tables import audit, everything, search, study

__all__ = ["audit", "everything", "search", "study"]

NASTY = "50% of A_B & C#1 {x} ~^\\ $"
BEYOND = "报告 한국어 हिन्दी Ελλάδα🙂"


def table_of(*texts: str, title: str = "t", notes: Sequence[str] = ()) -> Table:
    """Each text as a heading, the name of a row, and a cell."""
    columns = tuple(Column(text, text) for text in texts)
    rows = tuple(Row((text, text), texts) for text in texts)
    return Table(title, ("", "x"), columns, rows, grouped=1, notes=tuple(notes))


# --- text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("50% & #1 $x_y {z}", r"50\% \& \#1 \$x\_y \{z\}"),
        ("\\", r"\textbackslash{}"),
        ("a~b^c", r"a$\sim$b\textasciicircum{}c"),
        ("−0.05", "$-$0.05"),
        ("p < 0.01 > 0", "p $<$ 0.01 $>$ 0"),
        ("β0 and β12", r"$\beta_{0}$ and $\beta_{12}$"),
        ("βp, but not βps", r"$\beta_{p}$, but not $\beta$ps"),
        ("σ_a", r"$\sigma_{a}$"),
        ("−0.16□", r"$-$0.16\rlap{$^{\scriptscriptstyle\square}$}"),
        ("0.19◇", r"0.19\rlap{$^{\Diamond}$}"),
        ("0.638*", r"0.638\rlap{$^{\ast}$}"),
        ("3*4", "3*4"),
        ("◇ p, □, • not", r"$\Diamond$ p, $\square$, $\bullet$ not"),
        ("none → paper", r"none $\rightarrow$ paper"),
        ("128–255", "128--255"),
        ("a--b", "a-{}-b"),
        ("ä é ß Å ł ç", "\\\"{a} \\'{e} \\ss{} \\r{A} \\l{} \\c{c}"),
        ('say "x"', r"say \char34{}x\char34{}"),
        ("two\n\nlines", "two lines"),
    ],
)
def test_text_by_hand(text: str, written: str) -> None:
    assert escape(text) == written


def test_only_ascii_reaches_pdflatex_but_for_what_it_skips() -> None:
    """What is beyond plain LaTeX stands in the first argument of one command, its code points in the second."""
    assert escape("a 报告 b") == f"a {OTHER}{{报告}}{{U+62A5 U+544A}} b"
    for text in (NASTY, "äöü ± × ≤ ∞ … “x” µ", "−0.1◇ β2 σ_s"):
        assert escape(text).isascii()
    rest = re.sub(rf"{re.escape(OTHER)}\{{[^{{}}]*\}}", "", escape(BEYOND))
    assert rest.isascii()


def test_a_long_run_is_told_by_its_first_characters() -> None:
    assert escape("报" * 7).endswith(f"{{{' '.join(['U+62A5'] * 6)} \\dots{{}}}}")
    assert escape("报" * 6).endswith(f"{{{' '.join(['U+62A5'] * 6)}}}")


def test_the_way_out_is_told_only_where_it_is_needed() -> None:
    assert DEFINITION in to_latex(table_of("报告"))
    assert OTHER not in to_latex(table_of("report"))


def test_half_of_a_pair_can_be_written() -> None:
    escape("x\ud800y").encode()


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


def test_outer_groups_have_rules_and_inner_ones_gaps() -> None:
    heads = [("en", "3"), ("en", "3"), ("en", "4"), ("de", "4")]
    table = Table("t", ("plan", "n"), (Column("c"),), tuple(Row(head, ("x",)) for head in heads), grouped=2)
    lines = [line.strip() for line in to_latex(table).splitlines()]
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    rows = [r"en & 3 & x \\", r"&  & x \\", r"\addlinespace", r"& 4 & x \\", r"\midrule", r"de & 4 & x \\"]
    assert body == rows


def test_a_row_that_begins_with_a_bracket_is_no_argument() -> None:
    table = Table("t", ("h",), (Column("c"),), (Row(("[zh, en, ..., en]",), ("1",)), Row(("*",), ("2",))))
    text = to_latex(table)
    assert "{}[zh, en, ..., en] & 1" in text
    assert "{}* & 2" in text


def test_a_long_table_breaks_across_pages() -> None:
    rows = tuple(Row((str(number),), ("x",)) for number in range(LONGEST + 1))
    assert r"\begin{longtable}" in to_latex(Table("t", ("h",), (Column("c"),), rows))
    assert r"\begin{longtable}" not in to_latex(Table("t", ("h",), (Column("c"),), rows[1:]))


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


@pytest.mark.slow
def test_nasty_names_compile_and_read_as_they_are(pdflatex: str, tmp_path: Path) -> None:
    rows = [simulated_rows(lambda p, s: 0.6, plan=(plan, plan)) for plan in (NASTY, "en", BEYOND, "[x]*")]
    log = simulated_log(tmp_path / "run", rows, model={"name": NASTY, "fingerprint": "f"})
    tables = [to_latex(one.table, one.name) for one in tables_of(log)]
    odd = table_of("--", "?`", "*", "[1]", '"a', "`x'", "\\\\", "\\input{x}", "%", title=NASTY, notes=["[a]", NASTY])
    said = compiled(pdflatex, tmp_path / "nasty", [*tables, to_latex(odd, NASTY)])
    assert "Missing character" not in said
    text = " ".join(text_of(tmp_path / "nasty").split())
    for part in ("50% of A", "& C#1 {x}", "\\input{x}", "U+62A5 U+544A"):
        assert part in text


@pytest.mark.slow
def test_a_table_of_several_pages_compiles(pdflatex: str, tmp_path: Path) -> None:
    rows = tuple(Row((f"g{number // 7}", NASTY), (f"−{number}.5◇", "long " * 20)) for number in range(200))
    columns = (Column("a", "g"), Column("b", align="wrap"))
    compiled(pdflatex, tmp_path, [to_latex(Table("t", ("h", "i"), columns, rows, 1, ("n",)), "x")])
    assert text_of(tmp_path).count("\f") > 3


def test_summaries_are_of_every_verb(audit: Summary, search: RetrievalSummary, study: LengthSummary) -> None:
    """The slow test stands on these three."""
    assert {one.log.header["verb"] for one in (audit, search, study)} == {"audit", "evaluate", "collapse"}
