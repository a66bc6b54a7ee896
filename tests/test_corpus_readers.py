"""What is wrong with a file is told in one line, with the file and the line."""

import gzip
import json
import os
from pathlib import Path

import polars as pl
import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError
from tests.saying import said_by
from tests.test_corpus import TEXTS, write, write_folder

GOOD = b'{"id": "a", "text": "One text."}\n'


def said(source: Path, languages: list[str] | None = None) -> str:
    return said_by(Corpus.read, source, languages, kind=CorpusError)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            b'{"id": "b", "text": "x"',
            "not JSON (Expecting ',' delimiter, character 24). Each line holds one object.",
        ),
        (b"[", "not JSON (Expecting value, character 2). Each line holds one object."),
        (b'"b"', 'not an object but "b". Each line holds one object.'),
        (b'{"id": "b", "body": "x"}', "there is no field 'text'. Fields there: id, body."),
        (b'{"text": "x"}', "there is no field 'id'. Fields there: text."),
        (b'{"id": "b", "text": 5}', "'text' must be text, got 5."),
        (b'{"id": "b", "text": ["x"]}', "'text' must be text, got [\"x\"]."),
        (b'{"id": 1.5, "text": "x"}', "'id' must be text or a whole number, got 1.5."),
        (b'{"id": true, "text": "x"}', "'id' must be text or a whole number, got true."),
        (b'{"id": "", "text": "x"}', "'id' is empty."),
        (b'{"id": "b", "text": " \\n\\u3000\\t"}', "'text' is empty."),
        (b'{"id": "b", "text": "x", "title": 1984}', "'title' must be text, got 1984."),
        (b'{"id": "a", "text": "x"}', "the id 'a' was already used at en.jsonl, line 1."),
        (
            b'{"id": "b", "text": "caf\xe9"}',
            "byte 25 of the line (0xe9) is not UTF-8. Save the file as UTF-8.",
        ),
        (
            b'{"id": "b", "text": "ab\\ud800c"}',
            "'text' has a lone surrogate (\\ud800) after 2 characters, which no tokenizer accepts.",
        ),
    ],
)
def test_every_fault_has_its_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    """Line 2 is blank and counts; the good line after the fault does not hide it."""
    (tmp_path / "en.jsonl").write_bytes(
        GOOD + b"\n" + line + b"\n" + b'{"id": "z", "text": "Last."}\n'
    )
    write(tmp_path / "de.jsonl", [{"id": "a", "text": "Ein Text."}])
    assert said(tmp_path, ["en"]) == f"en.jsonl, line 3: {message}"
    assert said(tmp_path / "en.jsonl", ["en"]) == f"en.jsonl, line 3: {message}"


def test_json_that_python_cannot_hold(tmp_path: Path) -> None:
    for content in (b"[" * 200_000, b'{"id": ' + b"9" * 5000 + b"}"):
        (tmp_path / "en.jsonl").write_bytes(content)
        assert said(tmp_path).startswith("en.jsonl, line 1: JSON that cannot be read (")


def test_the_first_fault_and_how_many_more(tmp_path: Path) -> None:
    """Over all files: three in de.jsonl, of which the first is told, and one in en.jsonl."""
    (tmp_path / "de.jsonl").write_bytes(GOOD + b'oh\n{"id": "b"}\n{"id": "a", "text": "again"}\n')
    (tmp_path / "en.jsonl").write_bytes(GOOD + b'{"id": "b", "text": ""}\n')
    assert said(tmp_path) == (
        "de.jsonl, line 2: not JSON (Expecting value, character 1). Each line holds one object. "
        "(and 3 more)"
    )
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
    write(tmp_path / "de.jsonl", [{"id": "a", "text": "Ein Text."}])
    assert Corpus.read(tmp_path, ["en"]).text("a", "en") == "One text."


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "en.jsonl").write_bytes(content)
    assert said(tmp_path / "en.jsonl") == "en is empty: it needs records with 'id' and 'text'."
    write(tmp_path / "de.jsonl", [{"id": "a", "text": "x"}])
    assert "(de 1, en 0): en lacks 'a'." in said(tmp_path)


def test_a_language_that_is_not_the_file_s(tmp_path: Path) -> None:
    for language in ("en", "de"):
        write(tmp_path / f"{language}.jsonl", [{"id": "a", "text": "x", "language": "en"}])
    assert said(tmp_path) == "de.jsonl, line 1: 'language' is \"en\", but the file is read as 'de'."


def test_a_language_that_only_some_lines_have(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(b'{"id": "a", "text": "x", "language": "en"}\n{"id": "b", "text": "y"}\n')
    missing = "there is no field 'language'. Fields there: id, text."
    assert said(path, ["en"]) == f"all.jsonl, line 2: {missing}"
    path.write_bytes(path.read_bytes().replace(b'"y"}', b'"y", "language": 4}'))
    assert said(path) == "all.jsonl, line 2: 'language' must be text such as \"en\", got 4."


def test_the_same_id_twice_in_one_file(tmp_path: Path) -> None:
    """Twice in one language is a fault, also as text and number; once in each language is the point
    of a corpus.
    """
    rows = [{"id": 1, "language": "en", "text": "x"}, {"id": 1, "language": "de", "text": "x"}]
    path = write(tmp_path / "all.jsonl", [*rows, {"id": "1", "language": "de", "text": "y"}])
    assert said(path) == "all.jsonl, line 3: the id '1' was already used at all.jsonl, line 2."
    assert Corpus.read(path, ["en"]).ids() == ("1",)


def test_parquet_faults_have_their_row(tmp_path: Path) -> None:
    path = tmp_path / "en.parquet"
    pl.DataFrame({"id": ["a", "b", "a"], "text": ["x", None, "y"]}).write_parquet(path)
    assert said(path, ["en"]) == "en.parquet, row 2: 'text' must be text, got null. (and 1 more)"
    pl.DataFrame({"id": ["a", "a"], "text": ["x", "y"]}).write_parquet(path)
    assert (
        said(path, ["en"]) == "en.parquet, row 2: the id 'a' was already used at en.parquet, row 1."
    )
    pl.DataFrame({"id": ["a"], "body": ["x"]}).write_parquet(path)
    assert said(path, ["en"]) == "en.parquet has no column 'text'. Columns there: id, body."
    path.write_bytes(GOOD)
    assert said(path).startswith("en.parquet is not a Parquet file: ")
    path.write_bytes(b"")
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


def test_two_files_for_one_language(tmp_path: Path) -> None:
    for ending in (".jsonl", ".parquet"):
        write_folder(tmp_path, TEXTS, ending)
    message = "de.parquet, row 1: the id 'a' was already used at de.jsonl, line 1. (and 5 more)"
    assert said(tmp_path) == message


def test_what_is_not_read_in_a_folder_of_texts_is_named(tmp_path: Path) -> None:
    for name, text in (("a.md", "One."), ("b.txt", " \n"), ("c.pdf", "%PDF")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    corpus = Corpus.read(tmp_path)
    assert [segment.id for segment in corpus.segments] == ["a.md"]
    pdf = "not read, since it is not plain text: c.pdf"
    assert corpus.notes == (pdf, "1 file is empty and left out")
