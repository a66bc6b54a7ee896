"""CirrusSearch dumps: documents of the search index in Elasticsearch's bulk format, in gzip or (since 2025) bz2."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.kinds import kind_of_record
from fairspan.corpus.wikipedia.names import names_of
from fairspan.corpus.wikipedia.page import Page, refuse_other_wiki
from fairspan.corpus.wikipedia.prose import flat_text
from fairspan.corpus.wikipedia.records import numbered_records, whole, word
from fairspan.corpus.wikipedia.wikitext import clean, need_parser

NAME = "CirrusSearch"


def is_document(record: dict[str, Any]) -> bool:
    """A line that announces a document, or a document."""
    return _announced(record) is not None or {"title", "text", "namespace"} <= record.keys()


def read(path: Path, language: str, offset: int, count: int) -> Iterator[tuple[Page, int, int]]:
    """The documents of the main namespace, each with the place behind it: the number of its line."""
    page_id = ""
    for number, reached, record in numbered_records(path, count):
        announced = _announced(record)
        if announced is not None:
            page_id = announced
            continue
        if record.get("namespace", 0) == 0 and "title" in record:
            refuse_other_wiki(path.name, word(record.get("wiki")), language)
            yield _page(record, page_id, language), reached, number


def _announced(record: dict[str, Any]) -> str | None:
    """The id in `{"index": {"_type": "page", "_id": "12"}}`."""
    action = record.get("index")
    return str(action.get("_id", "")) if isinstance(action, dict) and "title" not in record else None


def _page(record: dict[str, Any], announced: str, language: str) -> Page:
    """Its wikitext is cleaned where the document holds it.

    `text` has no paragraphs, and the texts of references stand at its end.
    """
    title, text, source = word(record.get("title")), word(record.get("text")), word(record.get("source_text"))
    kind = "other"
    if text or source:
        kind = kind_of_record(title, _words(record, "template"), _words(record, "category"), language)
    names = names_of(language)
    if source:
        need_parser()
    return Page(
        page_id=whole(record.get("page_id")) or whole(announced) or 0,
        title=title,
        revision=whole(record.get("version")),
        kind=kind,
        item=word(record.get("wikibase_item")) or None,
        size=len((source or text).encode("utf-8", "replace")),
        clean=partial(clean, source, language, names.files, names.categories)
        if source
        else partial(flat_text, text, word(record.get("opening_text"))),
    )


def _words(record: dict[str, Any], key: str) -> list[str]:
    listed = record.get(key)
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
