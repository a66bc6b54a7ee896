"""A view in the terminal: nothing is longer than the line, nothing is cut, and bars are on one
scale."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from fairspan.report.chart import Chart, Panel
from fairspan.report.table import Table
from fairspan.report.terminal import bar, bars, print_line, print_view, tables
from fairspan.report.view import View
from tests.report_example import EVIL, HOSTILE, hostile_table, lines, profiles, rows, table, view

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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "made", [table(), hostile_table(HOSTILE[:6]), hostile_table(["x" * 70, "y" * 35])]
)
def test_tables_are_folded_and_nothing_is_cut(made: Table, width: int) -> None:
    """Columns that do not fit stand below, beside the heads again; every character of every cell is
    there."""
    parts = tables(made, width)
    text = [line for part in parts for line in printed(part, width)]
    assert max(cell_len(line) for line in text) <= width
    found = re.sub(r"\s", "", "".join(text))
    letters = {letter: found.count(letter) for letter in set(found)}
    needed = "".join(cell.text for one in made.rows for cell in one.cells)
    for letter in set(re.sub(r"\s", "", needed)):
        assert letters[letter] >= needed.count(letter), letter
    assert "…" not in found


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
    """One scale in all panels: length per unit is the same to an eighth of a character, also where
    the axis of lines begins at 0.25."""
    chart = profiles()
    curves = replace(lines(form=".4f"), fixed=(0.25, 0.75))
    curve = replace(curves.panels[0], reference=None)
    found = [one for panel in chart.shown for one in drawn(chart, panel, width)]
    assert len(found) == 3 * 2 * (3 + 4)
    assert_to_scale(found)
    assert_to_scale(drawn(curves, curve, width))


def assert_to_scale(found: list[tuple[str, float]]) -> None:
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
