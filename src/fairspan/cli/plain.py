"""Plain characters where others cannot be written: − becomes -, … becomes ..., a bar ###."""

import codecs
import sys
import unicodedata
from io import TextIOWrapper

_HANDLER = "fairspan.plain"
# Of everything else the base without its accent is taken.
_SIGNS = str.maketrans("−‐‑–—─━‘’‚“”„█▉▊▋▌▐▍▎▏│┊•·□◇×≈", "-------'''\"\"\"######   ||****x~")
_WORDS = str.maketrans(
    {"±": "+-", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "√": "sqrt", "α": "alpha"}
    | {"β": "b", "δ": "delta", "σ": "sigma", "τ": "tau", "Δ": "diff ", "Σ": "sum "}
)


def plain(text: str) -> str:
    """The same in ASCII, as near as it gets.

    >>> plain("β2 = −0.04 … ±0.01")
    'b2 = -0.04 ... +-0.01'
    """
    parts = unicodedata.normalize("NFKD", text.translate(_SIGNS).translate(_WORDS))
    base = "".join(part for part in parts if not unicodedata.combining(part))
    return base.encode("ascii", "replace").decode()


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end


def write_plainly() -> None:
    """Let stdout and stderr take any text, whatever their encoding."""
    codecs.register_error(_HANDLER, _replace)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def takes_any_text() -> bool:
    """Whether stdout can hold every character."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return encoding.lower().startswith("utf")
