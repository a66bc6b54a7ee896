"""What is wrong with a file is told in one line, with the file and the line."""

import gzip
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fairspan.corpus import files, source
from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError
from fairspan.runs.progress import Silent
from fairspan.studies.tune.options import TuneOptions
from tests.builders.saying import said_by
from tests.builders.verbs import TUNE, VERBS, Verb, write_articles
from tests.corpus.test_corpus import TEXTS, write, write_folder

GOOD = b'{"id": "a", "text": "One text."}\n'


def said(place: Path, languages: list[str] | None = None) -> str:
    return said_by(Corpus.read, place, languages, kind=CorpusError)


UNREADABLE = "JSON that cannot be read ("


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"[" * 200_000, UNREADABLE, id="deep"),
        pytest.param(b'{"id": ' + b"9" * 5000 + b"}", UNREADABLE, id="long number"),
        (b'{"id": "b", "text": "x"', "not JSON (Expecting ',' delimiter, character 24). Each line"),
        (b"[", "not JSON (Expecting value, character 2). Each line holds one object."),
        (b'"b"', 'not an object but "b". Each line holds one object.'),
        (b'{"id": "b", "body": "x"}', "there is no field 'text'. Fields there: id, body."),
        (b'{"id": "b", "text": ["x"]}', "'text' must be text, got [\"x\"]."),
        (b'{"id": 1.5, "text": "x"}', "'id' must be text or a whole number, got 1.5."),
        (b'{"id": true, "text": "x"}', "'id' must be text or a whole number, got true."),
        (b'{"id": "", "text": "x"}', "'id' is empty."),
        (b'{"id": "b", "text": " \\n\\u3000\\t"}', "'text' is empty."),
        (b'{"id": "b", "text": "x", "title": 1984}', "'title' must be text, got 1984."),
        (b'{"id": "a", "text": "x"}', "the id 'a' was already used at en.jsonl, line 1."),
        (b'{"id": "b", "text": "caf\xe9"}', "byte 25 of the line (0xe9) is not UTF-8."),
        (b'{"id": "b", "text": "ab\\ud800c"}', "'text' has a lone surrogate (\\ud800) after 2"),
    ],
)
def test_every_fault_has_its_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    """Line 2 is blank and counts; the good line after the fault does not hide it."""
    (tmp_path / "en.jsonl").write_bytes(GOOD + b"\n" + line + b'\n{"id": "z", "text": "Last."}\n')
    write(tmp_path / "de.jsonl", [{"id": "a", "text": "Ein Text."}])
    for place in (tmp_path, tmp_path / "en.jsonl"):
        assert said(place, ["en"]).startswith(f"en.jsonl, line 3: {message}")


def test_the_first_fault_and_how_many_more(tmp_path: Path) -> None:
    """Over all files: three in de.jsonl, of which the first is told, and one in en.jsonl."""
    (tmp_path / "de.jsonl").write_bytes(GOOD + b'oh\n{"id": "b"}\n{"id": "a", "text": "again"}\n')
    (tmp_path / "en.jsonl").write_bytes(GOOD + b'{"id": "b", "text": ""}\n')
    first = said(tmp_path)
    assert first.startswith("de.jsonl, line 2: not JSON (Expecting value, character 1).")
    assert first.endswith(" (and 3 more)")
    assert said(tmp_path, ["en"]) == "en.jsonl, line 2: 'text' is empty."


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD + b"\n\n  \n",
        GOOD.rstrip(),
        GOOD.replace(b"\n", b"\r\n"),
        b"\n" + GOOD,
        b'{"id": "a", "text": "One text.", "language": "en"}',
        b'{"id": "a", "text": "One text.", "language": null}',
        b'{"id": "a", "text": "One text.", "score": NaN}',
    ],
)
def test_harmless_differences(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "en.jsonl").write_bytes(content)
    assert Corpus.read(tmp_path, ["en"]).text("a", "en") == "One text."


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "en.jsonl").write_bytes(content)
    assert said(tmp_path / "en.jsonl") == "en is empty: it needs records with 'text'."
    write(tmp_path / "de.jsonl", [{"id": "a", "text": "x"}])
    assert "(de 1, en 0): en lacks 'a'." in said(tmp_path, ["de", "en"])


def test_a_language_that_is_not_the_file_s(tmp_path: Path) -> None:
    for language in ("en", "de"):
        write(tmp_path / f"{language}.jsonl", [{"id": "a", "text": "x", "language": "en"}])
    assert said(tmp_path) == "de.jsonl, line 1: 'language' is \"en\", but the file is read as 'de'."


def test_a_language_that_only_some_lines_have(tmp_path: Path) -> None:
    plain, english = {"id": "a", "text": "x"}, {"id": "b", "text": "y", "language": "en"}
    for rows, fault in (
        ([english, plain], "earlier records have a 'language': give all one, or none."),
        ([english, {**plain, "language": None}], "earlier records have a 'language': give"),
        ([plain, english], "earlier records have no 'language': give all one, or none."),
        ([english, {**plain, "language": 4}], "'language' must be text such as \"en\", got 4."),
    ):
        path = write(tmp_path / "all.jsonl", rows)
        assert said(path).startswith(f"all.jsonl, line 2: {fault}")


def test_the_same_id_twice_in_one_file(tmp_path: Path) -> None:
    """Twice in one language is a fault, also as text and number; once in each language is the point
    of a corpus.
    """
    rows = [{"id": 1, "language": "en", "text": "x"}, {"id": 1, "language": "de", "text": "x"}]
    path = write(tmp_path / "all.jsonl", [*rows, {"id": "1", "language": "de", "text": "y"}])
    assert said(path) == "all.jsonl, line 3: the id '1' was already used at all.jsonl, line 2."
    assert Corpus.read(path, ["en"]).ids() == ("1",)
    for ending in (".jsonl", ".parquet"):
        write_folder(tmp_path / "two", TEXTS, ending)
    twice = "de.parquet, row 1: the id 'a' was already used at de.jsonl, line 1. (and 5 more)"
    assert said(tmp_path / "two") == twice


def test_parquet_faults_have_their_row(tmp_path: Path) -> None:
    path = tmp_path / "en.parquet"
    for columns, fault in (
        (
            {"id": ["a", "b", "a"], "text": ["x", None, "y"]},
            ", row 2: 'text' must be text",
        ),
        ({"id": ["a", "a"], "text": ["x", "y"]}, ", row 2: the id 'a' was already used"),
        ({"id": ["a"], "body": ["x"]}, " has no column 'text'. Columns there: id, body."),
    ):
        pl.DataFrame(columns).write_parquet(path)
        assert said(path, ["en"]).startswith(f"en.parquet{fault}")
    for content in (GOOD, b""):
        path.write_bytes(content)
        assert said(path).startswith("en.parquet is not a Parquet file: ")


def test_a_cut_off_gzip_file(tmp_path: Path) -> None:
    rows = [json.dumps({"id": n, "text": os.urandom(40).hex()}) for n in range(900)]
    whole = gzip.compress("\n".join(rows).encode())
    path = tmp_path / "en.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    assert said(tmp_path).startswith("en.jsonl.gz is damaged or cut off.")


def test_a_folder_without_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_text("nothing here")
    (tmp_path / ".hidden.jsonl").write_bytes(GOOD)
    assert said(tmp_path).startswith(f"{tmp_path} holds no file that ends in .jsonl, ")


def test_what_is_not_read_in_a_folder_is_named(tmp_path: Path) -> None:
    """Texts in any case; others by suffix and number, links included, but no hidden ones."""
    texts = ["A.TXT", "b.markdown", "c.rst", "sub/d.Md"]
    others = ["e.doc", "f.csv", "sub/g.CSV", "h.json", "LICENSE", ".draft.md", ".git/i.md"]
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name in (*texts, *others):
        (tmp_path / name).write_text(f"About {name}.")
    for name in ("empty.txt", ".DS_Store"):
        (tmp_path / name).write_text("")
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere.md")
    (tmp_path / "linked").symlink_to(tmp_path / "sub")
    corpus = Corpus.read(tmp_path)
    assert [*corpus.ids()] == texts
    left_out = "2 .csv, 1 .doc, 1 .json, 1 .md, 1 linked folder(s)"
    notes = [f"not read: {left_out}, 1 without a suffix"]
    assert sorted(corpus.notes) == sorted([*notes, "left out: empty.txt: 'text' is empty."])
    assert source.open_source(tmp_path).notes == tuple(notes)
    assert Corpus.read(tmp_path / "A.TXT").text("A.TXT", "und") == "About A.TXT."
    write(tmp_path / "index.jsonl", [{"text": "One."}])
    corpus = Corpus.read(tmp_path)
    assert len(corpus) == 1
    assert "2 .csv, 2 .md, 2 .txt, 1 .doc, 1 .json, 1 .markdown," in corpus.notes[0]
    assert "texts are read where no .jsonl or .parquet file is beside them" in corpus.notes[0]
    assert corpus.notes[0] in said_by(TuneOptions(corpus=str(tmp_path)).check)


def test_a_text_that_is_not_utf_8_is_left_out_and_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(b"caf\xe9")
    said_of_one = "0.txt: not UTF-8. Save the file as UTF-8."
    assert said(tmp_path / "0.txt") == said_of_one
    assert said(tmp_path) == f"{said_of_one} (and 4 more)"
    (tmp_path / "good.md").write_text("Good.")
    corpus = Corpus.read(tmp_path)
    assert corpus.ids() == ("good.md",)
    assert corpus.notes == (
        "left out: 0.txt, 1.txt, 2.txt and 2 more: not UTF-8. Save the file as UTF-8.",
    )
    if sys.platform == "linux":  # where names of files may be any bytes
        (tmp_path / os.fsdecode(b"caf\xe9.jsonl")).write_bytes(b'{"text": "One."}')
        assert Corpus.read(tmp_path).ids() == ("caf\\xe9.jsonl#1",)


def test_file_names_are_languages_only_if_all_are_codes(tmp_path: Path) -> None:
    """A folder with other names, such as those of parts or of splits, is in no named language."""
    for name in ("en", "part-1"):
        write(tmp_path / f"{name}.jsonl", [{"id": f"{name}-{n}", "text": "x"} for n in range(3)])
    assert Corpus.read(tmp_path).languages == ("und",)
    assert Corpus.read(tmp_path, ["de"]).languages == ("de",)
    (tmp_path / "part-1.jsonl").rename(tmp_path / "pt-BR.jsonl")
    assert Corpus.read(tmp_path, partial=True).languages == ("en", "pt-BR")
    assert said(tmp_path).endswith("or rename files whose names are no languages.")
    (tmp_path / "pt-BR.jsonl").rename(tmp_path / "dev.jsonl")
    assert Corpus.read(tmp_path).languages == ("und",)


def test_a_row_group_of_parquet_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each of its slices, however long it is."""
    count = 20_000
    path = tmp_path / "rows.parquet"
    texts = {"text": [f"text {number}" for number in range(count)]}
    pl.DataFrame(texts).write_parquet(path, row_group_size=count)
    queries = 0
    collect = pl.LazyFrame.collect

    def counted(frame: pl.LazyFrame, *options: Any, **more: Any) -> Any:
        nonlocal queries
        queries += "SLICE" in frame.explain()
        return collect(frame, *options, **more)

    monkeypatch.setattr(pl.LazyFrame, "collect", counted)
    records = [*files.read_parquet("rows.parquet", path, files.TEXT)]
    assert [record.fields["text"] for record in records] == texts["text"]
    assert [record.number for record in records] == [*range(1, count + 1)]
    assert records[-1].done == path.stat().st_size
    assert queries <= 1


@pytest.mark.parametrize("verb", [*VERBS, TUNE], ids=lambda verb: verb.name)
def test_every_study_takes_a_path_and_reads_it_once(
    verb: Verb, make_tiny: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are counted that are opened until everything is ready, as the command line does it."""
    corpus = write_articles(tmp_path / "corpus", 64)
    asked: dict[str, Any] = {"corpus": corpus, **verb.asked}
    asked.pop("measures", None)  # some need another pooling
    options = import_module(f"fairspan.studies.{verb.name}.options")
    kind = getattr(options, f"{verb.name.capitalize()}Options")
    read: list[str] = []
    read_file = source.read_file

    def counted(label: str, path: Path, *position: Any) -> Any:
        read.append(f"{path.parent.name}/{label}")
        return read_file(label, path, *position)

    monkeypatch.setattr(source, "read_file", counted)
    chosen = kind(model=make_tiny(), progress=False, **asked)
    assert chosen.checked
    import_module(f"fairspan.studies.{verb.name}.run").STUDY.read(chosen, Silent())
    assert len(read) == len({*read})
    assert "corpus/en.jsonl" in read
