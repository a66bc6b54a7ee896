"""Text as LaTeX: what plain pdfLaTeX sets by itself, and a command for what it cannot."""

import re
import unicodedata

OTHER = r"\fairspanother"
"""A command of two arguments: characters as they are, and their code points.

Without another definition XeLaTeX and LuaLaTeX set the characters, which needs a font that has them, and pdfLaTeX the
code points.
"""

DEFINITION = rf"\providecommand{{{OTHER}}}[2]{{\ifdefined\Umathchar #1\else #2\fi}}"

MARKERS = {"◇": r"\Diamond", "□": r"\square", "•": r"\bullet"}

# The square alone is too large for what it says.
_RAISED = {**MARKERS, "□": r"\scriptscriptstyle\square", "*": r"\ast"}

_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "η": "eta", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "ν": "nu", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "varphi", "χ": "chi",
    "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Σ": "Sigma", "Φ": "Phi",
    "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip

_MATHS = {
    "−": "-", "<": "<", ">": ">", "±": r"\pm", "×": r"\times", "÷": r"\div", "·": r"\cdot", "→": r"\rightarrow",
    "←": r"\leftarrow", "↔": r"\leftrightarrow", "≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx",
    "∞": r"\infty", "°": r"{}^{\circ}", "²": "{}^{2}", "³": "{}^{3}", "µ": r"\mu", "⟨": r"\langle", "⟩": r"\rangle",
    **{letter: f"\\{name}" for letter, name in _GREEK.items()},
    **MARKERS,
}  # fmt: skip

# Of a run, as code points: more of them would only push the table apart.
_MOST = 6

_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_",
    "~": r"$\sim$", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    # The plain sign is a command in several languages of babel.
    '"': r"\char34{}",
}  # fmt: skip

# What pdfLaTeX sets by itself in its first font encoding, and the letters among them that it does not.
_OWN = "\x20-\x7e¡£§©®¶¿À-ž‐‑–—‘’“”†‡…€™"
_LACKING = "ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲų"

_PIECES = re.compile(
    rf"(?P<greek>[{''.join(_GREEK)}])(?:_(?P<letter>[A-Za-z0-9])|(?P<number>\d+|p\b))"
    rf"|(?<=\d)(?P<mark>[{''.join(MARKERS)}](?!\w)|\*\Z)"
    r"|(?P<break>[-–`'‘’,!?](?=[-–`'‘’,]))"
    rf"|(?P<own>(?![{_LACKING}])[{_OWN}])"
    r"|(?P<one>.)",
    re.DOTALL,
)


def escape(text: str) -> str:
    """Text that is set as it reads.

    Greek letters and signs become formulas, β2 with its number below, and a marker or star behind a number a raised
    sign of no width, so that numbers stay aligned. Characters that plain pdfLaTeX does not have go into `OTHER`, a
    run of them at a time.
    """
    parts: list[str] = []
    others = ""
    for found in _PIECES.finditer(unicodedata.normalize("NFC", " ".join(text.split()))):
        piece = _piece(found)
        if piece is None:
            others += found[0]
            continue
        if others:
            parts.append(_other(others))
            others = ""
        parts.append(piece)
    return "".join([*parts, _other(others) if others else ""])


def _piece(found: re.Match[str]) -> str | None:
    """The LaTeX of one piece; None where there is none."""
    if found["greek"] is not None:
        return f"${_MATHS[found['greek']]}_{{{found['letter'] or found['number']}}}$"
    if found["mark"] is not None:
        return rf"\rlap{{$^{{{_RAISED.get(found['mark'], found['mark'])}}}$}}"
    sign = found[0]
    if found["break"] is not None:
        return sign + "{}"
    if sign in _TEXT:
        return _TEXT[sign]
    if sign in _MATHS:
        return f"${_MATHS[sign]}$"
    return found["own"]


def _other(run: str) -> str:
    points = " ".join(f"U+{ord(sign):04X}" for sign in run[:_MOST]) + (r" \dots{}" if len(run) > _MOST else "")
    # Half of a surrogate pair cannot be written to a file.
    shown = "".join("\ufffd" if unicodedata.category(sign) in ("Cs", "Cc") else sign for sign in run)
    return f"{OTHER}{{{shown}}}{{{points}}}"
