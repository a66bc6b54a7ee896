"""Dumps of a Wikipedia, page by page: pages-articles XML, CirrusSearch and Parquet."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

from fairspan.corpus.rows import START, Fields, Row, opened, read_parquet
from fairspan.corpus.wikipedia.downloads import database
from fairspan.corpus.wikipedia.plain_text import from_extract, from_index, from_wikitext
from fairspan.errors import CorpusError, MissingExtra

XML = "pages-articles XML"
CIRRUS = "CirrusSearch"
PARQUET = "wikimedia/wikipedia Parquet"
_DISAMBIGUATION = re.compile(r"__DISAMBIG__|\{\{\s*disambig", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://([a-z-]+)\.wikipedia\.org/")
# Wikis allow pages of 2 MiB.
_MOST_BYTES = 2_000_000
# The parser reads the rest of a page again for each opening without an end.
_MOST_OPEN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a dump before its text is cleaned.

    Attributes:
        size: bytes of its source, a cheap bound on the length of its text.
        clean: makes its plain text; called only for wanted pages, possibly in another process.
        item: the number of its Wikidata item, if the dump has it.
        fault: why it is no article, such as "redirect"; None if it may be one.
    """

    page_id: int
    title: str
    size: int
    clean: Callable[[], str]
    revision: int | None = None
    item: int | None = None
    fault: str | None = None


Pages = Iterator[tuple[Page, int]]


def read_pages(path: Path, language: str) -> Pages:
    """The pages of a file's main namespace, each with how many bytes of the file have been read."""
    readers = {XML: _read_xml, CIRRUS: _read_cirrus, PARQUET: _read_parquet}
    return readers[recognise(path)](path, language)


def recognise(path: Path) -> str:
    """The format of a file, from its first bytes; its name does not matter."""
    with opened(path) as (_, file):
        start = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        return PARQUET
    if b"<mediawiki" in start[:2000]:
        if find_spec("mwparserfromhell") is None:
            extra = "pip install 'fairspan[wikipedia]'"
            raise MissingExtra(f"wikitext needs mwparserfromhell: {extra}.")
        return XML
    if start.startswith(b"{") and (b'"index"' in start[:200] or b'"namespace"' in start):
        return CIRRUS
    formats = f"{XML}, {CIRRUS} and {PARQUET}"
    raise CorpusError(f"{path.name} is not a dump that can be read. Formats: {formats}.")


def _require_wiki(path: Path, wiki: str, language: str) -> None:
    """Raise if the database that a dump names is not the Wikipedia of the language."""
    wanted = database(language)
    if wiki and wanted not in (wiki, database(wiki.removesuffix("wiki"))):
        other = f"the Wikipedia of {language!r} is {wanted}"
        raise CorpusError(f"{path.name} is a dump of {wiki}, and {other}.")


def _read_xml(path: Path, language: str) -> Pages:
    """Pages of an XML dump; each is dropped from the tree once it is read."""
    hidden = {"file", "image", "category"}
    root = None
    with opened(path) as (raw, file):
        for event, element in ElementTree.iterparse(file, ("start", "end")):
            root = element if root is None else root
            name = element.tag.rpartition("}")[2] if event == "end" else ""
            if name == "dbname":
                _require_wiki(path, element.text or "", language)
            elif name == "namespace" and element.get("key") in ("6", "14"):
                hidden.add((element.text or "").lower())
            elif name == "page":
                if element.findtext("{*}ns", "0") == "0":
                    yield _xml_page(element, frozenset(hidden)), raw.tell()
                root.clear()


def _xml_page(page: ElementTree.Element, hidden: frozenset[str]) -> Page:
    """The first revision of a page."""
    text = page.findtext("{*}revision/{*}text") or ""
    size = len(text.encode())
    open_templates = text.count("{{") - text.count("}}")
    open_links = text.count("[[") - text.count("]]")
    fault = None
    if page.find("{*}redirect") is not None:
        fault = "redirect"
    elif page.findtext("{*}revision/{*}model", "wikitext") != "wikitext":
        fault = "no text"
    elif _DISAMBIGUATION.search(text):
        fault = "disambiguation"
    elif size > _MOST_BYTES or max(open_templates, open_links) > _MOST_OPEN:
        fault = "too much markup"
    return Page(
        page_id=int(page.findtext("{*}id", "")),
        title=page.findtext("{*}title", ""),
        revision=int(page.findtext("{*}revision/{*}id", "")),
        fault=fault,
        size=size,
        clean=partial(from_wikitext, text, hidden),
    )


def _read_cirrus(path: Path, language: str) -> Pages:
    """Documents of the search index; before each is a line with its type."""
    with opened(path) as (raw, file):
        for line in file:
            record = json.loads(line)
            if "title" in record and record.get("namespace", 0) == 0:
                _require_wiki(path, record.get("wiki") or "", language)
                yield _cirrus_page(record), raw.tell()


def _cirrus_page(record: dict[str, Any]) -> Page:
    """A document of the search index."""
    text = record.get("text") or ""
    item = record.get("wikibase_item") or ""
    names = [*(record.get("template") or ()), *(record.get("category") or ())]
    return Page(
        page_id=int(record.get("page_id") or 0),
        title=record["title"],
        revision=record.get("version"),
        fault="disambiguation" if any("disambig" in name.lower() for name in names) else None,
        item=int(item[1:]) if item[1:].isdecimal() else None,
        size=len(text.encode("utf-8", "replace")),
        clean=partial(from_index, text, record.get("opening_text") or ""),
    )


def _read_parquet(path: Path, language: str) -> Pages:
    """Rows of Hugging Face's dataset."""
    for row, after in read_parquet(path.name, path, START, Fields(id="id", more=("url", "title"))):
        fields = {name: value or "" for name, value in cast(Row, row).fields.items()}
        text = fields["text"]
        address = _ADDRESS.match(fields.get("url", ""))
        _require_wiki(path, f"{address[1].replace('-', '_')}wiki" if address else "", language)
        size = len(text.encode("utf-8", "replace"))
        clean = partial(from_extract, text)
        try:
            page = Page(page_id=int(fields["id"]), title=fields["title"], size=size, clean=clean)
        except (ValueError, KeyError):
            wrong = f"{path.name} is not of wikimedia/wikipedia"
            raise CorpusError(f"{wrong}: its columns are id, url, title, text.") from None
        yield page, after.done
