"""Tables of any study: numbers as text, Markdown, CSV, JSON, and files that are whole or not
there."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fairspan.errors import FairspanError
from fairspan.report.files import file_names, write_file, write_tables
from fairspan.report.frames import to_csv, to_records
from fairspan.report.latex import escape, to_latex
from fairspan.report.markdown import to_markdown
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.report.text import bounds, cleaned, finite, model_name, number, p_value, with_bounds
from tests.report_example import FRAME, HOSTILE, Estimate, hostile_table, row, table, view
from tests.saying import said_by


def small(*rows: tuple[tuple[str, ...], tuple[str, ...]], grouped: int = 1) -> Table:
    columns = (Column("a", "left"), Column("b", "left"), Column("c"))
    made = tuple(Row(heads, tuple(Cell(text) for text in cells)) for heads, cells in rows)
    return Table("t", "t", ("n", "p"), columns, made, pl.DataFrame(), grouped)


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (-0.12345, ".3f", "−0.123"),
        (0.5, ".1%", "50.0\u00a0%"),
        (12_345, ",d", "12,345"),
        (0.25, "+.2f", "+0.25"),
        (-0.0004, ".3f", "0.000"),
        (-0.0, "+.3f", "0.000"),
        (0.0004, "+.3f", "0.000"),
        (-0.0004, ".1%", "0.0\u00a0%"),
        (-1e-7, ".0e", "−1e−07"),
        (None, ".3f", "–"),
        (float("nan"), ".3f", "–"),
        (float("-inf"), "+.3f", "–"),
    ],
)
def test_numbers(value: float | None, form: str, shown: str) -> None:
    assert number(value, form) == shown


def test_intervals_show_what_is_known() -> None:
    assert with_bounds(Estimate(-0.2, -0.31, -0.1), ".2f") == "−0.20 [−0.31, −0.10]"
    assert with_bounds(Estimate(0.2, float("nan"), 0.3)) == "0.200"
    assert with_bounds(Estimate(None, 0.1, 0.3)) == "–"
    assert (with_bounds(None), bounds(None), bounds(Estimate(0.2))) == ("–", "–", "–")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0009, "<0.001"), (0.001, "0.001"), (1.0, "1.000"), (None, "–"), (float("nan"), "–")],
)
def test_p_values(value: float | None, shown: str) -> None:
    assert p_value(value) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("BAAI/bge-m3", "BAAI/bge-m3"),
        ("bge-m3", "bge-m3"),
        ("/a/b/bge-m3/", "bge-m3"),
        ("./bge-m3", "bge-m3"),
        ("C:\\models\\bge-m3", "bge-m3"),
        ("a/b/c", "c"),
        ("/", "/"),
    ],
)
def test_titles_hold_no_folders(name: str, shown: str) -> None:
    assert model_name(name) == shown


def test_a_view_can_be_cleaned() -> None:
    """Control characters and halves of pairs are replaced in every text; frames stay as they
    are."""
    found = cleaned(view(hostile=True))
    assert [note for note in found.notes if "\ufffd" in note] == [
        "tab\tbell\ufffdnull\ufffdend",
        "half\ufffdsurrogate",
    ]
    assert repr(found.sections).encode()
    assert found.frames["numbers"] is FRAME


def test_groups_of_rows_and_columns() -> None:
    cells = ("1", "2", "3")
    found = small(
        (("3", "x"), cells), (("3", "y"), cells), (("4", "y"), cells), (("3", "y"), cells)
    )
    assert found.shown_heads() == [("3", "x"), ("", "y"), ("4", "y"), ("3", "y")]
    assert [len(group) for group in found.groups()] == [2, 1, 1]
    assert found.spans() == [("left", 2), ("", 1)]
    assert found.aligns == ("left", "left", "right", "right", "right")
    assert found.has_groups


def test_a_table_from_a_frame() -> None:
    """Intervals from their three columns, p values, verdicts in their colour, and gaps where
    nothing is known."""
    frame = pl.DataFrame(
        {
            "plan": ["en", "de"],
            "psi_estimate": [0.1, 0.2],
            "psi_low": [0.05, None],
            "psi_high": [0.2, None],
            "estimate": [1.0, -1.0],
            "low": [0.5, -2.0],
            "high": [1.5, 0.0],
            "p_value": [0.0001, None],
            "verdict": ["fair", "biased"],
            "why": [None, "late"],
        }
    )
    columns = {
        "psi": "PSI",
        "estimate": Column("β", form="+.1f"),
        "p_value": Column("p", form="p"),
        "verdict": Column("verdict", align="left"),
        "why": Column("", align="wrap"),
    }
    made = Table.from_frame("x", "X", frame, heads={"plan": "language"}, columns=columns)
    assert made.heads == ("language",)
    assert [[cell.text for cell in row.cells] for row in made.rows] == [
        ["0.100 [0.050, 0.200]", "+1.0 [+0.5, +1.5]", "<0.001", "fair", ""],
        ["0.200", "−1.0 [−2.0, 0.0]", "–", "biased", "late"],
    ]
    assert [row.cells[3].tone for row in made.rows] == ["good", "bad"]
    assert made.frame is frame


def parsed(text: str) -> tuple[list[str], list[list[str]], list[str]]:
    """The header, the rows, and the paragraphs around, as a reader of Markdown sees them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows: list[list[str]] = []
    around = []
    for token, after in pairwise(tokens):
        assert token.type not in (
            "html_block",
            "heading_open",
            "bullet_list_open",
            "ordered_list_open",
            "hr",
        )
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(seen(after.children or []))
        elif token.type == "paragraph_open":
            around.append(seen(after.children or []))
    assert sum(token.type == "table_open" for token in tokens) == 1
    return rows[0], rows[1:], around


def seen(children: Sequence[Any]) -> str:
    allowed = ("text", "text_special", "strong_open", "strong_close")
    assert {child.type for child in children} <= set(allowed)
    return "".join(child.content for child in children)


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "made", [table(), hostile_table([text for text in HOSTILE if text.isprintable()])]
)
def test_markdown_says_what_the_table_does(made: Table) -> None:
    """Read by a parser, it has its cells, none more, with the text as it was."""
    header, rows, around = parsed(to_markdown(made))
    assert header == [
        *made.heads,
        *(f"{column.group} {column.name}".strip() for column in made.columns),
    ]
    shown = zip(made.shown_heads(), made.rows, strict=True)
    assert rows == [[*heads, *(one_line(cell.text) for cell in row.cells)] for heads, row in shown]
    assert around == [made.title, *made.notes]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12), min_size=6, max_size=6
    )
)
def test_any_text_is_shown_as_it_is(texts: list[str]) -> None:
    title, head, column, name, cell = (one_line(text) or "x" for text in texts[:5])
    note = one_line(f"a {texts[5]}")
    made = Table(
        "t",
        title,
        (head,),
        (Column(column),),
        (row(name, cells=[cell]),),
        pl.DataFrame(),
        notes=(note,),
    )
    assert parsed(to_markdown(made)) == ([head, column], [[name, cell]], [title, note])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("50% & #1 $x_y {z}", r"50\% \& \#1 \$x\_y \{z\}"),
        ("p < 0.01, −0.16□ ±1", r"p $<$ 0.01, $-$0.16$^{\square}$ $\pm$1"),
        (
            "β0, β12 (2 vs. 1), βp, σ_a",
            r"$\beta_{0}$, $\beta_{12}$ (2 vs. 1), $\beta_{p}$, $\sigma_{a}$",
        ),
    ],
)
def test_latex_is_escaped(text: str, written: str) -> None:
    assert escape(text) == written


def test_latex_has_booktabs_rules_and_groups() -> None:
    """Two of four columns share a heading; the two treatments stand apart."""
    text = to_latex(table())
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 2, 1]
    assert r"\multicolumn{2}{c}{value}" in text
    assert r"\cmidrule(lr){3-4}" in text
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [line.count(" & ") for line in lines] == [3, 5, 5, 5, 5, 5]
    assert "\n{}[zh, en] & " in to_latex(hostile_table(["[zh, en]"])), (
        "no argument of the row before"
    )


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_reads_back_exactly() -> None:
    """Numbers bit by bit, nothing for what is unknown, and a sign before what is a formula."""
    lines = read(to_csv(FRAME))
    assert [line["treatment"] for line in lines] == ["none", "none", "paper", "'=cmd()"]
    for name in ("n", "estimate", "low"):
        for line, expected in zip(lines, FRAME[name].to_list(), strict=True):
            assert line[name] == "" if finite(expected) is None else float(line[name]) == expected
    assert [line["fair"] for line in lines] == ["true", "false", "", "true"]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "＝1", " =1", "'=1", '=HYPERLINK("x")']
)
def test_no_text_is_a_formula(text: str) -> None:
    """The guard is one character, so that it can be taken away again; numbers have none."""
    [line] = read(to_csv(pl.DataFrame({"model": [text], "estimate": [-0.5]})))
    assert line == {"model": f"'{text}", "estimate": "-0.5"}


def test_records_are_json() -> None:
    records = to_records(FRAME)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    assert records[2] == {"treatment": "paper", "n": 3, "estimate": None, "low": None, "fair": None}
    assert records[0]["estimate"] == 0.1 + 0.2


def test_tables_are_written(tmp_path: Path) -> None:
    tables = [table(), table(name="numbers"), hostile_table()]
    files = write_tables(tables, tmp_path / "new" / "tables")
    assert [file.name for file in files] == [
        f"{name}.{kind}"
        for name in ("numbers", "numbers-2", "texts")
        for kind in ("md", "tex", "csv")
    ]
    assert sorted((tmp_path / "new" / "tables").iterdir()) == sorted(files)
    assert files[0].read_text("utf-8") == to_markdown(tables[0])
    assert files[1].read_text("utf-8") == to_latex(tables[0])
    assert files[2].read_bytes().decode() == to_csv(FRAME)
    # Half of a surrogate pair, which UTF-8 does not have.
    assert "half\\ud800surrogate" in files[6].read_text("utf-8")


def test_names_of_files() -> None:
    names = ["a-b", "a b", "a/b", "A-B", "../x", "报告", "", "x" * 200]
    assert file_names(names) == [
        "a-b",
        "a-b-2",
        "a-b-3",
        "A-B-4",
        "x",
        "table",
        "table-2",
        "x" * 120,
    ]


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert re.search(
        r"cannot be written: .*\.$", said_by(write_tables, [table()], tmp_path / "file")
    )


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of writing leaves the old file, and nothing beside it."""
    file = tmp_path / "page.html"
    write_file(file, "old")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as out:
            out.write(data[:2])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        FairspanError, match=r"page\.html cannot be written: No space left on device\.$"
    ):
        write_file(file, "new")
    monkeypatch.undo()
    assert file.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
    assert write_file(file, b"new").read_bytes() == b"new"
