"""Downloaded files are found by the names they are published under."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairspan.corpus.wikipedia.dump_files import find_alignment, find_dump
from fairspan.errors import CorpusError

NAMES = [
    "dewiki-20251201-pages-articles-multistream.xml.bz2",
    "dewiki-20260101-pages-articles-multistream.xml.bz2",
    "dewiki-20260101-pages-articles-multistream-index.txt.bz2",
    "dewiki-20260101-cirrussearch-content.json.gz",
    "enwiki-20260101-pages-articles1.xml-p1p41242.bz2",
    "enwiki-20260101-pages-articles2.xml-p41243p151573.bz2",
    "frwiki-20260101-pages-articles.xml.bz2",
    "frwiki-20260101-pages-articles1.xml-p1p306134.bz2",
    "zh_yuewiki-NS0-20260101-ENTERPRISE-HTML.json.tar.gz",
    "itwiki_content-20260101-00000.json.bz2",
    "itwiki_content-20260101-00001.json.bz2",
    "simplewiki-20260101-pages-articles.xml",
    "enwiki-20260101-langlinks.sql.gz",
    "wikidatawiki-20260101-pages-articles-multistream.xml.bz2",
    ".kowiki-20260101-pages-articles.xml.bz2.part",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).touch()
    for name in ("20231101.hi", "20220301.hi", "20231101.zh-yue"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("language", "found"),
    [
        ("de", ["dewiki-20260101-pages-articles-multistream.xml.bz2"]),
        ("en", NAMES[4:6]),
        ("fr", ["frwiki-20260101-pages-articles.xml.bz2"]),
        ("yue", ["zh_yuewiki-NS0-20260101-ENTERPRISE-HTML.json.tar.gz"]),
        ("it", ["itwiki_content-20260101-00000.json.bz2", "itwiki_content-20260101-00001.json.bz2"]),
        ("simple", ["simplewiki-20260101-pages-articles.xml"]),
        ("hi", ["20231101.hi"]),
        ("ko", []),
        ("e", []),
    ],
)
def test_dumps(folder: Path, language: str, found: list[str]) -> None:
    """The newest, whole rather than in parts, and never an index, a table or an unfinished download."""
    assert [path.name for path in find_dump(folder, language)] == found


def test_links(folder: Path) -> None:
    """Wikidata's before those of a wiki, and those of a wiki only if its language is wanted."""
    assert find_alignment(folder, ["de"]).kind == "items"
    pivot = find_alignment(folder, ["de", "en"])
    assert (pivot.kind, pivot.pivot) == ("langlinks", "en")
    (folder / "latest-all.json.bz2").touch()
    assert find_alignment(folder, ["de", "en"]).is_json
    (folder / "wikidatawiki-latest-wb_items_per_site.sql.gz").touch()
    found = find_alignment(folder, ["de", "en"])
    assert found.path == folder / "wikidatawiki-latest-wb_items_per_site.sql.gz"
    assert not found.is_json


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere cannot be read: No such file or directory"):
        find_dump(tmp_path / "nowhere", "en")
