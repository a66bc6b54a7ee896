"""Plain text out of wikitext.

`without_markup` resolves what is usual. Paragraphs that still hold markup after it (nested or broken links, odd tags)
are read by mwparserfromhell, which would need most of the time if it read everything. `by_tree` is that parser's
reading of a whole text, and what the fast passes are tested against.
"""

import re
from importlib.util import find_spec
from typing import Any

from fairspan.corpus.wikipedia.markup import (
    BLOCKS,
    DROPPED,
    FORMULAS,
    Prefixes,
    chosen_variant,
    link_text,
    literal,
    simple_formula,
    without_markup,
    without_quotes,
    without_switches,
)
from fairspan.corpus.wikipedia.prose import prose
from fairspan.corpus.wikipedia.templates import text_of
from fairspan.errors import MissingExtra

_LEFT = ("[[", "]]", "{{", "}}", "{|")
_LEFT_TAG = re.compile(r"</?[a-zA-Z]")
_BROKEN = re.compile(r"\[\[([^\[\]|\n:]{0,80})([^\[\]\n]*)")
_STRAY = re.compile(r"\[\[|\]\]|\{\{+|\}\}+|^[ \t]*(?:\{\||\|\}).*$|</?[a-zA-Z][^<>\n]*>", re.MULTILINE)
_VARIANTS = re.compile(r"-\{([^{}]*)\}-")
# Longer paragraphs with broken markup are not parsed: the parser tries every way to close what is open.
_LONGEST = 20_000


def need_parser() -> None:
    """Raise if mwparserfromhell is not installed, before anything is read."""
    if find_spec("mwparserfromhell") is None:
        raise MissingExtra("wikitext needs mwparserfromhell: pip install 'fairspan[wikipedia]'.")


def clean(text: str, language: str, files: frozenset[str], categories: frozenset[str]) -> str:
    """The prose of an article.

    Args:
        files: prefixes of links that show a file, in lower case.
        categories: prefixes of links that put the page into a category.
    """
    prefixes = Prefixes(files, categories)
    text = without_markup(text, prefixes)
    if _has_markup(text):
        text = "\n\n".join(_parsed(block, prefixes) if _has_markup(block) else block for block in text.split("\n\n"))
    return prose(text, language)


def _has_markup(text: str) -> bool:
    return any(sign in text for sign in _LEFT) or _LEFT_TAG.search(text) is not None


def _parsed(block: str, prefixes: Prefixes) -> str:
    if len(block) < _LONGEST:
        block = by_tree(block, prefixes)
    return _STRAY.sub("", _BROKEN.sub(lambda found: _broken_link(found[1], found[2], prefixes), block))


def _broken_link(target: str, rest: str, prefixes: Prefixes) -> str:
    """A link without an end: its label and what follows, or nothing of the line that shows a file."""
    name = target.strip().replace("_", " ").lower()
    if rest.startswith(":") and (name in prefixes.files or name in prefixes.categories):
        return ""
    return rest[1:] if rest.startswith("|") else target + rest


def by_tree(text: str, prefixes: Prefixes) -> str:
    """What `without_markup` makes of a text, made by mwparserfromhell's tree."""
    import mwparserfromhell

    try:
        code = mwparserfromhell.parse(text)
        said = "".join(_said(node, prefixes) for node in code.nodes)
    except (mwparserfromhell.parser.ParserError, RecursionError):
        return text
    said = _VARIANTS.sub(lambda found: chosen_variant(found[1]), said)
    return without_switches("\n".join(map(without_quotes, said.split("\n"))))


def _said(node: Any, prefixes: Prefixes) -> str:
    """A node of the tree as text; bold and italic come back as quotes, and signs of lists as they were."""

    def inside(code: Any) -> str:
        return "" if code is None else "".join(_said(one, prefixes) for one in code.nodes)

    match type(node).__name__:
        case "Text" | "HTMLEntity":
            return str(node)
        case "Template":
            return text_of(str(node)[2:-2], lambda argument: by_tree(argument, prefixes))
        case "Wikilink":
            label = "" if node.text is None else f"|{inside(node.text)}"
            return link_text(inside(node.title), label, prefixes)
        case "ExternalLink":
            return inside(node.title) if node.brackets else str(node.url)
        case "Heading":
            return f"{'=' * node.level}{inside(node.title)}{'=' * node.level}"
        case "Tag":
            return _tag(node, inside)
        case _:
            return ""


def _tag(node: Any, inside: Any) -> str:
    name = str(node.tag).strip().lower()
    if name == "table" or name in DROPPED:
        return ""
    if name in FORMULAS:
        return simple_formula(str(node.contents or ""))
    if name == "nowiki":
        return literal(str(node.contents or ""))
    if node.wiki_markup and not node.contents:
        return str(node.wiki_markup)
    if node.wiki_markup:
        return f"{node.wiki_markup}{inside(node.contents)}{node.wiki_markup}"
    contents = inside(node.contents)
    if name == "br":
        return "\n"
    return f"\n{contents}\n" if name in BLOCKS else contents
