"""`fairspan corpus build` through the command's own entry: results, continuing, and mistakes in one
line."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest

from fairspan.corpus.corpus import Corpus
from tests.commands import Run
from tests.tiny import tiny_tokenizer
from tests.wikipedia_builds import topics, write_cirrus, write_sitelinks, write_xml

WORDS = {1: 150, 2: 120, 3: 180, 4: 90, 5: 210}
LINKS = "wikidatawiki-20260101-wb_items_per_site.sql.gz"
ENGLISH = "enwiki-20260101-pages-articles-multistream.xml.bz2"
GERMAN = "dewiki-20260101-cirrussearch-content.json.gz"
Typed = list[str]


@pytest.fixture
def usual(tmp_path: Path) -> Typed:
    """Dumps of two languages under their usual names in `dumps`, and a model whose tokens are
    words."""
    (tmp_path / "dumps").mkdir()
    wikis = topics(["en", "de"], WORDS)
    write_xml(tmp_path / "dumps", "en", wikis["en"])
    write_cirrus(tmp_path / "dumps", "de", wikis["de"])
    write_sitelinks(tmp_path / "dumps", wikis)
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    options = "--languages en,de --model model --min-tokens 100 --max-tokens 200 --dumps dumps"
    return ["corpus", "build", "out", *options.split()]


def test_a_folder_of_downloads_becomes_a_corpus(run: Run, usual: Typed, tmp_path: Path) -> None:
    done = run(*usual).ok
    assert "out: 3 articles in each of en, de, of 3 found." in done.out
    assert "CC BY-SA" in done.out
    assert "too short" in done.out
    assert Corpus.read(tmp_path / "out").ids() == ("Q1", "Q2", "Q3")
    again = run(*usual, "--json")
    made = json.loads(again.out)
    assert made["articles"] == 3
    assert made["asked"]["model"]["name"] == "model"
    said = json.loads(
        run("corpus", "check", "out", "--model", "model", "--sizes", "2,3", "--json").out
    )
    assert (said["aligned"], said["sets"]) == (3, {"2": 1, "3": 1})


def test_files_may_be_named_one_by_one(run: Run, usual: Typed, tmp_path: Path) -> None:
    (tmp_path / "dumps" / LINKS).rename(tmp_path / "links")
    named = f"--dump en=dumps/{ENGLISH} --dump de=dumps --sitelinks links --limit 2 --json"
    done = run(*usual[:-2], *named.split()).ok
    assert {*Corpus.read(tmp_path / "out").ids()} < {"Q1", "Q2", "Q3"}
    assert json.loads(done.out)["asked"]["sitelinks"] == "links"


def test_a_disk_that_is_full(run: Run, usual: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        run(*usual).is_one_line(
            "out cannot be written (No space left on device). What was done is kept."
        )
    assert run(*usual).code == 0


CUT = "is damaged or cut off. Download it"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (
            f"dumps/{LINKS}",
            gzip.compress(b"INSERT INTO `page` VALUES (1),(2);\n", mtime=0),
            "has a page in all of enwiki, dewiki",
        ),
        (
            f"dumps/{LINKS}",
            gzip.compress(b"INSERT INTO `a` VALUES", mtime=0)[:-9],
            f"{LINKS} {CUT}",
        ),
        (f"dumps/{LINKS}", b"INSERT INTO `wb_items_per_site` VALUES (1,", f"{LINKS} {CUT}"),
        (f"dumps/{GERMAN}", gzip.compress(b"{}", mtime=0)[:-9], f"{GERMAN} {CUT}"),
        (
            f"dumps/{LINKS}",
            None,
            "(pages-articles XML) does not name Wikidata items: give sitelinks.",
        ),
        (f"dumps/{GERMAN}", None, "there is no dump of 'de': give dump=de=… or a folder with it."),
        ("out", b"mine", "out is not the folder of a built corpus"),
        ("out/notes.txt", b"mine", "holds other files, such as notes.txt: choose a new folder."),
        ("out/corpus.json", b"{}", "out is not the folder of a built corpus"),
        ("model/tokenizer.json", b"{}", "the tokenizer of model could not be loaded"),
    ],
)
def test_files_that_cannot_make_a_corpus(
    run: Run, usual: Typed, tmp_path: Path, file: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / file
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    run(*usual).is_one_line(said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--languages 'en,EN US'", "there is no dump of 'EN US'"),
        ("--dump fr=x", "dump: 'fr' is not among en, de."),
        ("--dump somewhere.xml", "dump: 'somewhere.xml' is not among en, de."),
        ("--dump de=nowhere.xml", "nowhere.xml cannot be read: No such file or directory."),
        (f"--dump de=dumps/{ENGLISH}", "is a dump of enwiki"),
        ("--sitelinks nowhere.gz", "nowhere.gz cannot be read: No such file or directory."),
        ("--min-tokens 300", "max_tokens must be a whole number of at least 300, got 200."),
        ("--min-tokens 199", "is left (5 pages, 1 too long, 4 too short): widen min_tokens"),
        ("--length-ratio 0.7", "length_ratio=0.7 must be above 0, and needs length_language."),
        ("--length-language en --length-ratio inf", "length_ratio=inf must be above 0"),
        ("--length-language fr", "length_language: 'fr' is not among en, de."),
        ("--limit 0", "limit must be a whole number of at least 1, got 0."),
        ("--dumps nowhere", "the folder nowhere cannot be read: No such file or directory."),
    ],
)
def test_commands_that_cannot_be(run: Run, usual: Typed, typed: str, said: str) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *shlex.split(typed)).is_one_line(said)
