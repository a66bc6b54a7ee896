"""Small dumps of several Wikipedias in the real formats, and links between their pages, for tests of builds."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.site import prefix_of
from tests import wikipedia_dumps


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

    @property
    def source(self) -> wikipedia_dumps.Source:
        """The same as its wiki holds it."""
        text = {
            "redirect": "#REDIRECT [[Elsewhere]]",
            "disambiguation": f"{self.text}\n\n{{{{disambiguation}}}}",
        }.get(self.kind, self.text)
        paragraphs = "".join(f"<p>{paragraph}</p>" for paragraph in self.text.split("\n\n"))
        return wikipedia_dumps.Source(
            title=self.title,
            text=text,
            page_id=self.number,
            redirect="Elsewhere" if self.kind == "redirect" else None,
            item=None if self.item is None else f"Q{self.item}",
            html=f"<html><body><section>{paragraphs}</section></body></html>",
            templates=["Template:Disambiguation"] if self.kind == "disambiguation" else [],
        )


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
    """pages-articles in bz2, two pages to a stream."""
    wiki = database(language)
    path = folder / f"{wiki}-{date}-pages-articles-multistream.xml.bz2"
    return wikipedia_dumps.write_xml(path, language, [page.source for page in pages], per_stream=2, wiki=wiki)


def write_cirrus(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101") -> Path:
    wiki = database(language)
    path = folder / f"{wiki}-{date}-cirrussearch-content.json.gz"
    kept = [page.source for page in pages if page.kind != "redirect"]
    return wikipedia_dumps.write_cirrus(path, language, kept, wiki=wiki)


def write_enterprise(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101") -> Path:
    wiki = database(language)
    path = folder / f"{wiki}-NS0-{date}-ENTERPRISE-HTML.json.tar.gz"
    kept = [page.source for page in pages if page.kind != "redirect"]
    return wikipedia_dumps.write_enterprise(path, language, kept, files=2, wiki=wiki)


def write_parquet(folder: Path, language: str, pages: Sequence[MadePage], date: str = "20231101") -> Path:
    """The folder of a language, with two files."""
    prefix = prefix_of(language)
    path = folder / f"{date}.{prefix}"
    path.mkdir()
    kept = [page.source for page in pages if page.kind == "article"]
    half = len(kept) // 2
    for number, part in enumerate((kept[:half], kept[half:])):
        wikipedia_dumps.write_parquet(path / f"train-0000{number}-of-00002.parquet", prefix, part)
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
