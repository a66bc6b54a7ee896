"""`fairspan corpus build` through the command's own entry: results, continuing, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.wikipedia import state
from tests.commands import Run
from tests.tiny import tiny_tokenizer
from tests.wikipedia_builds import (
    topics,
    write_cirrus,
    write_entities,
    write_langlinks,
    write_sitelinks,
    write_table,
    write_xml,
)

WORDS = {1: 150, 2: 120, 3: 180, 4: 90, 5: 210}
Typed = list[str | Path]


@pytest.fixture
def usual(tmp_path: Path) -> Typed:
    """Dumps of two languages under their usual names in `dumps`, and a model whose tokens are words."""
    (tmp_path / "dumps").mkdir()
    wikis = topics(["en", "de"], WORDS)
    write_xml(tmp_path / "dumps", "en", wikis["en"])
    write_cirrus(tmp_path / "dumps", "de", wikis["de"])
    write_sitelinks(tmp_path / "dumps", wikis)
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    limits: Typed = ["--min-tokens", "100", "--max-tokens", "200"]
    return ["corpus", "build", "out", "--languages", "en,de", "--dumps", "dumps", "--model", "model", *limits]


def without(typed: Typed, *options: str) -> Typed:
    """The command without these options and their values."""
    gone = {place + more for option in options for place in [typed.index(option)] for more in (0, 1)}
    return [word for place, word in enumerate(typed) if place not in gone]


def test_a_folder_of_downloads_becomes_a_corpus(run: Run, usual: Typed, tmp_path: Path) -> None:
    done = run(*usual)
    assert done.code == 0, done.err
    assert "out: 3 articles in each of en, de." in done.out
    assert "CC BY-SA" in done.out
    assert "too short" in done.out
    assert Corpus.read(tmp_path / "out").ids() == ("Q1", "Q2", "Q3")
    again = run(*usual, "--json")
    assert "out is complete: nothing was left to build." in again.err
    made = json.loads(again.out)
    assert made["articles"] == 3
    assert made["asked"]["model"]["name"] == "model"
    said = json.loads(run("corpus", "check", "out", "--model", "model", "--sizes", "2,3", "--json").out)
    assert [one["sets"] for one in said["plans"]] == [{"2": 1, "3": 1}] * 3
    assert said["plans"][2]["languages"] == ["de", "en"]
    assert said["configs"][0]["missing"] == ["zh", "it", "ko", "hi"]


def test_files_may_be_named_one_by_one(run: Run, usual: Typed, tmp_path: Path) -> None:
    dumps = Path("dumps")
    named: Typed = ["--dump", f"en={dumps}/enwiki-20260101-pages-articles-multistream.xml.bz2"]
    named += ["--dump", f"de={dumps}/dewiki-20260101-cirrussearch-content.json.gz"]
    pivot = write_langlinks(tmp_path / "dumps", "en", topics(["en", "de"], WORDS))
    done = run(*without(usual, "--dumps"), *named, "--langlinks", f"en={pivot}", "--limit", "2", "--json")
    assert done.code == 0, done.err
    assert {*Corpus.read(tmp_path / "out").ids()} < {"101", "102", "103"}
    assert json.loads(done.out)["asked"]["alignment"]["pivot"] == "en"


def cut(folder: Path) -> None:
    dump = folder / "dumps" / "dewiki-20260101-cirrussearch-content.json.gz"
    dump.write_bytes(dump.read_bytes()[:-60])


def test_a_dump_that_is_cut_off_can_be_replaced(run: Run, usual: Typed, tmp_path: Path) -> None:
    """The same command then goes on, and the corpus is that of a build that was never interrupted."""
    reference = run(*usual[:2], "reference", *usual[3:])
    assert reference.code == 0
    dump = tmp_path / "dumps" / "dewiki-20260101-cirrussearch-content.json.gz"
    whole = dump.read_bytes()
    cut(tmp_path)
    done = run(*usual)
    done.is_one_line("dewiki-20260101-cirrussearch-content.json.gz is damaged or cut off")
    assert not (tmp_path / "out" / "en.jsonl").exists()
    dump.write_bytes(whole)
    assert run(*usual).code == 0
    made, expected = (
        {file.name: file.read_bytes() for file in (tmp_path / one).iterdir()} for one in ("out", "reference")
    )
    assert made == expected


def test_work_that_another_command_began_is_not_touched(run: Run, usual: Typed, tmp_path: Path) -> None:
    cut(tmp_path)
    assert run(*usual).code == 2
    before = (tmp_path / "out" / ".work" / "state.sqlite").read_bytes()
    run(*without(usual, "--min-tokens"), "--min-tokens", "50").is_one_line(
        "out was begun with another --min-tokens (100 there, 50 now): repeat that command, choose another folder, or "
        "begin again with --fresh."
    )
    assert (tmp_path / "out" / ".work" / "state.sqlite").read_bytes() == before


def test_a_command_that_failed_before_it_read_anything_can_be_corrected(run: Run, usual: Typed) -> None:
    run(*usual, "--sitelinks", "model/tokenizer.json").is_one_line("tokenizer.json is cut off")
    assert run(*usual).code == 0


def test_a_full_disk_loses_nothing(run: Run, usual: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as full:
        full.setattr(state, "_TABLES", state._TABLES + "PRAGMA max_page_count = 7;")
        run(*usual).is_one_line("the disk that holds out is full: what was done is kept. Make room")
    assert run(*usual).code == 0
    assert Corpus.read(tmp_path / "out").ids() == ("Q1", "Q2", "Q3")


def no_links(folder: Path) -> None:
    write_sitelinks(folder / "dumps", {"en": topics(["en"], WORDS)["en"]})


def no_common_items(folder: Path) -> None:
    wikis = topics(["en", "de"], WORDS)
    write_sitelinks(folder / "dumps", {"en": wikis["en"][:3], "de": wikis["de"][3:]})


def cut_links(folder: Path) -> None:
    file = folder / "dumps" / "wikidatawiki-20260101-wb_items_per_site.sql.gz"
    file.write_bytes(file.read_bytes()[:-20])


def other_links(folder: Path) -> None:
    write_table(folder / "dumps" / "wikidatawiki-20260101-wb_items_per_site.sql.gz", "page", "", ["(1)", "(2)"])


def only_items(folder: Path) -> None:
    (folder / "dumps" / "wikidatawiki-20260101-wb_items_per_site.sql.gz").unlink()


def no_entities(folder: Path) -> None:
    only_items(folder)
    wikis = topics(["en", "de"], WORDS)
    write_entities(folder / "dumps", {"en": wikis["en"][:3], "de": wikis["de"][3:]})


def no_german_dump(folder: Path) -> None:
    (folder / "dumps" / "dewiki-20260101-cirrussearch-content.json.gz").unlink()


def a_file(folder: Path) -> None:
    (folder / "out").write_text("mine", encoding="utf-8")


def other_files(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "notes.txt").write_text("mine", encoding="utf-8")


def no_tokenizer(folder: Path) -> None:
    for file in (folder / "model").iterdir():
        file.unlink()


def broken_tokenizer(folder: Path) -> None:
    (folder / "model" / "tokenizer.json").write_text("{}", encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_links, "has no links to dewiki, the Wikipedia of 'de': check the language code"),
        (no_common_items, "has a page in all of en, de: 'de' has the fewest links, 2."),
        (no_entities, "no item of latest-all.json.bz2 has a page in all of en, de."),
        (cut_links, "wikidatawiki-20260101-wb_items_per_site.sql.gz is cut off: download it again"),
        (other_links, "is no dump of the table wb_items_per_site"),
        (only_items, "the dump of 'en' (pages-articles XML) does not name Wikidata items: give --sitelinks or"),
        (no_german_dump, "there is no dump of 'de': name it with --dump de=…, or put it into the folder of --dumps"),
        (a_file, "out is a file, and a corpus is a folder: choose another name."),
        (other_files, "out holds other files, such as notes.txt: choose a new folder."),
        (no_tokenizer, "the tokenizer of model could not be loaded"),
        (broken_tokenizer, "the tokenizer of model could not be loaded"),
    ],
)
def test_files_that_cannot_make_a_corpus(
    run: Run, usual: Typed, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    change(tmp_path)
    before = [path for path in tmp_path.rglob("*") if ".work" not in path.parts]
    run(*usual).is_one_line(said)
    there = [path for path in tmp_path.rglob("*") if ".work" not in path.parts]
    assert [path for path in there if path not in (*before, tmp_path / "out")] == []
    assert {*before} <= {*there}


@pytest.mark.parametrize(
    ("left_out", "typed", "said"),
    [
        (["--languages"], [], "name the languages of the corpus, for example --languages en,de."),
        (["--model"], [], "name the model that counts them with --model."),
        (["--languages"], ["--languages", "en,EN US"], "'EN US' is no language code of a Wikipedia"),
        (["--languages"], ["--languages", "en,fr"], "there is no dump of 'fr'"),
        ([], ["--dump", "fr=x"], "--dump fr=… names a language that is not among --languages en,de."),
        (
            [],
            ["--dump", "somewhere.xml"],
            "--dump takes a language and a file, such as en=FILE",
        ),
        ([], ["--dump", "de=nowhere.xml"], "nowhere.xml"),
        ([], ["--dump", "de=dumps/enwiki-20260101-pages-articles-multistream.xml.bz2"], "is a dump of enwiki"),
        ([], ["--sitelinks", "nowhere.sql.gz"], "nowhere.sql.gz cannot be read: No such file or directory."),
        ([], ["--sitelinks", "a", "--langlinks", "en=b"], "--sitelinks and --langlinks both align the languages"),
        (["--min-tokens"], ["--min-tokens", "300"], "--min-tokens 300 is more than --max-tokens 200"),
        (["--min-tokens"], ["--min-tokens", "199"], "(1 too long, 4 too short; lengths seen: 90 to 210 tokens)"),
        ([], ["--length-ratio", "0.7"], "name it, for example --length-language en."),
        ([], ["--length-language", "en", "--length-ratio", "inf"], "--length-ratio must be above 0, such as 0.7"),
        ([], ["--length-language", "fr"], "--length-language fr is not among the languages en, de."),
        ([], ["--limit", "0"], "--limit must be a whole number of at least 1, got 0."),
        (["--dumps"], ["--dumps", "nowhere"], "the folder nowhere cannot be read: No such file or directory."),
    ],
)
def test_commands_that_cannot_be(run: Run, usual: Typed, left_out: list[str], typed: Typed, said: str) -> None:
    run(*without(usual, *left_out), *typed).is_one_line(said)
