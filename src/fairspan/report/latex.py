"""Tables as LaTeX with booktabs' rules."""

import re
import unicodedata
from collections.abc import Sequence

from fairspan.report.table import Align, Table

PACKAGES = ("amssymb", "array", "booktabs", "graphicx", "longtable")
LONGEST = 45
"""More rows than these do not fit a page, so that they are set as a longtable, which breaks."""

BOX = r"\fairspanbox"
"""Where a table waits to be measured."""

_ALIGNS: dict[Align, str] = {
    "left": "l",
    "right": "r",
    "center": "c",
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
    """A floating table to `\\input` into a document that uses `PACKAGES`.

    A table that is too wide is scaled down to the line, and one with more than `LONGEST` rows breaks across pages.
    """
    body = _long(table) if len(table.rows) > LONGEST else _floating(table)
    lines = [f"% \\usepackage{{{','.join(PACKAGES)}}}", f"\\ifdefined{BOX}\\else\\newsavebox{{{BOX}}}\\fi"]
    return "\n".join([*lines, *body]) + "\n"


def _floating(table: Table) -> list[str]:
    return [
        r"\begin{table}[htbp]",
        r"  \centering",
        *(f"  {line}" for line in _caption(table)),
        r"  \vspace{4pt}",
        r"  \small",
        f"  \\sbox{{{BOX}}}{{%",
        f"  \\begin{{tabular}}{{{_columns(table)}}}",
        *(f"    {line}" for line in [*_head(table), *_rows(table), r"\bottomrule"]),
        r"  \end{tabular}}%",
        f"  \\resizebox{{{_between('0pt')}}}{{!}}{{\\usebox{{{BOX}}}}}",
        *(f"  {line}" for line in _notes(table, _between(r"0.75\linewidth"))),
        r"\end{table}",
    ]


def _long(table: Table) -> list[str]:
    """The same on several pages, each with the head."""
    caption = _caption(table)
    head = _head(table)
    return [
        r"\begingroup\footnotesize\setlength{\tabcolsep}{4pt}",
        f"\\begin{{longtable}}{{{_columns(table)}}}",
        *(["".join(caption) + r" \\"] if caption else []),
        *head,
        r"\endfirsthead",
        *head,
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
        *_rows(table),
        r"\end{longtable}",
        *_notes(table, r"\linewidth"),
        r"\endgroup",
    ]


def _caption(table: Table) -> list[str]:
    lines = [f"\\caption{{{escape(table.title)}}}"] if table.title.strip() else []
    name = re.sub(r"[^a-z0-9]+", "-", table.name.lower()).strip("-")
    return [*lines, f"\\label{{tab:{name}}}"] if lines and name else lines


def _columns(table: Table) -> str:
    return "".join(_ALIGNS[align] for align in table.aligns)


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


def _between(least: str) -> str:
    """The width of what is in the box, but no less than so much and no more than the line."""
    here = f"\\wd{BOX}"
    return rf"\ifdim{here}>\linewidth\linewidth\else\ifdim{here}<{least}{least}\else{here}\fi\fi"


def _notes(table: Table, width: str) -> list[str]:
    if not table.notes:
        return []
    lines = [f"  {escape(note)}\\par" for note in table.notes]
    return [r"\par\smallskip", f"\\parbox{{{width}}}{{\\footnotesize\\raggedright", *lines, "}"]
