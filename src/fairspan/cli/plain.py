"""Plain characters for terminals and files that cannot take others: − becomes -, … becomes ..., a bar becomes ###."""

import codecs
import sys
import unicodedata
from io import TextIOWrapper

_HANDLER, _CODEC = "fairspan.plain", "plain_ascii"
# One sign for many, then words for single ones; of everything else the base without its accent is taken.
_ALIKE = {
    "-": "−‐‑‒–—―⁻₋─━┄┈═",
    "'": "‘’‚",
    '"': "“”„",
    "#": "█▉▊▋▌▐",
    " ": "▍▎▏",
    "|": "┊│┃┆",
    "+": "┌┐└┘├┤┬┴┼╭╮╯╰╞╡╪┏┓┗┛┣┫┳┻╋┡┩╇╺╸",
    "*": "•·∙□",
}
_WORDS = {
    "…": "...", "×": "x", "±": "+-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "→": "->", "√": "sqrt", "◇": "**",
    "⁄": "/", "α": "alpha", "β": "b", "δ": "delta", "σ": "sigma", "τ": "tau", "Δ": "diff ", "Σ": "sum ",
}  # fmt: skip
_PLAIN = {**{sign: plain for plain, signs in _ALIKE.items() for sign in signs}, **_WORDS}


def plain(text: str) -> str:
    """The same in ASCII, as near as it gets.

    >>> plain("β2 = −0.04 … ±0.01")
    'b2 = -0.04 ... +-0.01'
    """
    return "".join(character if character.isascii() else _plain(character) for character in text)


def _plain(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    # The spinner of a progress bar is made of dots.
    base = "*" if "\u2800" <= character <= "\u28ff" else unicodedata.normalize("NFKD", character)
    letters = [part for part in base if not unicodedata.combining(part)]
    return "".join(part if part.isascii() else _PLAIN.get(part, "?") for part in letters)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end


def _find_codec(name: str) -> codecs.CodecInfo | None:
    """ASCII under another name: into what is called ascii, click would write UTF-8 instead."""
    if name.replace("-", "_") != _CODEC:
        return None
    known = codecs.lookup("ascii")
    inside = known.streamreader, known.streamwriter, known.incrementalencoder, known.incrementaldecoder
    return codecs.CodecInfo(known.encode, known.decode, *inside, name=_CODEC)


def write_plainly() -> None:
    """Let stdout and stderr take any text, whatever their encoding."""
    codecs.register_error(_HANDLER, _replace)
    codecs.register(_find_codec)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_CODEC if is_ascii else None, errors=_HANDLER)


def takes_any_text() -> bool:
    """Whether stdout can hold every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
