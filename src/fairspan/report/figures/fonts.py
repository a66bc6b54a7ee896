"""Fonts for every script: what DejaVu Sans lacks is looked for among the fonts of the system."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = "DejaVu Sans"
"""It comes with matplotlib, so figures look the same everywhere."""
LAST = "sans-serif"

# In this order; the ones of Debian, of other Linux distributions, of macOS and of Windows.
FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Noto Sans KR",
    "Noto Sans JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "NanumGothic",
    "UnDotum",
    "PingFang SC",
    "Hiragino Sans GB",
    "STHeiti",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "SimHei",
    "Malgun Gothic",
    "Yu Gothic",
    "Noto Sans Devanagari",
    "Lohit Devanagari",
    "Kohinoor Devanagari",
    "Devanagari Sangam MN",
    "Nirmala UI",
    "Mangal",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Symbola",
    "Arial Unicode MS",
    "Noto Sans",
)
# First and last code point, and the package of Debian and Ubuntu that shows them.
_PACKAGES = (
    (0x1100, 0x11FF, "fonts-noto-cjk"),
    (0x2E80, 0xA4CF, "fonts-noto-cjk"),
    (0xAC00, 0xD7FF, "fonts-noto-cjk"),
    (0xF900, 0xFAFF, "fonts-noto-cjk"),
    (0xFF00, 0xFFEF, "fonts-noto-cjk"),
    (0x20000, 0x3FFFF, "fonts-noto-cjk"),
    (0x1F000, 0x1FAFF, "fonts-symbola"),
)


def choose_fonts(figure: Figure) -> None:
    """Give every text of a figure the fonts it needs; warn in one line of characters that none shows."""
    from matplotlib.text import Text

    missing = give_fonts(figure.findobj(Text))
    if missing:
        # Told by its text alone, once: a line of code below it would help nobody.
        said = globals().setdefault("__warningregistry__", {})
        warnings.warn_explicit(missing_line(missing), UserWarning, "fairspan", 1, registry=said)


def give_fonts(texts: Iterable[Any]) -> set[str]:
    """Give texts the fonts they need; the characters that none shows."""
    missing: set[str] = set()
    for text in texts:
        wanted = needed(text.get_text())
        if not wanted:
            continue
        families, unseen = families_for(frozenset(wanted))
        missing |= unseen
        if families:
            text.set_fontfamily([FIRST, *families, LAST])
    return missing


def needed(text: str) -> set[str]:
    """The characters that the first font does not show."""
    return {character for character in text if not character.isspace() and ord(character) not in _shown_by(FIRST)}


@lru_cache(maxsize=256)
def families_for(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The installed families that show the characters between them, and those characters that none shows."""
    left, chosen = set(characters), []
    for known_only in (True, False):
        if not known_only:
            _learn_new_fonts()
        for family in FAMILIES:
            shown = {character for character in left if ord(character) in _shown_by(family)}
            if shown:
                chosen.append(family)
                left -= shown
        if not left:
            break
    return tuple(chosen), frozenset(left)


def missing_line(characters: Iterable[str]) -> str:
    """What to install for characters that no font shows."""
    ordered = sorted(characters)
    packages = list(dict.fromkeys(_package(character) for character in ordered))
    some = "".join(ordered[:5]) + ("…" if len(ordered) > 5 else "")
    count = f"{len(ordered)} characters" if len(ordered) > 1 else "one character"
    return (
        f"no installed font shows {count} of a figure ({some}), drawn as boxes in PNG and PDF: install "
        f"{' and '.join(packages)} or another font that has them."
    )


def _package(character: str) -> str:
    found = (package for low, high, package in _PACKAGES if low <= ord(character) <= high)
    return next(found, "fonts-noto-core")


def _shown_by(family: str) -> frozenset[int]:
    """The code points of a family's plain font; none where it is not installed."""
    from matplotlib.font_manager import fontManager

    plain = [
        entry
        for entry in fontManager.ttflist
        if entry.name == family and entry.style == "normal" and entry.weight in (400, "normal", "regular", "book")
    ]
    return _code_points(plain[0].fname, getattr(plain[0], "index", 0)) if plain else frozenset()


@lru_cache(maxsize=64)
def _code_points(file: str, index: int) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    font: Any = FT2Font(file, face_index=index) if index else FT2Font(file)
    return frozenset(font.get_charmap())


@lru_cache(maxsize=1)
def _learn_new_fonts() -> None:
    """Fonts that were installed after matplotlib made its list are not on it."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for file in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(file)
        except (OSError, RuntimeError, ValueError):
            continue
