"""Small dumps of several Wikipedias in the real formats, and links between their pages, for tests of builds."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl

from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.site import prefix_of


class WordTokenizer:
    """A token is a word between spaces."""

    name, fingerprint = "words", "words-1"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


@dataclass(frozen=True)
class MadePage:
    """A page of so many words; `redirect` and `disambiguation` pages say so in each format's own way."""

    number: int
    title: str
    words: int
    item: int | None = None
    kind: str = "article"

    @property
    def text(self) -> str:
        """Sentences of ten words, five to a paragraph."""
        words = [f"{self.title.split()[0].lower()}{n % 97}" for n in range(self.words)]
        sentences = [" ".join(words[n : n + 10]).capitalize() + "." for n in range(0, self.words, 10)]
        return "\n\n".join(" ".join(sentences[n : n + 5]) for n in range(0, len(sentences), 5))


Wikis = Mapping[str, Sequence[MadePage]]


def topics(languages: Sequence[str], words: Mapping[int, int | Mapping[str, int]]) -> dict[str, list[MadePage]]:
    """The same topics in every language; `words` by item, for all languages or for each."""
    return {
        language: [
            MadePage(
                100 * place + number,
                f"Topic {number} in {language}",
                length if isinstance(length, int) else length[language],
                number,
            )
            for number, length in words.items()
        ]
        for place, language in enumerate(languages, start=1)
    }


def write_xml(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101") -> Path:
    """pages-articles in bz2, one stream for the head and one per two pages."""
    wiki = database(language)
    head = (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="x">\n  <siteinfo>\n'
        f"    <sitename>Wikipedia</sitename>\n    <dbname>{wiki}</dbname>\n    <namespaces>\n"
        '      <namespace key="0" case="first-letter" />\n'
        '      <namespace key="14" case="first-letter">Category</namespace>\n    </namespaces>\n  </siteinfo>\n'
    )
    streams = [head, *("".join(map(_page_xml, pages[start : start + 2])) for start in range(0, len(pages), 2))]
    path = folder / f"{wiki}-{date}-pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(one.encode()) for one in [*streams, "</mediawiki>\n"]))
    return path


def _page_xml(page: MadePage) -> str:
    text = {
        "redirect": "#REDIRECT [[Elsewhere]]",
        "disambiguation": f"{page.text}\n\n{{{{disambiguation}}}}",
    }.get(page.kind, page.text)
    redirect = '    <redirect title="Elsewhere" />\n' if page.kind == "redirect" else ""
    return (
        f"  <page>\n    <title>{escape(page.title)}</title>\n    <ns>0</ns>\n    <id>{page.number}</id>\n{redirect}"
        f"    <revision>\n      <id>{page.number + 9000}</id>\n      <model>wikitext</model>\n"
        f'      <format>text/x-wiki</format>\n      <text bytes="{len(text.encode())}" xml:space="preserve">'
        f"{escape(text)}</text>\n    </revision>\n  </page>\n"
    )


def write_cirrus(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101") -> Path:
    wiki = database(language)
    lines = []
    for page in pages:
        if page.kind == "redirect":
            continue
        lines.append({"index": {"_type": "_doc", "_id": str(page.number)}})
        lines.append(
            {
                "wiki": wiki,
                "namespace": 0,
                "title": page.title,
                "page_id": page.number,
                "version": page.number + 9000,
                "wikibase_item": None if page.item is None else f"Q{page.item}",
                "template": ["Template:Disambiguation"] if page.kind == "disambiguation" else [],
                "category": [],
                "text": page.text,
                "source_text": page.text,
                "text_bytes": len(page.text.encode()),
            }
        )
    path = folder / f"{wiki}-{date}-cirrussearch-content.json.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode(), mtime=0))
    return path


def write_enterprise(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101") -> Path:
    wiki = database(language)
    lines = [
        {
            "name": page.title,
            "identifier": page.number,
            "version": {"identifier": page.number + 9000},
            "namespace": {"identifier": 0},
            "is_part_of": {"identifier": wiki},
            "main_entity": {} if page.item is None else {"identifier": f"Q{page.item}"},
            "templates": [{"name": "Template:Disambiguation"}] if page.kind == "disambiguation" else [],
            "license": [{"name": "Creative Commons Attribution-ShareAlike 4.0", "identifier": "CC-BY-SA-4.0"}],
            "article_body": {
                "html": "<html><body><section>"
                + "".join(f"<p>{paragraph}</p>" for paragraph in page.text.split("\n\n"))
                + "</section></body></html>"
            },
        }
        for page in pages
        if page.kind != "redirect"
    ]
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    path = folder / f"{wiki}-NS0-{date}-ENTERPRISE-HTML.json.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(f"{wiki}_0.ndjson")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return path


def write_parquet(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20231101") -> Path:
    prefix = prefix_of(language)
    path = folder / f"{date}.{prefix}"
    path.mkdir()
    kept = [page for page in pages if page.kind == "article"]
    rows = [
        {
            "id": str(page.number),
            "url": f"https://{prefix}.wikipedia.org/wiki/{page.title.replace(' ', '_')}",
            "title": page.title,
            "text": page.text,
        }
        for page in kept
    ]
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        pl.DataFrame(part).write_parquet(path / f"train-0000{number}-of-00002.parquet")
    return path


def write_sitelinks(folder: Path, wikis: Wikis, extra: Sequence[tuple[int, str, str]] = ()) -> Path:
    """Wikidata's table, in two statements; rows of other sites between."""
    rows = [(page.item, database(language), page.title) for language, pages in wikis.items() for page in pages]
    rows += extra
    values = [
        f"({number},{item},'{site}','{_escaped(title)}')"
        for number, (item, site, title) in enumerate(rows, start=1)
        if item is not None
    ]
    definition = (
        "CREATE TABLE `wb_items_per_site` (\n  `ips_row_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,\n"
        "  `ips_item_id` int(10) unsigned NOT NULL,\n  `ips_site_id` varbinary(32) NOT NULL,\n"
        "  `ips_site_page` varbinary(310) NOT NULL,\n  PRIMARY KEY (`ips_row_id`),\n"
        "  UNIQUE KEY `wb_ips_item_site_page` (`ips_site_id`,`ips_site_page`)\n) ENGINE=InnoDB;\n"
    )
    path = folder / "wikidatawiki-20260101-wb_items_per_site.sql.gz"
    write_table(path, "wb_items_per_site", definition, values)
    return path


def write_langlinks(folder: Path, pivot: str, wikis: Wikis) -> Path:
    own = {page.item: page.number for page in wikis[pivot]}
    values = [
        f"({own[page.item]},'{prefix_of(language)}','{_escaped(page.title)}')"
        for language, pages in wikis.items()
        if language != pivot
        for page in pages
        if page.item in own
    ]
    definition = (
        "CREATE TABLE `langlinks` (\n  `ll_from` int(8) unsigned NOT NULL DEFAULT 0,\n"
        "  `ll_lang` varbinary(35) NOT NULL DEFAULT '',\n  `ll_title` varbinary(255) NOT NULL DEFAULT '',\n"
        "  PRIMARY KEY (`ll_from`,`ll_lang`)\n) ENGINE=InnoDB;\n"
    )
    path = folder / f"{database(pivot)}-20260101-langlinks.sql.gz"
    write_table(path, "langlinks", definition, values)
    return path


def write_entities(folder: Path, wikis: Wikis, classes: Mapping[int, str] | None = None) -> Path:
    """Wikidata's JSON: one entity per line inside an array."""
    items: dict[int, dict[str, str]] = {}
    for language, pages in wikis.items():
        for page in pages:
            if page.item is not None:
                items.setdefault(page.item, {})[database(language)] = page.title
    lines = []
    for item, sites in items.items():
        value = {"entity-type": "item", "id": (classes or {}).get(item, "Q5")}
        claims = {"P31": [{"mainsnak": {"datavalue": {"value": value, "type": "wikibase-entityid"}}}]}
        links = {site: {"site": site, "title": title, "badges": []} for site, title in sites.items()}
        entity = {"type": "item", "id": f"Q{item}", "claims": claims, "sitelinks": links}
        lines.append(json.dumps(entity, separators=(",", ":")))
    path = folder / "latest-all.json.bz2"
    path.write_bytes(bz2.compress(("[\n" + ",\n".join(lines) + "\n]\n").encode()))
    return path


def write_table(path: Path, table: str, definition: str, values: Sequence[str]) -> None:
    half = len(values) // 2
    statements = [
        f"INSERT INTO `{table}` VALUES {','.join(part)};\n" for part in (values[:half], values[half:]) if part
    ]
    text = f"-- MySQL dump 10.19\n\n{definition}\n{''.join(statements)}-- Dump completed on 2026-01-02\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
