"""Tables as LaTeX with booktabs' rules."""

import re
import unicodedata
from collections.abc import Sequence

from fairspan.report.table import Align, Table

PACKAGES = ("amssymb", "array", "booktabs", "graphicx")

_ALIGNS: dict[Align, str] = {
    "left": "l",
    "right": "r",
    "wrap": r">{\raggedright\arraybackslash}p{0.62\linewidth}",
}
_GREEK = {
    "α": "alpha", "β": "beta", "δ": "delta", "η": "eta", "θ": "theta", "λ": "lambda", "μ": "mu", "σ": "sigma",
    "τ": "tau", "χ": "chi", "Δ": "Delta", "Λ": "Lambda", "Σ": "Sigma",
}  # fmt: skip
_MARKERS = {"◇": r"\Diamond", "□": r"\square", "•": r"\bullet"}
# Behind a number; the square alone is too large for what it says.
_RAISED = {**_MARKERS, "□": r"\scriptscriptstyle\square", "*": r"\ast"}
_MATHS = {
    "−": "-", "<": "<", ">": ">", "±": r"\pm", "×": r"\times", "·": r"\cdot", "→": r"\rightarrow",
    "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx",
    **{letter: f"\\{name}" for letter, name in _GREEK.items()},
    **_MARKERS,
}  # fmt: skip
_TEXT = {
    **{sign: f"\\{sign}" for sign in "{}$%&#_"},
    "\\": r"\textbackslash{}",
    "~": r"$\sim$",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    # The plain sign is a command in several languages of babel.
    '"': r"\char34{}",
}
_PIECES = re.compile(
    rf"(?P<greek>[{''.join(_GREEK)}])(?:_(?P<letter>[A-Za-z0-9])|(?P<number>\d+|p\b))"
    rf"|(?<=\d)(?P<mark>[{''.join(_MARKERS)}](?!\w)|\*\Z)"
    r"|(?P<break>[-–`'‘’,!?](?=[-–`'‘’,]))"
    r"|(?P<one>.)",
    re.DOTALL,
)


def escape(text: str) -> str:
    """Text that is set as it reads.

    Greek letters and signs become formulas, β2 with its number below, and a marker or star behind a number a raised
    sign of no width, so that numbers stay aligned. Letters of other scripts are left to the fonts of the document.
    """
    return "".join(map(_piece, _PIECES.finditer(unicodedata.normalize("NFC", " ".join(text.split())))))


def _piece(found: re.Match[str]) -> str:
    if found["greek"] is not None:
        return f"${_MATHS[found['greek']]}_{{{found['letter'] or found['number']}}}$"
    if found["mark"] is not None:
        return rf"\rlap{{$^{{{_RAISED.get(found['mark'], found['mark'])}}}$}}"
    sign = found[0]
    if found["break"] is not None:
        return sign + "{}"
    if sign in _MATHS:
        return f"${_MATHS[sign]}$"
    return _TEXT.get(sign, sign)


def to_latex(table: Table) -> str:
    """A table to `\\input` into a document that uses `PACKAGES`; it is scaled down to the line if it is too wide."""
    lines = [
        f"% \\usepackage{{{','.join(PACKAGES)}}}",
        r"\begin{table}[htbp]",
        r"  \centering",
        f"  \\caption{{{escape(table.title)}}}",
        f"  \\label{{tab:{re.sub('[^a-z0-9]+', '-', table.name.lower())}}}",
        r"  \vspace{4pt}",
        r"  \small",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"  \\begin{{tabular}}{{{''.join(_ALIGNS[align] for align in table.aligns)}}}",
        *(f"    {line}" for line in [*_head(table), *_rows(table), r"\bottomrule"]),
        r"  \end{tabular}}%",
        *(f"  {line}" for line in _notes(table)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _head(table: Table) -> list[str]:
    """The rule above, the groups of columns with a rule under each, and the names."""
    lines = [r"\toprule"]
    if table.has_groups:
        cells, rules = ["" for _ in table.heads], []
        place = len(table.heads) + 1
        for name, count in table.spans():
            cells.append(f"\\multicolumn{{{count}}}{{c}}{{{escape(name)}}}")
            if name:
                rules.append(f"\\cmidrule(lr){{{place}-{place + count - 1}}}")
            place += count
        lines += [_line(cells), " ".join(rules)]
    names = [*table.heads, *(column.name for column in table.columns)]
    return [*lines, _line([escape(name) for name in names]), r"\midrule"]


def _rows(table: Table) -> list[str]:
    """The rows, with a rule between outer groups and a gap between inner ones."""
    lines: list[str] = []
    heads = iter(table.shown_heads())
    before = ""
    for number, group in enumerate(table.groups()):
        if number and table.grouped:
            lines.append(r"\addlinespace" if group[0].heads[0] == before else r"\midrule")
        before = group[0].heads[0] if table.grouped else ""
        for place, row in enumerate(group):
            # Rows of several lines need air between them.
            space = [r"\addlinespace"] if place and "wrap" in table.aligns else []
            lines += [*space, _line([escape(text) for text in (*next(heads), *(cell.text for cell in row.cells))])]
    return lines


def _line(cells: Sequence[str]) -> str:
    # After the end of a row, a rule or a heading, [ and * belong to that command.
    first = f"{{}}{cells[0]}" if cells[0].startswith(("[", "*", "(")) else cells[0]
    return " & ".join([first, *cells[1:]]).rstrip() + r" \\"


def _notes(table: Table) -> list[str]:
    if not table.notes:
        return []
    lines = [f"  {escape(note)}\\par" for note in table.notes]
    return [r"\par\smallskip", r"\parbox{\linewidth}{\footnotesize\raggedright", *lines, "}"]
