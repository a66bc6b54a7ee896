"""Tables as Markdown, in the form that GitHub reads."""

import re
from collections.abc import Sequence

from fairspan.report.table import Table

_RULES = {"left": ":--", "right": "--:", "center": ":-:", "wrap": ":--"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")
# What begins a heading, a list or an underline where it is the first of a line.
_LEADING = re.compile(r"^(?:([#+=-])|(\d+)([.)]))")


def to_markdown(table: Table) -> str:
    """The title, the table and its notes. A group of columns is named in each of them, as Markdown has one line."""
    names = [*table.heads, *(f"{column.group} {column.name}".strip() for column in table.columns)]
    lines = [f"**{escape(table.title)}**", ""] if table.title.strip() else []
    lines += [_line([escape(name) for name in names]), _line([_RULES[align] for align in table.aligns])]
    for heads, row in zip(table.shown_heads(), table.rows, strict=True):
        lines.append(_line([escape(text) for text in (*heads, *(cell.text for cell in row.cells))]))
    for note in table.notes:
        lines += ["", escape_line(note)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that shows as it is inside a cell: one line, no markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def escape_line(text: str) -> str:
    """Text that shows as it is as a paragraph of its own."""
    return _LEADING.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", escape(text))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
