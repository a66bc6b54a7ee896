"""Paragraphs of prose out of text without markup.

Headings are left out. An item of a list stays, as a line of its own, if it ends like a sentence: enumerations of
names and titles go, arguments in points stay. The last sections (references, links, literature) go.
"""

import re
from html import unescape
from itertools import groupby
from unicodedata import normalize

from fairspan.corpus.wikipedia.names import names_of

_HEADING = re.compile(r"^(={1,6})[ \t]*(.*?)[ \t]*\1[ \t]*$", re.MULTILINE)
_SENTENCE = re.compile(r"[.!?…。！？｡।॥؟۔][\"'”’»)\]）」』]*$")
_LETTER = re.compile(r"[^\W\d_]")
_MARKS = ",;:،؛、；，："
_EMPTY_PARENTHESES = re.compile(rf"(?:(?<=\s)|^)\([\s{_MARKS}/–—-]*\)|（[\s{_MARKS}/–—-]*）", re.MULTILINE)
_AFTER_OPENING = re.compile(rf"(?<=[(（])[ {_MARKS}]+(?=[^\s)）])")
_BEFORE_CLOSING = re.compile(rf"(?<=[^\s{_MARKS}(（])[ {_MARKS}]+(?=[)）])")
_SPACES = re.compile(r"[ \t\u00a0\u2009\u202f]+")
_BEFORE_COMMA = re.compile(r" +(?=[,.](?:\s|$)|[、。，])")
_UNSEEN = dict.fromkeys([0x00AD, 0xFEFF, 0x2028, 0x2029])
# Scripts that put no space between words.
_UNSPACED = ("zh", "ja", "yue", "wuu", "gan", "lzh", "th", "lo", "my", "km", "bo", "dz", "cdo", "hak")
# A line of extracted text without the end of a sentence is a heading or an item if it is shorter than this.
_TITLE = 120


def prose(text: str, language: str) -> str:
    """Of lines with wikitext's `==`, `*`, `#`, `:` and `;` at their ends, and no other markup."""
    join = "" if language.startswith(_UNSPACED) else " "
    paragraphs = []
    for body in _bodies(text, language):
        for block in body.split("\n\n"):
            paragraphs += _paragraphs(block, join)
    return tidy("\n\n".join(paragraphs))


def _bodies(text: str, language: str) -> list[str]:
    """The sections without their headings; those that close the article are left out."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        return [text]
    top = min(2, *(len(one[1]) for one in headings)) if len(headings) > 1 else len(headings[0][1])
    closing = names_of(language).closing
    end = len(text)
    for heading in reversed(headings):
        if len(heading[1]) > max(top, 2):
            continue
        if normalize("NFC", unescape(heading[2])).strip(" :").lower() not in closing:
            break
        end = heading.start()
    kept = [one for one in headings if one.start() < end]
    starts = [0, *(one.end() for one in kept)]
    ends = [*(one.start() for one in kept), end]
    return [text[start:stop] for start, stop in zip(starts, ends, strict=True)]


def _paragraphs(block: str, join: str) -> list[str]:
    """Lines that follow each other are one paragraph; so are the items of a list, which keep their lines."""
    found = []
    for in_list, lines in groupby(
        filter(None, map(str.strip, block.split("\n"))), key=lambda line: line[0] in "*#:;"
    ):
        if in_list:
            items = (line.lstrip("*#:; ") for line in lines if not line.startswith(";"))
            paragraph = "\n".join(item for item in items if is_sentence(item))
        else:
            paragraph = join.join(line for line in lines if line[0] not in "|!" and not line.startswith("----"))
        if _LETTER.search(paragraph):
            found.append(paragraph)
    return found


def is_sentence(line: str) -> bool:
    return _SENTENCE.search(line.rstrip()) is not None


def tidy(text: str) -> str:
    """Entities resolved, spaces in order, no parentheses that removed templates left empty, NFC."""
    if "&" in text:
        text = unescape(text)
    text = _SPACES.sub(" ", text.translate(_UNSEEN))
    if "(" in text or "（" in text:
        text = _BEFORE_CLOSING.sub("", _AFTER_OPENING.sub("", text))
        text = _EMPTY_PARENTHESES.sub("", text)
    text = _SPACES.sub(" ", _BEFORE_COMMA.sub("", text))
    lines = (line.strip() for line in text.split("\n"))
    return normalize("NFC", re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip())


def flat_text(text: str, opening: str) -> str:
    """Text on one line, with a paragraph after its opening."""
    if opening and text.startswith(opening):
        text = f"{opening}\n\n{text[len(opening) :].lstrip()}"
    return tidy(text)


def extracted_text(text: str, language: str) -> str:
    """Text in which headings and items are lines like others: short lines that are no sentences go.

    The first heading of references, links or literature ends it.
    """
    closing = names_of(language).closing
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        kept: list[str] = []
        for line in block.split("\n"):
            plain = line.strip()
            if paragraphs and plain.strip(" :").lower() in closing:
                return tidy("\n\n".join([*paragraphs, *filter(None, ["\n".join(kept)])]))
            if plain and (is_sentence(plain) or len(plain) >= _TITLE):
                kept.append(plain)
        if kept:
            paragraphs.append("\n".join(kept))
    return tidy("\n\n".join(paragraphs))
