"""A view in the terminal: nothing is longer than the line, nothing is cut, and bars are on one scale."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import polars as pl
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from fairspan.report.chart import Chart, Panel
from fairspan.report.table import Cell, Column, Table, row
from fairspan.report.terminal import bar, bars, cards, print_line, print_table, print_view, tables
from fairspan.report.view import Card, Section, View
from tests.report_example import EVIL, HOSTILE, hostile_table, lines, profiles, rows, table, view

WIDTHS = [60, 80, 120]


def console(width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, color_system=None, force_terminal=False), file


def printed(shown: RenderableType, width: int = 80) -> list[str]:
    made, file = console(width)
    made.print(shown)
    return file.getvalue().splitlines()


def whole(shown: View, width: int = 80) -> str:
    made, file = console(width)
    print_view(made, shown, ending="log: a/b")
    return file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hostile", [False, True])
def test_no_line_is_longer_than_the_console(width: int, hostile: bool) -> None:
    text = whole(view(hostile=hostile), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    text.encode()


def test_what_is_brief_is_printed() -> None:
    """The heading, notes, a verdict for each treatment, bars, the brief table, and the last line."""
    text = whole(view())
    assert text.startswith("a model | a corpus | 12 documents\nnote: A note.\n")
    assert text.endswith("log: a/b\n")
    assert re.search(r"^none +unfair: none is unfair\.", text, re.M)
    assert text.count("All numbers") == 1
    assert "Measures by length" not in text
    assert "cosine" not in text
    # Folded panels are for files only.
    assert "(en, n = 3, 36 documents)" in text
    assert "zh:en" not in text


def test_names_are_no_markup() -> None:
    text = whole(view(hostile=True))
    assert "[bold]not markup[/bold]" in text
    assert EVIL in text
    made, file = console()
    print_line(made, "/a/[b]/" + "x" * 100 + "\x1b[31m")
    assert file.getvalue() == "/a/[b]/" + "x" * 100 + "\ufffd[31m\n"


# --- tables


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("made", [table(), hostile_table(HOSTILE[:6]), hostile_table(["x" * 70, "y" * 35])])
def test_tables_are_folded_and_nothing_is_cut(made: Table, width: int) -> None:
    """Columns that do not fit stand below, beside the heads again; every character of every cell is there."""
    parts = tables(made, width)
    text = [line for part in parts for line in printed(part, width)]
    assert max(cell_len(line) for line in text) <= width
    found = re.sub(r"\s", "", "".join(text))
    letters = {letter: found.count(letter) for letter in set(found)}
    needed = "".join(cell.text for one in made.rows for cell in one.cells)
    for letter in set(re.sub(r"\s", "", needed)):
        assert letters[letter] >= needed.count(letter), letter
    assert "…" not in found


def test_how_many_parts() -> None:
    assert [len(tables(table(), width)) for width in WIDTHS] == [2, 2, 1]
    first, second = (printed(part) for part in tables(table(), 80))
    assert first[0].rstrip() == "All numbers"
    for part in (first, second):
        assert [line.split()[:2] for line in part if "treatment" in line] == [["treatment", "n"]]


def test_many_columns_and_wide_heads() -> None:
    """Twenty columns beside three heads that are each wider than a third of the line."""
    columns = tuple(Column(f"measure {number}", f"group {number // 4}") for number in range(20))
    one = row(*["head " * 12] * 3, cells=[Cell(number + 0.5) for number in range(20)])
    made = Table("t", "t", ("a", "b", "c"), columns, (one,), pl.DataFrame())
    for width in WIDTHS:
        text = [line for part in tables(made, width) for line in printed(part, width)]
        assert max(cell_len(line) for line in text) <= width
        found = " ".join(text).split()
        assert [f"{number + 0.5:.3f}" in found for number in range(20)] == [True] * 20


def test_groups_stand_apart_and_notes_below() -> None:
    made, file = console(120)
    print_table(made, table())
    text = [line.rstrip() for line in file.getvalue().splitlines()]
    assert text[-2:] == ["* p < 0.05", "◇ p < 0.10"]
    place = next(number for number, line in enumerate(text) if line.startswith(" paper"))
    assert text[place - 1] == ""


# --- bars


def test_bars_by_hand() -> None:
    assert (bar(3), bar(2.5), bar(0.125), bar(0)) == ("███", "██▌", "▏", "")
    assert bar(2, zero=3) == "   ██"
    assert bar(-2, zero=3) == " ██"
    assert bar(-1.5, zero=3) == " ▐█"
    assert bar(-9, zero=3) == "███", "no further than the line begins"


def drawn(chart: Chart, panel: Panel, width: int) -> list[tuple[str, float]]:
    """The bar and the number of every line that has both."""
    found = []
    for line in printed(bars(chart, panel, width), width):
        match = re.match(r"^  (\S+) ([ █▏▎▍▌▋▊▉▐]*)([−\d.]+)", line)
        if match:
            found.append((match[2], float(match[3].replace("−", "-"))))
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_lengths_are_the_numbers(width: int) -> None:
    """One scale in all panels: length per unit is the same to an eighth of a character."""
    chart = profiles()
    found = [one for panel in chart.shown for one in drawn(chart, panel, width)]
    assert len(found) == 3 * 2 * (3 + 4)
    eighths = {sign: place for place, sign in enumerate(" ▏▎▍▌▋▊▉█")}
    lengths = [sum(eighths[sign] for sign in text.strip()) / 8 for text, _ in found]
    scale = lengths[0] / found[0][1]
    # Either length is off by a sixteenth at most.
    tolerance = 1 / 16 + max(number for _, number in found) / found[0][1] / 16
    assert lengths == pytest.approx([number * scale for _, number in found], abs=tolerance)


@pytest.mark.parametrize("width", WIDTHS)
def test_negative_bars_go_to_the_left(width: int) -> None:
    """All bars meet at zero: those above begin where those below end."""
    chart = profiles(shift=-0.6)
    found = [one for panel in chart.shown for one in drawn(chart, panel, width)]
    begins = {len(text) - len(text.lstrip()) for text, number in found if number > 0.01}
    ends = {len(text.rstrip()) for text, number in found if number < -0.02}
    assert len(begins) == 1
    assert begins == ends
    low = min(found, key=lambda one: one[1])
    assert len(low[0].strip()) > len(min(found, key=lambda one: abs(one[1] + 0.1))[0].strip())


def test_rows_name_long_labels_and_unknown_points() -> None:
    chart = rows()
    text = printed(bars(chart, chart.panels[1], 60), 60)
    assert text[0] == "similarity by segment (paper); ┊ equal shares"
    # The reference is marked at the same place of every bar.
    assert len({line.index("┊") for line in text[1:] if "┊" in line}) == 1
    assert any(line.endswith(" –") for line in text)
    assert "a segment whose text is so lo…" in text[2]
    assert text[1].endswith("0.400 #1")
    # The name of the only series is that of the panel, and is said once.
    assert not any(line.startswith("paper") for line in text)


def test_odd_charts_are_printed() -> None:
    """Nothing measured, no labels, and lines, which have no foot."""
    chart = profiles(sizes=(3,), plans=("en",))
    [panel] = chart.panels
    unknown = replace(panel, series=tuple(replace(one, points=(None,) * 3) for one in panel.series))
    assert printed(bars(replace(chart, panels=(unknown,)), unknown))[2] == "  1 –"
    empty = replace(panel, labels=(), series=(), strip=())
    assert len(printed(bars(replace(chart, panels=(empty,)), empty))) == 1
    text = "\n".join(printed(bars(lines(), lines().panels[0])))
    assert "paper" in text
    # A bound is no bar.
    assert "\nlimit" not in text


def test_long_names_of_treatments() -> None:
    name = "a very long name of a treatment with temperature 0.8 and so on and so on"
    shown = View("t", "h", (Card(name, "fair", "good", ("Because.",)),), (Section("s"),), {})
    for width in WIDTHS:
        text = printed(cards(shown, width), width)
        assert max(cell_len(line) for line in text) <= width
        assert "fair: Because." in text[0]
