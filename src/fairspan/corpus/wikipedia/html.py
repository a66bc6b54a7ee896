"""Plain text out of the HTML that Parsoid makes of articles."""

import re
from html import escape
from importlib.util import find_spec
from typing import Any

from fairspan.corpus.wikipedia.markup import simple_formula
from fairspan.corpus.wikipedia.names import names_of
from fairspan.corpus.wikipedia.prose import is_sentence, tidy
from fairspan.errors import MissingExtra

# What is no prose, wherever it stands.
_DROPPED = ", ".join(
    (
        "table",
        "style",
        "script",
        "link",
        "meta",
        "head",
        "figure",
        "figure-inline",
        "audio",
        "video",
        "img",
        "sup.reference",
        "sup.mw-ref",
        "sup.noprint",
        "[typeof~='mw:Extension/ref']",
        "[typeof~='mw:Extension/references']",
        "ol.references",
        ".mw-references-wrap",
        ".reflist",
        ".refbegin",
        ".references-small",
        ".infobox",
        ".infobox_v2",
        ".infobox_v3",
        ".navbox",
        ".navbox-styles",
        ".vertical-navbox",
        ".sidebar",
        ".sistersitebox",
        ".side-box",
        ".metadata",
        ".ambox",
        ".mbox-small",
        ".hatnote",
        ".dablink",
        ".rellink",
        ".noprint",
        ".mw-editsection",
        ".mw-empty-elt",
        ".mw-cite-backlink",
        ".thumb",
        ".thumbcaption",
        ".gallery",
        ".gallerybox",
        ".toc",
        "#toc",
        "#coordinates",
        ".geo-inline",
        ".geo-default",
        ".geo-nondefault",
        ".plainlinks.nourlexpansion",
        ".catlinks",
        ".printfooter",
        ".navigation-not-searchable",
        ".bandeau-container",
        ".homonymie",
        ".mw-kartographer-container",
        ".mw-kartographer-maplink",
        ".locmap",
        ".timeline-wrapper",
        ".mw-highlight",
        ".IPA",
        ".noexcerpt",
        ".error",
        "[role='navigation']",
        "[role='note']",
        "[style*='display:none']",
        "[style*='display: none']",
    )
)
_SPACE = re.compile(r"\s+")


def need_parser() -> None:
    """Raise if selectolax is not installed, before anything is read."""
    if find_spec("selectolax") is None:
        raise MissingExtra("HTML dumps need selectolax: pip install 'fairspan[wikipedia]'.")


def clean(html: str, language: str) -> str:
    """The prose of an article: paragraphs, quotations, and those items of lists that are sentences."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    body = tree.body
    if body is None:
        return ""
    for node in body.css("math"):
        node.replace_with(simple_formula(node.attributes.get("alttext") or ""))
    for node in body.css(_DROPPED):
        node.decompose()
    for node in _closing(body, language):
        node.decompose()
    paragraphs = []
    for node in body.css("p, li, dd, blockquote"):
        if node.tag != "p" and node.css_first("p, ul, ol, dl") is not None:
            continue
        for line in node.css("br"):
            line.replace_with(" ")
        text = _SPACE.sub(" ", node.text()).strip()
        if text and (node.tag == "p" or is_sentence(text)):
            paragraphs.append(escape(text, quote=False))
    return tidy("\n\n".join(paragraphs))


def _closing(body: Any, language: str) -> list[Any]:
    """The last sections, as long as they are references, links or literature."""
    closing = names_of(language).closing
    found = []
    for section in reversed(body.css("section")):
        heading = section.css_first("h2")
        if heading is None:
            continue
        if _SPACE.sub(" ", heading.text()).strip(" :").lower() not in closing:
            break
        found.append(section)
    return found
