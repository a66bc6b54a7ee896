"""What kind of page a page is: an article, or one of those that a corpus leaves out.

In doubt a page is no article: one article too few does no harm, and a list among prose does.
"""

import re
from collections.abc import Iterable

from fairspan.corpus.wikipedia.names import Names, names_of

# "#REDIRECT [[", "#WEITERLEITUNG [[", "#重定向 [[": every wiki has words of its own, and nothing else begins so.
_REDIRECT = re.compile(r"\s*[#＃][^\s\[\]#*:|{}]{2,}\s*:?\s*\[\[")
_TEMPLATE = re.compile(r"\{\{([^|{}<\n]*)")
_PARENTHESIS = re.compile(r"[(（]([^()（）]+)[)）]\s*$")
# How far into a page its first sentence is looked for, and how long the text of a disambiguation page can be.
_OPENING, _SHORT = 400, 6000


def kind_of_wikitext(title: str, text: str, language: str) -> str:
    """By the wikitext of a page in the main namespace, where the dump does not say that it redirects."""
    if _REDIRECT.match(text):
        return "redirect"
    if not text or text.isspace():
        return "other"
    kind = kind_of_title(title, language)
    if kind != "article":
        return kind
    templates = {_plain(name) for name in set(_TEMPLATE.findall(text))}
    several = "__DISAMBIG__" in text or not names_of(language).disambiguation.isdisjoint(templates)
    return "disambiguation" if several else "article"


def kind_of_record(title: str, templates: Iterable[str], categories: Iterable[str], language: str) -> str:
    """By the names of the templates and categories of a page, with or without the prefix of their namespace."""
    kind = kind_of_title(title, language)
    if kind != "article":
        return kind
    names = names_of(language)
    if any(_plain(one) in names.disambiguation for one in templates):
        return "disambiguation"
    if any(_plain(one).startswith(names.disambiguating) for one in categories):
        return "disambiguation"
    return "article"


def kind_of_text(title: str, text: str, language: str) -> str:
    """By title and plain text alone."""
    if not text or text.isspace():
        return "other"
    kind = kind_of_title(title, language)
    if kind != "article" or len(text) > _SHORT:
        return kind
    return "disambiguation" if says_several_meanings(text, names_of(language)) else "article"


def kind_of_title(title: str, language: str) -> str:
    """ "list" or "disambiguation" where the title says so."""
    names = names_of(language)
    lower = title.lower()
    found = _PARENTHESIS.search(lower)
    if found and found[1].strip() in names.meanings:
        return "disambiguation"
    if lower.startswith(names.list_starts) or lower.endswith(names.list_ends):
        return "list"
    return "article"


def says_several_meanings(text: str, names: Names) -> bool:
    """Whether the first lines say that the title means several things."""
    opening = text[:_OPENING].lower()
    for phrase in names.phrases:
        place = opening.find(phrase)
        if place >= 0 and (phrase.endswith(":") or ":" in opening[place:] or "：" in opening[place:]):
            return True
    return False


def _plain(name: str) -> str:
    """A template's or category's name in lower case, without its namespace."""
    prefix, colon, rest = name.partition(":")
    if colon and rest and not prefix.lower().startswith(("wikipedia", "wikipedie")):
        name = rest
    return name.replace("_", " ").strip().lower()
