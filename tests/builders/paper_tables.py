"""Tables as the paper's text prints them, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

Printed = list[list[str]]
"""The rows of one table from its first heading on, each a list of cells."""

_MARKS = {"◊": "◇", "◇": "◇", "◻": "□", "□": "□", "•": "•"}


def printed_tables(text: str) -> dict[int, Printed]:
    """Every table of coefficients in the text, by its number.

    A table is the lines between the heading "n" and its caption. Raised signs stand in brackets
    there, underlines and italics are HTML, retention has a raised letter at its β, and minus signs
    are hyphens.
    """
    lines = text.splitlines()
    found: dict[int, Printed] = {}
    for place, line in enumerate(lines):
        caption = re.match(r"Table (\d+): .*OLS coefficients", line)
        if not caption:
            continue
        start = next(above for above in range(place, 0, -1) if lines[above].startswith("n\t"))
        rows = [above for above in lines[start:place] if above.strip()]
        found[int(caption[1])] = [[as_text(cell) for cell in row.split("\t")] for row in rows]
    return found


def as_text(cell: str) -> str:
    """A cell without the text's own markup."""
    cell = re.sub(r"</?[iu]>", "", cell)
    cell = re.sub(r"\$?\\?(?:beta|β)_(\d+)(?:\^\{\(\\tau\)\}\$)?", r"β\1", cell)
    cell = re.sub(r"^-(?=\d)", "−", cell)
    return re.sub(r" \[([◊◇◻□•])\]$", lambda mark: _MARKS[mark[1]], cell.strip())


def read_cells(file: Path) -> dict[int, Printed]:
    """Cells by table, as the text prints them."""
    found: dict[int, Printed] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            number, *cells = line.split("\t")
            found.setdefault(int(number), []).append(cells)
    return found
