"""Plain text of an article, in paragraphs: from wikitext, or from text that others extracted."""

import re
from collections.abc import Iterable
from html import unescape
from typing import Any
from unicodedata import normalize

# Tags whose content is no prose, besides those that mwparserfromhell knows as invisible.
_DROPPED = re.compile(
    "ce|chem|hiero|includeonly|indicator|mapframe|maplink|pre|ref|references|source|style|"
    "syntaxhighlight|templatestyles"
)
_BLOCKS = re.compile("blockquote|center|div|dl|ol|p|poem|ul")
_ITEM = "\ue000"
"""A private sign at the beginning of an item of a list."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_BLANK = re.compile(r"\n\s*\n")
# Items of lists, rows of tables without an end, and what begins but does not end.
_NO_PROSE = re.compile(rf"^[{_ITEM}|!]|\{{\{{|\}}\}}|\{{\||\|\}}|\[\[|<!--")
_STRAY = re.compile(r"\]\]|</?[a-zA-Z][^<>\n]*>|'{2,}|__[^\Wa-z]+?__")
# Variants of Chinese words: -{zh-hans:计算机; zh-hant:電腦}-, or -{word}-. Flags but A: a rule.
_VARIANTS = re.compile(r"-\{(?:A\|)?(?:(?:[\w-]+:)?\s*([^{}|;]*)(?:;[^{}|]*)?|[^{}]*)\}-")
_PARENTHESES = re.compile(r" ?[(（]([^()（）]*+)[)）]")
# Traces of what was removed: nothing, a separator at an end, or two that follow each other.
_GONE = re.compile(r"^$|^[\s,;:，；：、/–—-]|[\s,;:，；：、/]$|\s[\s,，]|[,;，；、]\s*[,;，；、]")
_QUOTES = re.compile(r"“\s*”|«\s*»|「\s*」|『\s*』|《\s*》")
_SPACES = re.compile(r"[\s\u200b]+")
# French has a space before other punctuation.
_BEFORE = re.compile(r" (?=[，。、；：！？]|[,.)](?:\s|$))")
_TWICE = re.compile(r"([,;，；、])(?:\s*[,;，；、])+")
_UNSEEN = re.compile("[\u00ad\ufeff]")
_SENTENCE = re.compile(r"[.!?…。！？｡।॥؟۔։።។။།][\"'”“’»)\]）」』]*$")
_TITLE = 120
"""A shorter line that does not end like a sentence is a heading, a caption or an item of a list."""


def from_wikitext(text: str, hidden: frozenset[str]) -> str:
    """The prose of wikitext, without headings, lists, tables, references and files.

    Templates are dropped, since only their wiki can expand them; so are parentheses that lose a
    part with them. `hidden` prefixes of links show no text.
    """
    import mwparserfromhell
    from mwparserfromhell.nodes import Heading, Tag, Wikilink

    try:
        code = mwparserfromhell.parse(text)
        for node in code.filter():
            if isinstance(node, Heading):
                node.title = "\n\n"
            elif isinstance(node, Wikilink):
                prefix, colon, _ = str(node.title).strip().partition(":")
                if colon and (
                    prefix.lower() in hidden or (node.text is None and _LANGUAGE.fullmatch(prefix))
                ):
                    node.text = ""
            elif isinstance(node, Tag):
                _strip_tag(node)
        plain = code.strip_code(collapse=False)
    except (mwparserfromhell.parser.ParserError, RecursionError):
        return ""
    plain = _STRAY.sub("", _VARIANTS.sub(r"\1", plain))
    paragraphs = []
    for block in _BLANK.split(plain):
        lines = map(str.strip, block.split("\n"))
        paragraphs.append(" ".join(line for line in lines if not _NO_PROSE.search(line)))
    return _prose(paragraphs)


def _strip_tag(node: Any) -> None:
    """Give a tag the contents that it shows."""
    name = str(node.tag).strip().lower()
    if name in ("li", "dd", "dt"):
        node.contents = f"\n\n{_ITEM}"
    elif name == "table":
        node.contents = "\n\n"
    elif _DROPPED.fullmatch(name):
        node.contents = ""
    elif name == "br":
        node.contents = "\n"
    elif _BLOCKS.fullmatch(name) and node.contents is not None:
        node.contents.insert(0, "\n\n")
        node.contents.append("\n\n")


def from_extract(text: str) -> str:
    """The prose of extracted text, in which headings and list items are ordinary lines."""
    return _prose(text.split("\n"))


def from_index(text: str, opening: str) -> str:
    """The prose of text on one line; a paragraph ends after the opening."""
    paragraphs = [text]
    if text.startswith(opening):
        paragraphs = [opening, text[len(opening) :]]
    return "\n\n".join(filter(None, map(_tidy, paragraphs)))


def _prose(paragraphs: Iterable[str]) -> str:
    tidy = (_tidy(_close_gaps(paragraph)) for paragraph in paragraphs)
    return "\n\n".join(text for text in tidy if _SENTENCE.search(text[-8:]) or len(text) >= _TITLE)


def _close_gaps(text: str) -> str:
    """A paragraph without the traces of templates, such as empty parentheses."""
    for _ in range(3):  # parentheses within parentheses
        text = _PARENTHESES.sub(lambda match: "" if _GONE.search(match[1]) else match[0], text)
    text = _SPACES.sub(" ", _QUOTES.sub("", text))
    return _BEFORE.sub("", _TWICE.sub(r"\1", _BEFORE.sub("", text))).lstrip(" ,;，；、")


def _tidy(text: str) -> str:
    return normalize("NFC", _SPACES.sub(" ", _UNSEEN.sub("", unescape(text))).strip())
