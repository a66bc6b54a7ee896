"""Paragraphs of prose out of text without markup.

Headings are left out. An item of a list stays, as a line of its own, if it ends like a sentence: enumerations of
names and titles go, arguments in points stay. The last sections (references, links, literature) go.
"""

import re
from html import unescape
from itertools import groupby
from unicodedata import is_normalized, normalize

from fairspan.corpus.wikipedia.names import names_of

# Patterns begin with a sign that is seldom: they are looked for in the whole text.
_HEADING = re.compile(r"\n(={1,6})[ \t]*(.*?)[ \t]*\1[ \t]*(?=\n|$)")
_SENTENCE = re.compile(r"[.!?…。！？｡।॥؟۔][\"'”’»)\]）」』]*$")
_LETTER = re.compile(r"[^\W\d_]")
_MARKS = " ,;:،؛、；，：/–—-\t"
_PARENTHESES = re.compile(r"\(([^()\n]*)\)|（([^（）\n]*)）")
_SPACES, _BLANK_LINES = re.compile(r"  +"), re.compile(r"\n\n\n+")
_GAPS = {" ,": ",", " . ": ". ", " .\n": ".\n", " 、": "、", " 。": "。", " ，": "，"}
# Tabs and no-break spaces, and signs that nobody sees: soft hyphens, byte order marks, separators of lines.
_SIGNS = {**dict.fromkeys("\t\u00a0\u2009\u202f\u2028\u2029", " "), "\u00ad": "", "\ufeff": ""}
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
    text = f"\n{text}"
    headings = list(_HEADING.finditer(text))
    if not headings:
        return [text]
    top = max(2, min(len(one[1]) for one in headings))
    closing = names_of(language).closing
    end = len(text)
    for heading in reversed(headings):
        if len(heading[1]) > top:
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
    return _SENTENCE.search(line.rstrip()[-8:]) is not None


def tidy(text: str) -> str:
    """Entities resolved, spaces in order, no parentheses that removed templates left empty, NFC."""
    if "&" in text:
        text = unescape(text)
    for sign, seen in _SIGNS.items():
        text = text.replace(sign, seen)
    if "(" in text or "（" in text:
        text = _PARENTHESES.sub(_without_gaps, text)
    text = _SPACES.sub(" ", text) + "\n"
    for gap, closed in _GAPS.items():
        text = text.replace(gap, closed)
    lines = (line.strip() for line in text.split("\n"))
    text = "\n".join(lines).strip()
    if "\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def _without_gaps(found: re.Match[str]) -> str:
    """Parentheses without commas and spaces at their ends, if they did not come empty, as in `main()`."""
    inner = found[1] or found[2] or ""
    kept = inner.strip(_MARKS)
    if kept:
        # A dash or a colon alone may be meant: (-5), (:
        lead, tail = inner[: len(inner) - len(inner.lstrip(_MARKS))], inner[len(inner.rstrip(_MARKS)) :]
        kept = f"{'' if ' ' in lead or ',' in lead or ';' in lead else lead}{kept}{tail.rstrip(' ,;،、，；')}"
    elif not inner and found.start() and not found.string[found.start() - 1].isspace():
        return found[0]
    return f"{found[0][0]}{kept}{found[0][-1]}" if kept else ""


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
