"""A view in the terminal: nothing is longer than the line, nothing is cut, and bars are on one
scale."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from fairspan.report.chart import Chart
from fairspan.report.table import Table
from fairspan.report.terminal import bar, bars, print_line, print_view, tables
from fairspan.report.view import View
from tests.report.example import EVIL, HOSTILE, hostile_table, profiles, rows, table, view

WIDTHS = [60, 80, 120]


def console(width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, color_system=None, force_terminal=False), file


def printed(shown: RenderableType, width: int = 80) -> list[str]:
    made, file = console(width)
    made.print(shown)
    return file.getvalue().splitlines()


def whole(shown: View, width: int = 80, *, verbose: bool = False) -> str:
    made, file = console(width)
    print_view(made, shown, ending="log: a/b", verbose=verbose)
    return file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hostile", [False, True])
def test_no_line_is_longer_than_the_console(width: int, hostile: bool) -> None:
    text = whole(view(hostile=hostile), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    text.encode()


def test_what_is_brief_is_printed() -> None:
    """The heading, notes, a verdict for each treatment, bars, the brief table, and the last
    line."""
    text = whole(view())
    assert text.startswith("a model | a corpus | 12 documents\nnote: A note.\n")
    assert text.endswith("log: a/b\n")
    assert re.search(r"^none +unfair: none is unfair\.", text, re.M)
    assert text.count("All numbers") == 1
    assert whole(view(), verbose=True).count("All numbers") == 2, "the folded table as well"
    assert "by tokens" not in text
    assert "similarity by position (zh:en)" in text


def test_names_are_no_markup() -> None:
    text = whole(view(hostile=True))
    assert "[bold]not markup[/bold]" in text
    assert EVIL in text
    made, file = console()
    print_line(made, "/a/[b]/" + "x" * 100 + "\x1b[31m")
    assert file.getvalue() == "/a/[b]/" + "x" * 100 + "\ufffd[31m\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "made", [table(), hostile_table(HOSTILE[:6]), hostile_table(["x" * 70, "y" * 35])]
)
def test_tables_are_folded_and_nothing_is_cut(made: Table, width: int) -> None:
    """Columns that do not fit stand below, beside the heads again; every character of every cell is
    there."""
    text = [line for part in tables(made, width) for line in printed(part, width)]
    assert max(cell_len(line) for line in text) <= width
    letters = re.sub(r"\s", "", "".join(text))
    needed = "".join(cell for row in made.rows for cell in row[len(made.heads) :])
    for letter in set(re.sub(r"\s", "", needed)):
        assert letters.count(letter) >= needed.count(letter), letter
    assert "…" not in letters


def test_bars_by_hand() -> None:
    assert (bar(3), bar(2.5), bar(0.125), bar(0)) == ("███", "██▌", "▏", "")
    assert bar(2, zero=3) == "   ██"
    assert bar(-2, zero=3) == " ██"
    assert bar(-1.5, zero=3) == " ▐█"
    assert bar(-9, zero=3) == "███", "no further than the line begins"


def drawn(chart: Chart, width: int) -> list[tuple[str, float]]:
    """The bar and the number of every line that has both."""
    lines = [line for block in bars(chart, width) for line in printed(block, width)]
    matches = [re.match(r"^  (\S+) ([ █▏▎▍▌▋▊▉▐]*)([−\d.]+)", line) for line in lines]
    return [(match[2], float(match[3].replace("−", "-"))) for match in matches if match]


@pytest.mark.parametrize("width", WIDTHS)
def test_lengths_are_the_numbers(width: int) -> None:
    """One scale in all panels: length per unit is the same to an eighth of a character."""
    lines = drawn(profiles(), width)
    assert len(lines) == len(profiles().frame)
    eighths = {sign: place for place, sign in enumerate(" ▏▎▍▌▋▊▉█")}
    lengths = [sum(eighths[sign] for sign in text.strip()) / 8 for text, _ in lines]
    longest = max(number for _, number in lines)
    scale = max(lengths) / longest
    # Either length is off by a sixteenth at most, and printed numbers by half of a thousandth.
    tolerance = 1 / 8 + scale * 0.001
    assert lengths == pytest.approx([number * scale for _, number in lines], abs=tolerance)


@pytest.mark.parametrize("width", WIDTHS)
def test_negative_bars_go_to_the_left(width: int) -> None:
    """All bars meet at zero: those above begin where those below end."""
    lines = drawn(profiles(shift=-0.45), width)
    begins = {len(text) - len(text.lstrip()) for text, number in lines if number > 0.01}
    ends = {len(text.rstrip()) for text, number in lines if number < -0.02}
    assert len(begins) == 1
    assert begins == ends


def test_rows_name_long_labels_and_unknown_values() -> None:
    text = printed(bars(rows(), 60)[1], 60)
    assert text[0] == "similarity by segment (paper); ┊ equal shares"
    # The level is marked at the same place of every bar.
    assert len({cell_len(line.partition("┊")[0]) for line in text[1:] if "┊" in line}) == 1
    assert any(line.endswith(" – #3") for line in text)
    assert "a segment whose text is so lo…" in text[2]
    assert text[1].endswith("0.400 #1")
    # The name of the only series is that of the panel, and is said once.
    assert not any(line.startswith("paper") for line in text)
