"""Tables as Markdown, in the form that GitHub reads."""

import re
from collections.abc import Sequence

from fairspan.report.table import Table

_RULES = {"left": ":--", "right": "--:", "wrap": ":--"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$])")


def to_markdown(table: Table) -> str:
    """The title, the table and its notes; the name of a group is repeated in its columns."""
    names = [*table.heads, *(f"{column.group} {column.name}".strip() for column in table.columns)]
    lines = [f"**{escape(table.title)}**", ""] if table.title.strip() else []
    lines += [
        _line([escape(name) for name in names]),
        _line([_RULES[align] for align in table.aligns]),
    ]
    for heads, row in zip(table.shown_heads(), table.rows, strict=True):
        lines.append(_line([escape(text) for text in (*heads, *(cell.text for cell in row.cells))]))
    for note in table.notes:
        lines += ["", escape(note)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that shows as it is: one line, no markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
