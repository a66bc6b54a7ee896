"""Pages of dumps in every format; and where reading goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.corpus.wikipedia.dump import Place, describe, read_pages
from tests.wikipedia_dumps import Source, write_cirrus, write_enterprise, write_parquet, write_xml

PAGES = [
    Source(
        title=f"Article {number}",
        text=f"Article {number} has a '''first''' sentence.\n\nAnd [[other|another]] one.",
        html=f"<body><p>Article {number} has a <b>first</b> sentence.</p>"
        "<p>And <a href='./Other'>another</a> one.</p></body>",
        page_id=number + 100,
        item=f"Q{number}",
    )
    for number in range(25)
]
PLAIN = [
    Source(page.title, f"{page.title} has a first sentence.\n\nAnd another one.", page.page_id) for page in PAGES
]
FLAT = [f"{page.title} has a first sentence. And another one." for page in PAGES]
WRITERS: dict[str, Callable[[Path], Path]] = {
    "enwiki-20261001-pages-articles.xml": lambda path: write_xml(path, "en", PAGES),
    "enwiki-20261001-pages-articles.xml.bz2": lambda path: write_xml(path, "en", PAGES),
    "enwiki-20261001-pages-articles-multistream.xml.bz2": lambda path: write_xml(path, "en", PAGES, per_stream=4),
    "enwiki-NS0-20261001-ENTERPRISE-HTML.json.tar.gz": lambda path: write_enterprise(path, "en", PAGES, files=3),
    "enwiki-20261001.ndjson": lambda path: write_enterprise(path, "en", PAGES),
    "enwiki-20261001.ndjson.gz": lambda path: write_enterprise(path, "en", PAGES),
    "enwiki-20261001-cirrussearch-content.json.gz": lambda path: write_cirrus(path, "en", PAGES),
    "enwiki_content-20261001-00000.json.bz2": lambda path: write_cirrus(path, "en", PAGES, FLAT),
    "train-00000-of-00001.parquet": lambda path: write_parquet(path, "en", PLAIN, row_group=7),
}


@pytest.fixture(params=WRITERS)
def dump(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "20261001.en"
    folder.mkdir()
    return WRITERS[request.param](folder / request.param)


def test_every_format_gives_the_same_pages(dump: Path) -> None:
    pages = [page for page, _ in read_pages(dump, "en")]
    assert [(page.page_id, page.title, page.kind) for page in pages] == [
        (page.page_id, page.title, "article") for page in PAGES
    ]
    assert [page.clean() for page in pages] == [page.text for page in PLAIN]
    assert describe(dump, "en").date == "20261001"


def test_reading_goes_on_behind_every_page(dump: Path) -> None:
    given = [(page.page_id, place) for page, place in read_pages(dump, "en")]
    for number, (_, place) in enumerate(given):
        same = Place(*json.loads(json.dumps(place)))
        rest = [(page.page_id, later) for page, later in read_pages(dump, "en", after=same)]
        assert rest == given[number + 1 :]
