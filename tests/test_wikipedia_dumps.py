"""Files of dumps: found by name, read page by page in every format, refused in one line."""

import bz2
import gzip
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.corpus.wikipedia import dump
from fairspan.corpus.wikipedia.downloads import dump_files, find_sitelinks
from fairspan.corpus.wikipedia.dump import read_pages, recognise
from fairspan.corpus.wikipedia.sitelinks import item_of
from fairspan.corpus.wikipedia.sitelinks import write_sitelinks as reduce_sitelinks
from fairspan.errors import CorpusError, MissingExtra
from tests.saying import said_by
from tests.wikipedia_builds import (
    MadePage,
    write_cirrus,
    write_parquet,
    write_sitelinks,
    write_xml,
    xml_parts,
)

PAGES = [MadePage(100 + number, f"Article {number}", 30, number) for number in range(25)]


def plain_xml(folder: Path, language: str, pages: list[MadePage], wiki: str | None = None) -> Path:
    path = folder / "a.xml"
    path.write_text("".join(xml_parts(language, pages, wiki)), "utf-8")
    return path


def cut_streams(folder: Path, language: str, pages: list[MadePage]) -> Path:
    """Streams that end inside pages, as parallel compressors cut them."""
    text = "".join(xml_parts(language, pages)).encode()
    path = folder / "a.xml.bz2"
    path.write_bytes(
        b"".join(bz2.compress(text[at : at + 1000]) for at in range(0, len(text), 1000))
    )
    return path


def bz2_cirrus(folder: Path, language: str, pages: list[MadePage]) -> Path:
    gz = write_cirrus(folder, language, pages)
    gz.with_suffix(".bz2").write_bytes(bz2.compress(gzip.decompress(gz.read_bytes())))
    return gz.with_suffix(".bz2")


Writer = Callable[[Path, str, list[MadePage]], Path]
WRITERS: list[Writer] = [write_xml, plain_xml, cut_streams, write_cirrus, bz2_cirrus, write_parquet]


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_pages(tmp_path: Path, write: Writer) -> None:
    others = [MadePage(7, "Template:A", 20, namespace=10)] if write is not write_parquet else []
    path = write(tmp_path, "en", [*PAGES, *others])
    pages = [page for page, _ in read_pages(path, "en")]
    expected = [(page.number, page.title, None, page.text) for page in PAGES]
    assert [(page.page_id, page.title, page.fault, page.clean()) for page in pages] == expected
    # A file that is cut off gives the pages before; Parquet's index is at its end, so that gives
    # none.
    broken = "damaged or cut off. Download it again"
    if write is write_parquet:
        broken = "not a Parquet file"
    whole = path.read_bytes()
    for share in (0.3, 0.6, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        given = []
        with pytest.raises(CorpusError, match=f"{path.name} is {broken}"):
            given.extend(page.page_id for page, _ in read_pages(path, "en"))
        assert given == [page.number for page in PAGES][: len(given)]


def test_what_xml_says_of_pages(tmp_path: Path) -> None:
    pages = [
        MadePage(1, "A", kind="redirect", wikitext="#REDIRECT [[Elsewhere]]"),
        MadePage(2, "B", 20, kind="disambiguation"),
        MadePage(
            3,
            "C <&> d",
            wikitext="[[Datei:x.jpg|A caption.]] Text & more. [[Kategorie:x|Not this.]]",
        ),
    ]
    found = [page for page, _ in read_pages(plain_xml(tmp_path, "de", pages), "de")]
    assert [page.fault for page in found] == ["redirect", "disambiguation", None]
    assert (found[2].title, found[2].revision, found[2].clean()) == ("C <&> d", 30, "Text & more.")


@pytest.mark.parametrize(
    "content", [b"", b"<html>Not found</html>", b'{"id": "a", "text": "b"}\n', b"7z\xbc\xaf"]
)
def test_what_is_no_dump(tmp_path: Path, content: bytes) -> None:
    packed = {"a": content, "a.gz": gzip.compress(content), "a.bz2": bz2.compress(content)}
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
        said = said_by(recognise, tmp_path / name, kind=CorpusError)
        assert said.startswith(
            f"{name} is not a dump that can be read. Formats: pages-articles XML"
        )


@pytest.mark.parametrize("line", ["not JSON", '{"title": "a", "text": "b", "page_id": "x"}'])
def test_a_line_that_is_no_document(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"index": {{"_id": "1"}}}}\n{line}\n', "utf-8")
    with pytest.raises(CorpusError, match="damaged"):
        list(read_pages(tmp_path / "a.json", "en"))


@pytest.mark.parametrize("write", [write_xml, write_cirrus, write_parquet])
def test_the_dump_of_another_language(tmp_path: Path, write: Writer) -> None:
    said = "is a dump of dewiki, and the Wikipedia of 'en' is enwiki"
    with pytest.raises(CorpusError, match=said):
        list(read_pages(write(tmp_path, "de", PAGES), "en"))


def test_wikis_with_two_names(tmp_path: Path) -> None:
    path = plain_xml(tmp_path, "be", PAGES, "be_taraskwiki")
    assert len(list(read_pages(path, "be-tarask"))) == 25


def test_a_missing_package_is_named_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtra, match=r"mwparserfromhell: pip install 'fairspan\[wikipedia\]'"
    ):
        recognise(write_xml(tmp_path, "en", PAGES))
    assert recognise(write_cirrus(tmp_path, "en", PAGES)) == "CirrusSearch"


def test_files_are_found_by_their_names(tmp_path: Path) -> None:
    """The newest, clean text before XML, whole before parts, and no index, table or unfinished
    download.
    """
    found = {
        "de": ["dewiki-20260101-cirrussearch-content.json.gz"],
        "en": [
            f"enwiki-20260101-pages-articles{number}.xml-p{number}p9.bz2" for number in (1, 10, 2)
        ],
        "fr": ["frwiki-20260101-pages-articles-multistream.xml.bz2"],
        "it": ["itwiki_content-20260101-00000.json.bz2", "itwiki_content-20260101-00001.json.bz2"],
        "hi": ["train-00000.parquet", "train-00001.parquet"],
        "ko": [],
    }
    others = [
        "dewiki-20260101-pages-articles.xml.bz2",
        "dewiki-20251201-cirrussearch-content.json.gz",
        "frwiki-20260101-pages-articles-multistream1.xml-p1p9.bz2",
        "frwiki-20260101-langlinks.sql.gz",
        "kowiki-20260101-pages-articles-multistream-index.txt.bz2",
        ".kowiki-20260101-pages-articles.xml.bz2.part",
    ]
    for name in [*others, *(name for one in found if one != "hi" for name in found[one])]:
        (tmp_path / name).touch()
    for folder in ("20231101.hi", "20220301.hi"):
        (tmp_path / folder).mkdir()
        for name in found["hi"]:
            (tmp_path / folder / name).touch()
    assert {one: [path.name for path in dump_files(tmp_path, one)] for one in found} == found
    assert find_sitelinks(tmp_path) is None
    links = write_sitelinks(tmp_path, {"en": PAGES})
    assert find_sitelinks(tmp_path) == links
    with pytest.raises(CorpusError, match="nowhere cannot be read: No such file or directory"):
        find_sitelinks(tmp_path / "nowhere")


def test_titles_that_look_like_rows(tmp_path: Path) -> None:
    """Quotes and backslashes come back, no text is taken for a row, and only items with both
    languages stay.
    """
    titles = ["d'Arc", 'a "b" \\', "(1,2,'dewiki','x')", "),(3,4,'enwiki','hidden'", "Ж_ß", "alone"]
    wikis = {
        one: [MadePage(n, title, item=n) for n, title in enumerate(titles, start=1)]
        for one in ("en", "de", "fr")
    }
    path = write_sitelinks(tmp_path, {**wikis, "de": wikis["de"][:5]})
    positions: list[int] = []
    reduce_sitelinks(
        path, ["en", "de"], tmp_path / "links", lambda position, found: positions.append(position)
    )
    links = sqlite3.connect(tmp_path / "links")
    assert [item_of(links, "en", title) for title in titles] == [1, 2, 3, 4, 5, None]
    for language, title in (("fr", "d'Arc"), ("en", "hidden"), ("de", "x")):
        assert item_of(links, language, title) is None
    assert positions[-1] == path.stat().st_size


MEASURED = """
import resource, sys
from pathlib import Path
from fairspan.corpus.wikipedia.dump import read_pages
list(zip(range(3), read_pages(Path(sys.argv[1]), "en")))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for page, _ in read_pages(Path(sys.argv[1]), "en"):
    page.page_id % 100 or page.clean()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_xml, write_cirrus])
def test_memory_does_not_grow_with_the_dump(tmp_path: Path, write: Writer) -> None:
    """60 MB of text; a reader that does not stream would hold more than half of it."""
    path = write(
        tmp_path, "en", [MadePage(number, f"Article {number}", 3000) for number in range(2000)]
    )
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path], check=True, stdout=subprocess.PIPE, text=True
    )
    assert int(done.stdout) // (1024 if sys.platform == "darwin" else 1) < 30 * 1024
