"""Small dumps of Wikipedias in the formats in which Wikimedia and Hugging Face publish them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import polars as pl

NAMESPACES = {
    "en": {-2: "Media", -1: "Special", 0: "", 1: "Talk", 6: "File", 10: "Template", 14: "Category"},
    "de": {-2: "Medium", -1: "Spezial", 0: "", 1: "Diskussion", 6: "Datei", 10: "Vorlage", 14: "Kategorie"},
    "zh": {-2: "Media", -1: "Special", 0: "", 1: "Talk", 6: "File", 10: "Template", 14: "Category"},
    "ko": {-2: "미디어", -1: "특수", 0: "", 1: "토론", 6: "파일", 10: "틀", 14: "분류"},
    "hi": {-2: "मीडिया", -1: "विशेष", 0: "", 1: "वार्ता", 6: "चित्र", 10: "साँचा", 14: "श्रेणी"},
    "ar": {-2: "ميديا", -1: "خاص", 0: "", 1: "نقاش", 6: "ملف", 10: "قالب", 14: "تصنيف"},
}


@dataclass(frozen=True)
class Source:
    """A page as a wiki holds it."""

    title: str
    text: str
    page_id: int
    namespace: int = 0
    redirect: str | None = None
    item: str | None = None
    html: str | None = None
    templates: Sequence[str] = field(default_factory=tuple)
    categories: Sequence[str] = field(default_factory=tuple)

    @property
    def revision(self) -> int:
        return self.page_id * 10


def export_head(language: str, wiki: str | None = None, version: str = "0.11") -> str:
    """The root element and siteinfo, as dumps of pages have them."""
    spaces = NAMESPACES.get(language, NAMESPACES["en"]).items()
    rows = [
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>'
        if name
        else f'      <namespace key="{key}" case="first-letter" />'
        for key, name in spaces
    ]
    schema = f"http://www.mediawiki.org/xml/export-{version}/"
    return "\n".join(
        [
            f'<mediawiki xmlns="{schema}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"',
            f'  xsi:schemaLocation="{schema} {schema[:-1]}.xsd" version="{version}" xml:lang="{language}">',
            "  <siteinfo>",
            "    <sitename>Wikipedia</sitename>",
            f"    <dbname>{wiki or language.replace('-', '_') + 'wiki'}</dbname>",
            f"    <base>https://{language}.wikipedia.org/wiki/Main_Page</base>",
            "    <generator>MediaWiki 1.44.0-wmf.1</generator>",
            "    <case>first-letter</case>",
            "    <namespaces>",
            *rows,
            "    </namespaces>",
            "  </siteinfo>\n",
        ]
    )


def export_page(page: Source) -> str:
    """A `<page>` of schema 0.11."""
    redirect = f"\n    <redirect title={quoteattr(page.redirect)} />" if page.redirect else ""
    size = len(page.text.encode())
    return f"""  <page>
    <title>{escape(page.title)}</title>
    <ns>{page.namespace}</ns>
    <id>{page.page_id}</id>{redirect}
    <revision>
      <id>{page.revision}</id>
      <parentid>{page.revision - 1}</parentid>
      <timestamp>2026-10-01T12:00:00Z</timestamp>
      <contributor>
        <username>Somebody</username>
        <id>7</id>
      </contributor>
      <comment>{escape("/* History */ a < b & c")}</comment>
      <origin>{page.revision}</origin>
      <model>wikitext</model>
      <format>text/x-wiki</format>
      <text bytes="{size}" sha1="0123456789abcdefghijklmnopqrstu" xml:space="preserve">{escape(page.text)}</text>
      <sha1>0123456789abcdefghijklmnopqrstu</sha1>
    </revision>
  </page>
"""


def write_xml(
    path: Path, language: str, pages: Sequence[Source], per_stream: int = 0, wiki: str | None = None
) -> Path:
    """`.xml`, or `.bz2`: one stream, or one for the head, for every `per_stream` pages, and for the end."""
    head, end = export_head(language, wiki), "</mediawiki>\n"
    texts = [export_page(page) for page in pages]
    if path.suffix != ".bz2":
        path.write_text(head + "".join(texts) + end, "utf-8")
    elif not per_stream:
        path.write_bytes(bz2.compress((head + "".join(texts) + end).encode()))
    else:
        groups = ["".join(texts[start : start + per_stream]) for start in range(0, len(texts), per_stream)]
        path.write_bytes(b"".join(bz2.compress(part.encode()) for part in [head, *groups, end]))
    return path


def enterprise_record(page: Source, language: str, wiki: str | None = None) -> dict[str, Any]:
    """A line of an Enterprise HTML dump."""
    address = f"https://{language}.wikipedia.org/wiki/{page.title.replace(' ', '_')}"
    record: dict[str, Any] = {
        "name": page.title,
        "identifier": page.page_id,
        "date_modified": "2026-10-01T12:00:00Z",
        "version": {"identifier": page.revision, "comment": "", "editor": {"identifier": 7, "name": "Somebody"}},
        "url": address,
        "namespace": {"name": "Article", "identifier": page.namespace},
        "in_language": {"name": "", "identifier": language},
        "is_part_of": {"name": "Wikipedia", "identifier": wiki or language.replace("-", "_") + "wiki"},
        "article_body": {"html": page.html or "", "wikitext": page.text},
        "license": [
            {
                "name": "Creative Commons Attribution-ShareAlike License 4.0",
                "identifier": "CC-BY-SA-4.0",
                "url": "https://creativecommons.org/licenses/by-sa/4.0/",
            }
        ],
        "redirects": [],
        "templates": [{"name": name, "url": address} for name in page.templates],
        "categories": [{"name": name, "url": address} for name in page.categories],
    }
    if page.item:
        record["main_entity"] = {"identifier": page.item, "url": f"https://www.wikidata.org/entity/{page.item}"}
    return record


def write_enterprise(
    path: Path, language: str, pages: Sequence[Source], files: int = 1, wiki: str | None = None
) -> Path:
    """`.ndjson`, `.ndjson.gz`, or `.tar.gz` with `enwiki_0.ndjson`, `enwiki_1.ndjson` and so on."""
    rows = [json.dumps(enterprise_record(page, language, wiki), ensure_ascii=False) + "\n" for page in pages]
    if not path.name.endswith((".tar.gz", ".tar")):
        text = "".join(rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path
    each = -(-len(rows) // files)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for number in range(files):
            data = "".join(rows[number * each : (number + 1) * each]).encode()
            member = tarfile.TarInfo(f"{language}wiki_{number}.ndjson")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def cirrus_lines(page: Source, language: str, text: str | None, wiki: str | None = None) -> list[dict[str, Any]]:
    """The line that announces a document, and the document; with `text`, one that does not hold its wikitext."""
    document: dict[str, Any] = {
        "template": list(page.templates),
        "content_model": "wikitext",
        "opening_text": (text or "").split(". ")[0] + "." if text else None,
        "wiki": wiki or language.replace("-", "_") + "wiki",
        "auxiliary_text": ["A caption"],
        "language": language,
        "title": page.title,
        "text": text or "",
        "version": page.revision,
        "external_link": [],
        "namespace_text": "",
        "namespace": page.namespace,
        "text_bytes": len(page.text.encode()),
        "incoming_links": 3,
        "category": list(page.categories),
        "redirect": [],
        "page_id": page.page_id,
        "timestamp": "2026-10-01T12:00:00Z",
    }
    if text is None:
        document["source_text"] = page.text
        document["text"] = "Text of the search index."
    if page.item:
        document["wikibase_item"] = page.item
    return [{"index": {"_type": "_doc", "_id": str(page.page_id)}}, document]


def write_cirrus(
    path: Path, language: str, pages: Sequence[Source], texts: Sequence[str] | None = None, wiki: str | None = None
) -> Path:
    """`.json.gz`, `.json.bz2` or `.json`."""
    given = [None] * len(pages) if texts is None else texts
    rows = [row for page, text in zip(pages, given, strict=True) for row in cirrus_lines(page, language, text, wiki)]
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def write_parquet(path: Path, language: str, pages: Sequence[Source], row_group: int = 1000) -> Path:
    """The columns of `wikimedia/wikipedia`; the text of a page is taken as it is."""
    rows = [
        {
            "id": str(page.page_id),
            "url": f"https://{language}.wikipedia.org/wiki/{page.title.replace(' ', '%20')}",
            "title": page.title,
            "text": page.text,
        }
        for page in pages
    ]
    pl.DataFrame(rows).write_parquet(path, row_group_size=row_group)
    return path
