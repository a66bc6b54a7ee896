"""`pages-articles` dumps: MediaWiki's XML export (schema 0.10 and 0.11), plain or in bz2 of one or many streams."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from fairspan.corpus.wikipedia.kinds import kind_of_wikitext
from fairspan.corpus.wikipedia.names import names_of
from fairspan.corpus.wikipedia.page import Page, refuse_other_wiki
from fairspan.corpus.wikipedia.streams import LONGEST, CutOff, blocks
from fairspan.corpus.wikipedia.wikitext import clean, need_parser
from fairspan.errors import CorpusError

NAME = "pages-articles XML"
_START, _END, _SITE, _LAST = b"<page>", b"</page>", b"</siteinfo>", b"</mediawiki>"
_NAMESPACE = re.compile(rb"<ns>\s*(-?\d+)\s*</ns>")


@dataclass(frozen=True, slots=True)
class Site:
    """The wiki of a dump and the prefixes of its links, in lower case."""

    wiki: str
    files: frozenset[str]
    categories: frozenset[str]


def is_export(start: bytes) -> bool:
    return b"<mediawiki" in start[:2000]


def read(path: Path, language: str, offset: int, count: int) -> Iterator[tuple[Page, int, int]]:
    """The pages of the main namespace, each with the place behind it.

    Args:
        offset: where a bz2 stream starts that begins with a page, or a place between two pages of a plain file.
        count: pages behind `offset`, of any namespace, that are passed over.
    """
    need_parser()
    site = _read_site(path, language)
    refuse_other_wiki(path.name, site.wiki, language)
    seen = 0
    try:
        for source, after, number in _split(path, offset):
            seen += 1
            if seen <= count:
                continue
            page = _page(path, source, site, language)
            if page is not None:
                yield page, after, number
    except CutOff:
        raise _cut(path) from None


def _cut(path: Path) -> CorpusError:
    return CorpusError(
        f"{path.name} is damaged or cut off: it ends before </mediawiki>. Download it again; "
        "the pages before that place have been read."
    )


def _read_site(path: Path, language: str) -> Site:
    head = b""
    try:
        for _, block in blocks(path):
            head += block
            if _SITE in head or len(head) > 1 << 22:
                break
    except CutOff:
        raise _cut(path) from None
    begin = head.find(b"<siteinfo>")
    try:
        info = ElementTree.fromstring(head[begin : head.index(_SITE) + len(_SITE)])
    except (ValueError, ElementTree.ParseError):
        raise CorpusError(f"{path.name} has no <siteinfo>, so it is cut off or no dump of a wiki.") from None
    spaces = {one.get("key"): (one.text or "").lower() for one in info.iter("namespace")}
    names = names_of(language)
    return Site(
        wiki=info.findtext("dbname") or "",
        files=names.files | {spaces.get("6", "file")},
        categories=names.categories | {spaces.get("14", "category")},
    )


def _split(path: Path, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """The bytes of every page, and the place behind it.

    `<` and `>` are escaped in texts, so tags can be looked for in bytes; pages of other namespaces are never parsed.
    """
    held, searched, number, base = b"", 0, 0, offset
    plain = None
    for start, block in blocks(path, offset):
        if plain is None:
            plain = not _is_compressed(path)
        if not plain and start is not None and (not held.strip() or held.rstrip().endswith(_SITE)):
            held, searched, number, base = b"", 0, 0, start
        position = 0 if start is None else start - len(held)
        held += block
        done = 0
        while (end := held.find(_END, searched)) >= 0:
            end += len(_END)
            begin = held.rfind(_START, done, end)
            if begin < 0:
                raise CorpusError(f"{path.name} is damaged: a page ends that did not begin. Download it again.")
            number += 1
            yield (held[begin:end], position + end, 0) if plain else (held[begin:end], base, number)
            done = searched = end
        held = held[done:]
        searched = max(0, len(held) - len(_END))
        if len(held) > LONGEST:
            raise CorpusError(
                f"{path.name} has a page of more than {LONGEST >> 20} MiB: it holds whole histories. "
                "Use the dump called pages-articles."
            )
    if _LAST not in held:
        raise CutOff


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(3) == b"BZh"


def _page(path: Path, source: bytes, site: Site, language: str) -> Page | None:
    """A page of the main namespace; of several revisions, the last."""
    space = _NAMESPACE.search(source, 0, 4000)
    if space is not None and int(space[1]) != 0:
        return None
    try:
        tree = ElementTree.fromstring(source)
        title = tree.findtext("title") or ""
        page_id = int(tree.findtext("id") or "")
    except (ElementTree.ParseError, ValueError) as error:
        label = re.search(rb"<title>([^<]*)", source)
        where = f" ({label[1].decode('utf-8', 'replace')})" if label else ""
        raise CorpusError(
            f"{path.name} has a page{where} that is not valid XML: {error}. Download it again."
        ) from None
    revisions = tree.findall("revision")
    revision = revisions[-1] if revisions else ElementTree.Element("revision")
    element = revision.find("text")
    text = "" if element is None else element.text or ""
    number = revision.findtext("id")
    if tree.find("redirect") is not None:
        kind = "redirect"
    elif (revision.findtext("model") or "wikitext") != "wikitext":
        kind = "other"
    else:
        kind = kind_of_wikitext(title, text, language)
    size = None if element is None else element.get("bytes")
    return Page(
        page_id=page_id,
        title=title,
        revision=int(number) if number else None,
        kind=kind,
        item=None,
        size=int(size) if size and size.isdecimal() else len(text.encode("utf-8", "replace")),
        clean=partial(clean, text, language, site.files, site.categories),
    )
