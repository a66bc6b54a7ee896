"""Tables as LaTeX with the rules of booktabs."""

import re
from collections.abc import Sequence

from fairspan.report.table import Align, Table

_ALIGNS: dict[Align, str] = {"left": "l", "right": "r", "wrap": r"p{0.6\linewidth}"}
_FORMULAS = {"−": "-", "±": r"\pm", "×": r"\times", "→": r"\rightarrow", "<": "<", ">": ">"}
_FORMULAS |= {"β": r"\beta", "σ": r"\sigma", "τ": r"\tau"}
_FORMULAS |= {"◇": r"^{\Diamond}", "□": r"^{\square}", "•": r"^{\bullet}"}
_SIGNS = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}$%&#_"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {sign: f"${formula}$" for sign, formula in _FORMULAS.items()}
)
_INDEX = re.compile(r"\$(\\beta|\\sigma)\$(?:\\_)?(\d+|\w\b)")


def to_latex(table: Table) -> str:
    """A table with its title and notes, for documents that load amssymb and booktabs."""
    aligns = "".join(_ALIGNS[align] for align in table.aligns)
    lines = [r"\begin{table}[htbp]", r"\centering\small", rf"\caption{{{escape(table.title)}}}"]
    lines += [rf"\label{{tab:{table.name}}}", rf"\begin{{tabular}}{{{aligns}}}", r"\toprule"]
    if table.has_groups:
        lines += _spans(table)
    lines.append(_line([*table.heads, *(column.name for column in table.columns)]))
    heads = iter(table.shown_heads())
    for group in table.groups():
        lines.append(r"\midrule")
        lines += [_line([*next(heads), *(cell.text for cell in row.cells)]) for row in group]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {escape(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape(text: str) -> str:
    """Text that is set as it is; signs become formulas, and the number after a β its index."""
    return _INDEX.sub(r"$\1_{\2}$", " ".join(text.split()).translate(_SIGNS))


def _spans(table: Table) -> list[str]:
    """The headings of groups of columns, with a rule under each."""
    cells = ["" for _ in table.heads]
    rules = []
    place = len(table.heads) + 1
    for name, count in table.spans():
        cells.append(rf"\multicolumn{{{count}}}{{c}}{{{escape(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{place}-{place + count - 1}}}")
        place += count
    return [f"{' & '.join(cells)} \\\\", "".join(rules)]


def _line(cells: Sequence[str]) -> str:
    line = " & ".join(map(escape, cells))
    # After the end of a row these would belong to its command.
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"
