"""Small dumps of Wikipedias in the formats in which they are published, and links between their
pages.
"""

import bz2
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import polars as pl

from fairspan.corpus.wikipedia.downloads import database, prefix_of


class WordTokenizer:
    """A token is a word between spaces."""

    name, fingerprint = "words", "words-1"

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


@dataclass(frozen=True)
class MadePage:
    """A page of so many words, or of a given wikitext; `redirect` and `disambiguation` pages say
    so."""

    number: int
    title: str
    words: int = 0
    item: int | None = None
    kind: str = "article"
    wikitext: str | None = None
    namespace: int = 0

    @property
    def text(self) -> str:
        """Sentences of ten words, five to a paragraph."""
        words = [f"{self.title.split()[0].lower()}{n % 97}" for n in range(self.words)]
        sentences = [
            " ".join(words[n : n + 10]).capitalize() + "." for n in range(0, self.words, 10)
        ]
        return "\n\n".join(" ".join(sentences[n : n + 5]) for n in range(0, len(sentences), 5))

    @property
    def source(self) -> str:
        """As its wiki holds it."""
        ending = "\n\n{{disambiguation}}" if self.kind == "disambiguation" else ""
        return (self.text if self.wikitext is None else self.wikitext) + ending


Wikis = Mapping[str, Sequence[MadePage]]


def topics(
    languages: Sequence[str], words: Mapping[int, int | Mapping[str, int]]
) -> dict[str, list[MadePage]]:
    """The same topics in every language; `words` by item, for all languages or for each."""

    def page(place: int, language: str, item: int, length: int | Mapping[str, int]) -> MadePage:
        count = length if isinstance(length, int) else length[language]
        return MadePage(100 * place + item, f"Topic {item} in {language}", count, item)

    numbered = enumerate(languages, start=1)
    return {one: [page(place, one, *item) for item in words.items()] for place, one in numbered}


_HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11"
  xml:lang="{language}">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>{wiki}</dbname>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
_PAGE = """  <page>
    <title>{title}</title>
    <ns>{page.namespace}</ns>
    <id>{page.number}</id>{redirect}
    <revision>
      <id>{page.number}0</id>
      <contributor>
        <username>Somebody</username>
        <id>7</id>
      </contributor>
      <comment>a &lt; b &amp; c</comment>
      <model>wikitext</model>
      <text bytes="1" xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def xml_parts(language: str, pages: Sequence[MadePage], wiki: str | None = None) -> list[str]:
    """The head, the pages and the end of an export."""
    head = _HEAD.format(language=language, wiki=wiki or database(language))
    texts = []
    for page in pages:
        redirect = '\n    <redirect title="Elsewhere" />' if page.kind == "redirect" else ""
        title, text = escape(page.title), escape(page.source)
        texts.append(_PAGE.format(page=page, title=title, text=text, redirect=redirect))
    return [head, *texts, "</mediawiki>\n"]


def write_xml(
    folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101"
) -> Path:
    """pages-articles in bz2, two pages to a stream."""
    head, *texts, end = xml_parts(language, pages)
    groups = ["".join(texts[n : n + 2]) for n in range(0, len(texts), 2)]
    path = folder / f"{database(language)}-{date}-pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(part.encode()) for part in [head, *groups, end]))
    return path


def write_cirrus(
    folder: Path, language: str, pages: Sequence[MadePage], date: str = "20260101"
) -> Path:
    """Paragraphs are lost in this format, except after the opening."""
    rows: list[dict[str, object]] = []
    for page in pages:
        opening, _, rest = page.text.partition("\n\n")
        document = {
            "template": ["Template:Disambiguation"] if page.kind == "disambiguation" else [],
            "wiki": database(language),
            "title": page.title,
            "text": f"{opening} {rest}".replace("\n\n", " "),
            "opening_text": opening,
            "version": page.number * 10,
            "namespace": page.namespace,
            "page_id": page.number,
            **({} if page.item is None else {"wikibase_item": f"Q{page.item}"}),
        }
        rows += [{"index": {"_type": "_doc", "_id": str(page.number)}}, document]
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    path = folder / f"{database(language)}-{date}-cirrussearch-content.json.gz"
    path.write_bytes(gzip.compress(data, mtime=0))
    return path


def write_parquet(folder: Path, language: str, pages: Sequence[MadePage]) -> Path:
    """A file in the folder of a language."""
    prefix = prefix_of(language)
    path = folder / f"20231101.{prefix}" / "train-00000-of-00001.parquet"
    path.parent.mkdir(exist_ok=True)
    url = f"https://{prefix}.wikipedia.org/wiki/x"
    rows = [(str(page.number), url, page.title, page.text) for page in pages]
    pl.DataFrame(rows, ["id", "url", "title", "text"], orient="row").write_parquet(path)
    return path


_TABLE = """-- MySQL dump 10.19

CREATE TABLE `wb_items_per_site` (
  `ips_row_id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `ips_item_id` int(10) unsigned NOT NULL,
  `ips_site_id` varbinary(32) NOT NULL,
  `ips_site_page` varbinary(310) NOT NULL,
  PRIMARY KEY (`ips_row_id`)
) ENGINE=InnoDB;
"""


def write_sitelinks(folder: Path, wikis: Wikis) -> Path:
    """Wikidata's table, in two statements."""
    rows = [
        (page.item, database(language), page.title)
        for language, pages in wikis.items()
        for page in pages
    ]
    values = []
    for number, (item, site, title) in enumerate(rows, start=1):
        escaped = title.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
        values.append(f"({number},{item},'{site}','{escaped}')")
    halves = (values[: len(values) // 2], values[len(values) // 2 :])
    statements = [
        f"INSERT INTO `wb_items_per_site` VALUES {','.join(half)};\n" for half in halves if half
    ]
    path = folder / "wikidatawiki-20260101-wb_items_per_site.sql.gz"
    path.write_bytes(
        gzip.compress(f"{_TABLE}{''.join(statements)}-- Dump completed\n".encode(), mtime=0)
    )
    return path
