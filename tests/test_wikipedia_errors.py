"""Dumps that are damaged, of another wiki, or no dumps: one line, and the pages before are kept."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fairspan.corpus.wikipedia.dump import describe, parts, read_pages
from fairspan.errors import CorpusError, MissingExtra
from tests.test_wikipedia_dumps import PAGES, WRITERS, dump
from tests.wikipedia_dumps import (
    Source,
    export_head,
    export_page,
    write_cirrus,
    write_enterprise,
    write_parquet,
    write_xml,
)

__all__ = ["dump"]


def given_and_said(path: Path, language: str = "en") -> tuple[list[int], str]:
    """The pages that came before the error, and the error."""
    given: list[int] = []
    with pytest.raises(CorpusError) as caught:
        given.extend(page.page_id for page, _ in read_pages(path, language))
    assert "\n" not in str(caught.value)
    return given, str(caught.value)


def test_a_dump_that_is_cut_off_gives_the_pages_before(dump: Path) -> None:
    """Of every format, cut at many places; the footer of a Parquet file stands at its end, so that gives none."""
    whole = dump.read_bytes()
    everything = [page.page_id for page in PAGES]
    for share in (0.3, 0.6, 0.9, 0.99):
        dump.write_bytes(whole[: int(len(whole) * share)])
        given, said = given_and_said(dump)
        assert given == everything[: len(given)]
        assert said.startswith(f"{dump.name} ")
        assert "Download it again" in said
    if "multistream" in dump.name or dump.suffix in (".xml", ".ndjson", ".gz"):
        assert len(given) > 15, "all that can be decompressed is given"


def test_a_multistream_dump_that_ends_between_two_streams(tmp_path: Path) -> None:
    path = tmp_path / "a.xml.bz2"
    streams = [export_head("en"), export_page(PAGES[0]), export_page(PAGES[1])]
    path.write_bytes(b"".join(bz2.compress(one.encode()) for one in streams))
    given, said = given_and_said(path)
    assert given == [100, 101]
    assert said.startswith("a.xml.bz2 is damaged or cut off: it ends before </mediawiki>.")


def test_streams_that_end_inside_pages(tmp_path: Path) -> None:
    """As parallel compressors cut them."""
    text = (export_head("en") + "".join(map(export_page, PAGES)) + "</mediawiki>").encode()
    path = tmp_path / "a.xml.bz2"
    path.write_bytes(b"".join(bz2.compress(text[at : at + 1000]) for at in range(0, len(text), 1000)))
    given = [(page.page_id, place) for page, place in read_pages(path, "en")]
    assert [one for one, _ in given] == [page.page_id for page in PAGES]
    for number, (_, place) in enumerate(given):
        assert [(page.page_id, later) for page, later in read_pages(path, "en", after=place)] == given[number + 1 :]


def test_noise_in_the_middle(tmp_path: Path) -> None:
    path = WRITERS["enwiki-20261001-pages-articles-multistream.xml.bz2"](tmp_path / "a.xml.bz2")
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 50] = bytes(50)
    path.write_bytes(whole)
    assert "damaged or cut off" in given_and_said(path)[1]
    path = tmp_path / "b.ndjson"
    good = WRITERS["enwiki-20261001.ndjson"](path).read_bytes().splitlines(keepends=True)
    path.write_bytes(good[0] + b"not JSON\n" + good[1])
    assert given_and_said(path) == ([100], "b.ndjson, line 2: not JSON. Download the dump again.")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xml.bz2", b""),
        ("a.xml", b"<html><body>Not found</body></html>"),
        ("a.txt", b"Some text.\n"),
        ("a.json", b'{"id": "a", "text": "b"}\n'),
        ("a.json.gz", gzip.compress(b'{"id": "a", "text": "b"}\n', mtime=0)),
        ("a.sql.gz", gzip.compress(b"INSERT INTO langlinks VALUES (1,'de','A');\n", mtime=0)),
        ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(100)),
    ],
)
def test_what_is_no_dump(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    given, said = given_and_said(tmp_path / name)
    assert given == []
    assert said.startswith(f"{name} is not a dump that can be read. Formats: pages-articles XML")
    with pytest.raises(CorpusError, match="is not a dump that can be read"):
        describe(tmp_path / name, "en")


def test_a_table_without_the_columns(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1"], "body": ["x"]}).write_parquet(tmp_path / "a.parquet")
    said = given_and_said(tmp_path / "a.parquet")[1]
    assert said == "a.parquet has no column url, title, text; wikimedia/wikipedia has id, url, title, text."


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert given_and_said(tmp_path / "no.xml.bz2")[1] == f"there is no file {tmp_path / 'no.xml.bz2'}."
    assert given_and_said(tmp_path)[1].startswith(f"{tmp_path} holds no dump. Dumps that are read:")


def test_the_dump_of_another_language_or_project(tmp_path: Path) -> None:
    one = [PAGES[0]]
    plain = [Source("A", "Some text.", 1)]
    said = (
        "is a dump of dewiki, and the Wikipedia of 'en' is enwiki. Give each language the dump of its own Wikipedia."
    )
    for path in (
        write_xml(tmp_path / "a.xml.bz2", "de", one),
        write_enterprise(tmp_path / "a.ndjson", "de", one),
        write_cirrus(tmp_path / "a.json.gz", "de", one),
        write_parquet(tmp_path / "a.parquet", "de", plain),
    ):
        assert given_and_said(path) == ([], f"{path.name} {said}")
    path = write_xml(tmp_path / "b.xml", "en", one, wiki="enwiktionary")
    assert "is a dump of enwiktionary, and the Wikipedia of 'en' is enwiki" in given_and_said(path)[1]


@pytest.mark.parametrize(
    ("language", "wiki"),
    [
        ("simple", "simplewiki"),
        ("zh_yue", "zh_yuewiki"),
        ("zh-yue", "zh_yuewiki"),
        ("yue", "zh_yuewiki"),
        ("be-tarask", "be_x_oldwiki"),
        ("be-tarask", "be_taraskwiki"),
        ("nb", "nowiki"),
        ("no", "nowiki"),
    ],
)
def test_codes_that_differ_from_the_database(tmp_path: Path, language: str, wiki: str) -> None:
    path = write_xml(tmp_path / "a.xml", language, PAGES[:2], wiki=wiki)
    assert len(list(read_pages(path, language))) == 2


def test_a_missing_package_is_named_before_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for module in ("wikitext", "html"):
        monkeypatch.setattr(f"fairspan.corpus.wikipedia.{module}.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"mwparserfromhell: pip install 'fairspan\[wikipedia\]'"):
        next(read_pages(write_xml(tmp_path / "a.xml", "en", PAGES), "en"))
    with pytest.raises(MissingExtra, match=r"selectolax: pip install 'fairspan\[wikipedia\]'"):
        next(read_pages(write_enterprise(tmp_path / "a.ndjson", "en", PAGES), "en"))
    plain = write_parquet(tmp_path / "a.parquet", "en", PAGES)
    assert next(read_pages(plain, "en"))[0].page_id == 100


def test_parts_are_read_in_natural_order(tmp_path: Path) -> None:
    """Beside dumps lie indexes, sums, and dumps of other wikis."""
    names = [f"enwiki-20261001-pages-articles{number}.xml-p{number}p{number}.bz2" for number in (10, 2, 1)]
    for name, page in zip(names, PAGES[2::-1], strict=True):
        write_xml(tmp_path / name, "en", [page])
    write_xml(tmp_path / "dewiki-20261001-pages-articles1.xml-p1p1.bz2", "de", PAGES)
    for name in ("pages-articles-multistream-index.txt.bz2", "langlinks.sql.gz", "sha1sums.txt"):
        (tmp_path / f"enwiki-20261001-{name}").write_bytes(b"x")
    assert [file.name for file in parts(tmp_path, "en")] == names[::-1]
    given = [(page.page_id, place) for page, place in read_pages(tmp_path, "en")]
    assert [one for one, _ in given] == [100, 101, 102]
    assert [(page.page_id, place) for page, place in read_pages(tmp_path, "en", after=given[0][1])] == given[1:]
    assert list(read_pages([tmp_path / name for name in names], "en", after=given[2][1])) == []
    write_xml(tmp_path / "enwiki-20261001-pages-articles-multistream1.xml-p1p1.bz2", "en", PAGES)
    with pytest.raises(CorpusError, match="holds the same dump twice"):
        parts(tmp_path, "en")


@pytest.mark.parametrize(
    ("name", "date", "licence"),
    [
        ("enwiki-20261001-pages-articles.xml", "20261001", "CC BY-SA 4.0 and GFDL"),
        ("enwiki-20230520-pages-articles.xml", "20230520", "CC BY-SA 3.0 and GFDL"),
        ("enwiki-latest-pages-articles.xml", None, "CC BY-SA 4.0 and GFDL"),
    ],
)
def test_what_is_known_of_a_dump(tmp_path: Path, name: str, date: str | None, licence: str) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    info = describe(write_xml(tmp_path / "d" / "e" / name, "en", PAGES), "en")
    assert (info.format, info.date, info.licence) == ("pages-articles XML", date, licence)


def test_the_licence_that_a_dump_states(tmp_path: Path) -> None:
    info = describe(write_enterprise(tmp_path / "enwiki-NS0-20240101-ENTERPRISE-HTML.json.tar.gz", "en", PAGES), "en")
    assert info.licence == "Creative Commons Attribution-ShareAlike License 4.0"
    assert info.date == "20240101"


READ = """
import resource, sys
from pathlib import Path
from fairspan.corpus.wikipedia.dump import read_pages
list(zip(range(3), read_pages(Path(sys.argv[1]), "en")))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for page, _ in read_pages(Path(sys.argv[1]), "en"):
    page.page_id % 20 or page.clean()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.xml", "a.xml.bz2", "m.xml.bz2", "a.tar.gz", "a.json.gz", "a.parquet"])
def test_memory_does_not_grow_with_the_dump(tmp_path: Path, name: str) -> None:
    """60 MB of text; more than half of it would have to be held by a reader that does not stream."""
    text = " ".join(f"Sentence {number} of the article." for number in range(1000))
    pages = [Source(f"A {number}", text, number, html=f"<p>{text}</p>") for number in range(2000)]
    path = tmp_path / name
    if name.endswith((".xml", ".xml.bz2")):
        write_xml(path, "en", pages, per_stream=100 if name[0] == "m" else 0)
    elif name.endswith(".parquet"):
        write_parquet(path, "en", pages)
    else:
        (write_enterprise if "tar" in name else write_cirrus)(path, "en", pages)
    done = subprocess.run([sys.executable, "-c", READ, path], check=True, stdout=subprocess.PIPE, text=True)
    kibibytes = int(done.stdout) // (1024 if sys.platform == "darwin" else 1)
    assert kibibytes < 30 * 1024
