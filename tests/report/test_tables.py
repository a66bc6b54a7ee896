"""Tables of any study: numbers as text, CSV, JSON, and files that are whole or not there."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fairspan.report.cleaning import cleaned
from fairspan.report.files import file_names, write_file, write_tables
from fairspan.report.frames import to_csv, to_records
from fairspan.report.table import P_VALUE, Column, Table, tone_of
from fairspan.report.text import finite, model_name, number, p_value, with_ends
from tests.builders.saying import said_by
from tests.report.example import FRAME, hostile_table, table, view


@pytest.mark.parametrize(
    ("shown", "value", "form"),
    [
        ("12,345", 12_345, ",d"),
        ("+0.25", 0.25, "+.2f"),
        ("0.000", -0.0, "+.3f"),
        ("0.000", 0.0004, "+.3f"),
        ("0.0\u00a0%", -0.0004, ".1%"),
        ("−1e−07", -1e-7, ".0e"),
        ("–", float("nan"), ".3f"),
        ("–", float("-inf"), "+.3f"),
    ],
)
def test_numbers(shown: str, value: float | None, form: str) -> None:
    assert number(value, form) == shown


def test_intervals_and_p_values_show_what_is_known() -> None:
    assert with_ends(-0.2, -0.31, -0.1, ".2f") == "−0.20 [−0.31, −0.10]"
    assert with_ends(0.2, float("nan"), 0.3) == "0.200"
    shown = [p_value(value) for value in (0.0009, 0.001, 1.0, None, float("nan"))]
    assert shown == ["<0.001", "0.001", "1.000", "–", "–"]


def test_titles_hold_no_folders() -> None:
    names = ["bge-m3", "./bge-m3", "C:\\m\\bge-m3", "a/b/c", "/"]
    shown = ["bge-m3", "bge-m3", "bge-m3", "c", "/"]
    assert list(map(model_name, names)) == shown


def test_a_view_can_be_cleaned() -> None:
    """Control characters are replaced in every text, also in frames."""
    clean = cleaned(view(hostile=True))
    text = "tab\tbell\ufffdnull\ufffdend"
    assert [note for note in clean.notes if "\ufffd" in note] == [text]
    assert text in clean.sections[0].folded[0].frame["text"]
    assert cleaned(replace(view(), heading="half\ud800")).heading == "half\ufffd"


def test_groups_of_rows_and_columns() -> None:
    frame = pl.DataFrame(
        {"n": [3, 3, 4, 3], "p": ["x", "y", "y", "y"]} | {name: [1, 2, 3, 4] for name in "abc"}
    )
    columns = {"a": Column("a", "left"), "b": Column("b", "left"), "c": "c"}
    made = Table("t", "t", frame, heads=("n", "p"), columns=columns, grouped=1)
    assert made.repeated == [0, 1, 0, 0]
    assert [len(group) for group in made.groups] == [2, 1, 1]
    assert made.spans == [("left", 2), ("", 1)]
    assert made.aligns == ["left", "left", "right", "right", "right"]
    assert made.has_groups


def test_cells_are_the_frame_in_words() -> None:
    """Intervals from their three columns with their sign, p values, and gaps where nothing is
    known."""
    frame = pl.DataFrame(
        {
            "plan": ["en", "de"],
            "psi_estimate": [0.1, 0.2],
            "psi_low": [0.05, None],
            "psi_high": [0.2, None],
            "psi_mark": ["◇", None],
            "estimate": [1.0, -1.0],
            "low": [0.5, -2.0],
            "high": [1.5, 0.0],
            "p": [0.0001, None],
            "verdict": ["fair", "biased"],
            "why": [None, "late"],
        }
    )
    columns = {"psi": "PSI", "estimate": Column("β", form="+.1f"), "p": P_VALUE}
    columns |= {"verdict": Column("verdict", align="left"), "why": Column("", align="wrap")}
    made = Table("x", "X", frame, heads={"plan": "language"}, columns=columns)
    assert made.headings == ["language"]
    assert made.rows == [
        ("en", "0.100 [0.050, 0.200]◇", "+1.0 [+0.5, +1.5]", "<0.001", "fair", ""),
        ("de", "0.200", "−1.0 [−2.0, 0.0]", "–", "biased", "late"),
    ]
    assert [tone_of(row[4]) for row in made.rows] == ["good", "bad"]


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
    assert [file.name for file in files] == ["numbers.csv", "numbers-2.csv", "texts.csv"]
    assert sorted((tmp_path / "new" / "tables").iterdir()) == sorted(files)
    for file, frame in ((files[0], FRAME), (files[2], tables[2].frame)):
        assert file.read_bytes().decode() == to_csv(frame)


def test_names_of_files() -> None:
    names = ["a-b", "a b", "a/b", "A-B", "../x", "报告", "", "x" * 200]
    made = ["a-b", "a-b-2", "a-b-3", "A-B-4", "x", "table", "table-2", "x" * 120]
    assert file_names(names) == made


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written: " in said_by(write_tables, [table()], tmp_path / "file")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of writing leaves the old file, and nothing beside it."""
    file = tmp_path / "page.html"
    write_file(file, "old")
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        write(self, data[:2])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    said = said_by(write_file, file, "new")
    assert said.endswith("page.html cannot be written: No space left on device.")
    monkeypatch.undo()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    assert write_file(file, b"new").read_bytes() == b"new"
