"""Plain characters for terminals and files that cannot take others: − becomes -, … becomes ..., a bar becomes ###."""

import codecs
import sys
import unicodedata
from io import TextIOWrapper

_HANDLER, _CODEC = "fairspan.plain", "plain_ascii"
_PLAIN = {
    **dict.fromkeys("−‐‑‒–—―⁻₋－", "-"),
    **dict.fromkeys("‘’‚", "'"),
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("█▉▊▋▌▐", "#"),
    **dict.fromkeys("▍▎▏", " "),
    **dict.fromkeys("┊│┃┆", "|"),
    **dict.fromkeys("─━┄┈═", "-"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰╞╡╪┏┓┗┛┣┫┳┻╋┡┩╇╺╸", "+"),
    **dict.fromkeys("•·∙", "*"),
    "α": "alpha",
    "β": "b",
    "δ": "delta",
    "η": "eta",
    "θ": "theta",
    "λ": "lambda",
    "μ": "mu",
    "σ": "sigma",
    "τ": "tau",
    "χ": "chi",
    "Δ": "diff ",
    "Λ": "Lambda",
    "Σ": "sum ",
    "…": "...",
    "×": "x",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "→": "->",
    "←": "<-",
    "↔": "<->",
    "√": "sqrt",
    "⁄": "/",
    "∞": "inf",
    "‖": "||",
    "§": "section ",
    "◇": "**",
    "□": "*",
    "ß": "ss",
}


def plain(text: str) -> str:
    """The same in ASCII, as near as it gets.

    >>> plain("β2 = −0.04 … ±0.01")
    'b2 = -0.04 ... +-0.01'
    """
    return "".join(_plain(character) for character in text)


def _plain(character: str) -> str:
    if character.isascii():
        return character
    if character in _PLAIN:
        return _PLAIN[character]
    if "\u2800" <= character <= "\u28ff":
        return "*"  # the spinner of a progress bar
    # An accent is dropped, and what has no ASCII part at all becomes a question mark.
    base = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    return "".join(part if part.isascii() else _PLAIN.get(part, "?") for part in base)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end


def _find_codec(name: str) -> codecs.CodecInfo | None:
    if name.replace("-", "_") != _CODEC:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        streamreader=known.streamreader,
        streamwriter=known.streamwriter,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        name=_CODEC,
    )


def write_plainly() -> None:
    """Let stdout and stderr take any text, whatever their encoding."""
    codecs.register_error(_HANDLER, _replace)
    codecs.register(_find_codec)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Into what is called ascii, click would write UTF-8 instead.
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_CODEC if is_ascii else None, errors=_HANDLER)


def takes_any_text() -> bool:
    """Whether stdout can hold every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
