"""Rows of SQL dumps, and links between languages in each form."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.corpus.wikipedia.link_file import LinkFile
from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.site import prefix_of
from fairspan.corpus.wikipedia.sitelinks import Alignment, Link
from fairspan.corpus.wikipedia.sql import rows
from fairspan.errors import CorpusError
from tests.wikipedia_builds import topics, write_entities, write_langlinks, write_sitelinks

HEAD = b"CREATE TABLE `t` (\n  `a` int(10),\n  `b` varbinary(20) DEFAULT '(',\n  `c` blob,\n  KEY `b` (`b`)\n);\n"
# As mysqldump writes a string of bytes.
ESCAPES = {0: b"\\0", 10: b"\\n", 13: b"\\r", 26: b"\\Z", 34: b'\\"', 39: b"\\'", 92: b"\\\\"}


def quoted(value: bytes) -> bytes:
    return b"'" + b"".join(ESCAPES.get(byte, bytes([byte])) for byte in value) + b"'"


def read(path: Path, *columns: str, only: tuple[str, list[str]] | None = None) -> list[tuple[bytes | None, ...]]:
    with LinkFile(path) as file:
        return [row for batch in rows(file, "t", columns, only) for row in batch]


def written(path: Path, *statements: bytes) -> Path:
    data = HEAD + b"".join(b"INSERT INTO `t` VALUES " + one + b";\n" for one in statements) + b"-- Dump completed\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_values_of_every_kind(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.sql.gz",
        rb"(1,'x',NULL),(-2,'a\'b\\\"c','),(9,\'x\',NULL'),(3,_binary 'd''e',0x00FF)",
        rb"(4,'',1.5e3)",
    )
    assert read(path, "a", "b", "c") == [
        (b"1", b"x", None),
        (b"-2", b"a'b\\\"c", b"),(9,'x',NULL"),
        (b"3", b"d'e", b"\x00\xff"),
        (b"4", b"", b"1.5e3"),
    ]
    assert read(path, "c", "a")[:1] == [(None, b"1")]
    assert read(path, "a", only=("b", ["x", "d"])) == [(b"1",)]


@given(
    st.lists(
        st.tuples(st.integers(0, 2**63), st.sampled_from([b"x", b"y(", b"z'"]), st.binary(max_size=40)),
        min_size=1,
        max_size=8,
    )
)
def test_any_bytes_come_back(tmp_path: Path, values: list[tuple[int, bytes, bytes]]) -> None:
    statement = b",".join(b"(%d,%s,%s)" % (a, quoted(b), quoted(c)) for a, b, c in values)
    path = written(tmp_path / "t.sql", statement)
    expected = [(str(a).encode(), b, c) for a, b, c in values]
    assert read(path, "a", "b", "c") == expected
    assert read(path, "a", "b", "c", only=("b", ["x"])) == [row for row in expected if row[1] == b"x"]


def test_rows_that_look_like_others(tmp_path: Path) -> None:
    """Texts that hold whole rows, at their ends too, are never rows."""
    nasty = [b"(1,'x','hidden'),", b"),(2,'x','hidden'", b"(3,", b",(4,'x", b"\\", b"'", b"(5,\\'x\\',\\'hidden\\')"]
    statement = b",".join(b"(%d,%s,%s)" % (n, quoted(text), quoted(text)) for n, text in enumerate(nasty, start=10))
    path = written(tmp_path / "t.sql", statement + b",(20,'x','seen')")
    assert read(path, "a", "c", only=("b", ["x"])) == [(b"20", b"seen")]
    assert [row[0] for row in read(path, "a")] == [b"10", b"11", b"12", b"13", b"14", b"15", b"16", b"20"]


def test_statements_over_many_lines_and_tables(tmp_path: Path) -> None:
    """As newer MariaDBs write them: a line per row, columns named; then another table with as many columns."""
    path = tmp_path / "t.sql"
    path.write_bytes(
        HEAD + b"INSERT INTO `t` (`a`, `b`, `c`) VALUES\n(1,'x','1'),\n(2,'x','2');\n"
        b"CREATE TABLE `u` (\n  `a` int\n);\nINSERT INTO `u` VALUES (3,'x','3');\n"
    )
    assert read(path, "a", "c") == [(b"1", b"1"), (b"2", b"2")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no dump of the table t"),
        (b"hello\n", "t.sql is no dump of the table t: it has no such rows"),
        (b"INSERT INTO `t` VALUES (1,'x',2);\n", "does not define the table t"),
        (
            HEAD.replace(b"`c`", b"`d`") + b"INSERT INTO `t` VALUES (1,'x',2);\n",
            "has no column c. Columns there: a, b, d",
        ),
        (HEAD + b"INSERT INTO `t` VALUES (1,'x',2),(2,'x',", "t.sql is cut off"),
    ],
)
def test_what_is_no_dump_of_the_table(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "t.sql").write_bytes(data)
    with pytest.raises(CorpusError, match=said):
        read(tmp_path / "t.sql", "a", "c")


def test_a_compressed_table_that_is_cut_off(tmp_path: Path) -> None:
    path = written(
        tmp_path / "t.sql.gz", *[b"(%d,'x','%s')" % (n, os.urandom(20).hex().encode()) for n in range(400)]
    )
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CorpusError, match=r"t.sql.gz is cut off: download it again"):
        read(path, "a", "c")
    path.write_bytes(b"\x1f\x8bno gzip at all")
    with pytest.raises(CorpusError, match=r"t.sql.gz is damaged"):
        read(path, "a", "c")


def test_names_of_wikis() -> None:
    languages = ["en", "nb", "yue", "zh-yue", "be-tarask", "simple", "gsw"]
    assert [database(one) for one in languages] == [
        "enwiki", "nowiki", "zh_yuewiki", "zh_yuewiki", "be_x_oldwiki", "simplewiki", "alswiki",
    ]  # fmt: skip
    assert [prefix_of(one) for one in languages] == ["en", "no", "zh-yue", "zh-yue", "be-tarask", "simple", "als"]


def links(alignment: Alignment, languages: list[str]) -> set[Link]:
    assert alignment.path is not None
    with LinkFile(alignment.path) as file:
        return {link for batch in alignment.links(file, languages) for link in batch}


def test_every_form_gives_the_same_links(tmp_path: Path) -> None:
    """Among sites and languages that nobody asked for. The pivot's pages have the numbers 101 and 102."""
    wikis = topics(["en", "nb", "be-tarask", "it"], {1: 10, 2: 20})
    wanted = {
        (1, "en", "Topic 1 in en"),
        (2, "en", "Topic 2 in en"),
        (1, "nb", "Topic 1 in nb"),
        (2, "nb", "Topic 2 in nb"),
        (1, "be-tarask", "Topic 1 in be-tarask"),
        (2, "be-tarask", "Topic 2 in be-tarask"),
    }
    languages = ["en", "nb", "be-tarask"]
    assert links(Alignment("sitelinks", write_sitelinks(tmp_path, wikis)), languages) == wanted
    assert links(Alignment("sitelinks", write_entities(tmp_path, wikis)), languages) == wanted
    pivot = Alignment("langlinks", write_langlinks(tmp_path, "en", wikis), "en")
    assert links(pivot, languages) == {(100 + item, code, title) for item, code, title in wanted if code != "en"}


def test_entities_that_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "latest-all.json"
    for text in ('[\n{"id":"Q1","sitelinks":{"enwiki":{"site":"enwiki","ti', "[\n{}\n", "["):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CorpusError, match=r"latest-all.json is (damaged or )?cut off"):
            links(Alignment("sitelinks", path), ["en"])


# Reads links into a state, and prints the most memory that took, in MB, and the MB/s of the plain file.
_MEASURED = """
import re, sys, time
from pathlib import Path
from fairspan.corpus.wikipedia.sitelinks import Alignment
from fairspan.corpus.wikipedia.state import State
from fairspan.corpus.wikipedia.link_file import LinkFile
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
alignment = Alignment("sitelinks", Path(sys.argv[1]))
start = time.process_time()
with State(Path(sys.argv[2])) as state, LinkFile(alignment.path) as file:
    state.align(alignment.links(file, ["en", "de"]), ["en", "de"], None, [])
    found = state.fact("items")
took = time.process_time() - start
print(found, (peak() - before) // 1024, int(sys.argv[3]) / 1e6 / took)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's memory")
def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Three million links in 150 MB, of which 1.2 million are wanted: in memory they would take some 300 MB."""
    definition = HEAD.replace(b"`t`", b"`wb_items_per_site`")
    for old, new in (
        (b"`a`", b"`ips_row_id` int,\n  `ips_item_id`"),
        (b"`b` v", b"`ips_site_id` v"),
        (b"`c`", b"`ips_site_page`"),
    ):
        definition = definition.replace(old, new)
    sites = [b"enwiki", b"dewiki", b"frwiki", b"svwiki", b"cebwiki"]
    path, size = tmp_path / "links.sql.gz", 0
    with gzip.open(path, "wb", compresslevel=1) as file:
        size += file.write(definition)
        for start in range(0, 600_000, 4000):
            values = (
                b"(%d,%d,'%s','Title of the page %d in %s')" % (item, item * 7919 % 600_011, site, item, site)
                for item in range(start, start + 4000)
                for site in sites
            )
            size += file.write(b"INSERT INTO `wb_items_per_site` VALUES " + b",".join(values) + b";\n")
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(path), str(tmp_path / "out"), str(size)],
        capture_output=True,
        text=True,
        check=True,
    )
    found, megabytes, speed = done.stdout.split()
    print(f"{size / 1e6:.0f} MB of links at {float(speed):.0f} MB/s, {megabytes} MB of memory")
    assert int(found) == 600_000
    assert int(megabytes) < 100
