"""Wikimedia Enterprise HTML dumps: one JSON object per line, in a tar archive, gzipped, or as it is."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.html import clean, need_parser
from fairspan.corpus.wikipedia.kinds import kind_of_record
from fairspan.corpus.wikipedia.page import Page, refuse_other_wiki
from fairspan.corpus.wikipedia.records import numbered_records, whole, word

NAME = "Wikimedia Enterprise HTML"


def is_article(record: dict[str, Any]) -> bool:
    return "name" in record and "identifier" in record and ("article_body" in record or "is_part_of" in record)


def read(path: Path, language: str, offset: int, count: int) -> Iterator[tuple[Page, int, int]]:
    """The pages of the main namespace, each with the place behind it: the number of its line."""
    need_parser()
    for number, reached, record in numbered_records(path, count):
        if _inner(record, "namespace", "identifier") not in (None, 0):
            continue
        refuse_other_wiki(path.name, word(_inner(record, "is_part_of", "identifier")), language)
        yield _page(record, language), reached, number


def licence(record: dict[str, Any]) -> str:
    """What the dump itself says, such as "CC-BY-SA-4.0"."""
    stated = record.get("license")
    known = [one for one in stated if isinstance(one, dict)] if isinstance(stated, list) else []
    return " and ".join(word(one.get("name")) or word(one.get("identifier")) for one in known)


def _page(record: dict[str, Any], language: str) -> Page:
    html = word(_inner(record, "article_body", "html"))
    title = word(record.get("name")).replace("_", " ")
    templates = _named(record, "templates")
    kind = kind_of_record(title, templates, _named(record, "categories"), language) if html else "other"
    if 'http-equiv="Refresh"' in html[:5000] or 'rel="mw:PageProp/redirect"' in html[:5000]:
        kind = "redirect"
    return Page(
        page_id=whole(record.get("identifier")) or 0,
        title=title,
        revision=whole(_inner(record, "version", "identifier")),
        kind=kind,
        item=word(_inner(record, "main_entity", "identifier")) or None,
        size=len(html),
        clean=partial(clean, html, language),
    )


def _inner(record: dict[str, Any], key: str, field: str) -> Any:
    inner = record.get(key)
    return inner.get(field) if isinstance(inner, dict) else None


def _named(record: dict[str, Any], key: str) -> list[str]:
    listed = record.get(key)
    return [word(one.get("name")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
