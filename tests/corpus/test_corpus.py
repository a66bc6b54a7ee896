"""`Corpus`: what it holds, how its languages are aligned, and that all formats are equal."""

import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.errors import CorpusError
from tests.builders.saying import said_by

TEXTS = {
    "en": {"a": "One text.", "b": "Another text.", "c": "A third."},
    "de": {"a": "Ein Text.", "b": "Ein anderer.", "c": "Ein dritter."},
}


def write_folder(
    folder: Path, texts: Mapping[str, Mapping[str, str]], ending: str = ".jsonl"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for language, by_id in texts.items():
        write(
            folder / f"{language}{ending}", [{"id": id, "text": text} for id, text in by_id.items()]
        )
    return folder


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    if path.suffix == ".parquet":
        pl.DataFrame(list(rows)).write_parquet(path)
        return path
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def labelled(texts: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    return [
        {"id": id, "language": lang, "text": text}
        for lang, rows in texts.items()
        for id, text in rows.items()
    ]


def segments(texts: Mapping[str, Mapping[str, str]]) -> list[Segment]:
    return [Segment(**row) for row in labelled(texts)]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.from_segments("two", segments(TEXTS))


def test_ids_are_those_that_all_languages_share_in_the_corpus_order() -> None:
    """The second language has other segments, in another order; the corpus's order is that of first
    appearance.
    """
    texts = {"en": {"z": "1", "y": "2", "x": "3"}, "de": {"x": "3", "w": "4", "z": "1"}}
    corpus = Corpus.from_segments("uneven", segments(texts))
    assert corpus.ids() == ("z", "x")
    assert corpus.ids(["en"]) == ("z", "y", "x")
    assert corpus.ids(["de"]) == ("z", "x", "w")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.text("d", "en"), "two has no segment 'd' in 'en'."),
        (lambda c: c.text("a", "fr"), "two has no language 'fr'. Languages there: en, de."),
        (lambda c: c.select("en"), "languages must be a list, such as ['en', 'de'], got 'en'."),
        (lambda c: c.ids([]), "languages is empty: name at least one, or omit it to take all."),
        (lambda c: c.ids(["en", "de", "en"]), "languages names 'en' twice."),
        (
            lambda c: Corpus.from_segments("x", [*c.segments, c.segments[0]]),
            "x has two segments 'a' in 'en'.",
        ),
        (lambda c: Segment("a", "en", " \n"), "'text' is empty."),
        (lambda c: Segment("a", "en", "t", title=3), "'title' must be text, got 3."),
    ],
)
def test_mistakes_are_told(corpus: Corpus, call: object, said: str) -> None:
    assert said_by(call, corpus, kind=CorpusError) == said  # type: ignore[arg-type]


def test_the_fingerprint_knows_content_and_nothing_else(corpus: Corpus) -> None:
    same = Corpus.from_segments(
        "other name", [Segment(s.id, s.language, s.text, "T") for s in corpus.segments[::-1]]
    )
    assert same.fingerprint == corpus.fingerprint
    for change in (("a", "en", "One text"), ("A", "en", "One text."), ("a", "it", "One text.")):
        other = Corpus.from_segments("two", [Segment(*change), *corpus.segments[1:]])
        assert other.fingerprint != corpus.fingerprint


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
def test_every_format_is_the_same_corpus(tmp_path: Path, corpus: Corpus, ending: str) -> None:
    folder = write_folder(tmp_path / "[a-b]" / "folder", TEXTS, ending)
    (folder / "README.md").write_text("not a language")
    (folder / "notes").mkdir()
    file = write(tmp_path / f"file{ending}", labelled(TEXTS))
    alone = tmp_path / "alone"
    alone.mkdir()
    write(alone / f"all{ending}", labelled(TEXTS))
    for source in (folder, file, alone, str(folder), str(file)):
        read = Corpus.read(source, ["en", "de"])
        assert read.fingerprint == corpus.fingerprint
        assert read.languages == ("en", "de")
        assert read.ids() == ("a", "b", "c")
    assert Corpus.read(folder).languages == ("de", "en")
    assert Corpus.read(folder).name == "folder"
    assert Corpus.read(file).name == "file"


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_titles_are_kept_whole_numbers_are_ids_and_other_fields_ignored(
    tmp_path: Path, ending: str
) -> None:
    rows = [
        {"id": 7, "text": "x", "title": "T", "paragraphs": [1]},
        {"id": 8, "text": "y", "title": None, "paragraphs": [2]},
    ]
    corpus = Corpus.read(write(tmp_path / f"f{ending}", rows), ["en"])
    assert corpus.segments == (Segment("7", "en", "x", "T"), Segment("8", "en", "y"))


def test_missing_translations(tmp_path: Path) -> None:
    more = {f"x{number}": "more" for number in range(5)}
    folder = write_folder(
        tmp_path / "news",
        {"en": {**TEXTS["en"], **more}, "de": TEXTS["de"], "it": {"a": "Un testo."}},
    )
    assert said_by(Corpus.read, folder) == (
        "the languages of news do not have the same segments (de 3, en 8, it 1): de lacks "
        "'x0', 'x1', 'x2' and 2 more; it lacks 'b', 'c', 'x0' and 4 more. Complete them, set "
        "partial to use only the ids that they share, or rename files whose names are no languages."
    )
    partial = Corpus.read(folder, partial=True)
    assert partial.ids() == ("a",)
    assert partial.ids(["en", "de"]) == ("a", "b", "c")
    assert len(partial) == 12
    assert Corpus.read(folder, ["it"]).ids() == ("a",)

    one_file = write(
        tmp_path / "all.jsonl",
        labelled({"en": TEXTS["en"], "de": {"a": "Ein Text.", "c": "Dritter"}}),
    )
    with pytest.raises(CorpusError, match=r"\(en 3, de 2\): de lacks 'b'\."):
        Corpus.read(one_file)
    assert Corpus.read(one_file, partial=True).ids() == ("a", "c")


def test_no_such_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a name that a dataset on the hub could have."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    for source in ("no/such.jsonl", "a/b/c", "./corpus", "/nowhere", "two words"):
        said = f"there is no file or folder '{source}'. Texts are read from files that end"
        assert said_by(Corpus.read, source, kind=CorpusError).startswith(said)


def test_what_says_no_language_is_in_the_one_asked_for_or_in_none(tmp_path: Path) -> None:
    """Markdown in folders, one text, JSON Lines and records, also without ids."""
    for name, text in {"b/2.txt": "Two.", "a.md": "# One", "b/1.md": "Three."}.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    (tmp_path / "docs" / ".git").mkdir()
    (tmp_path / "docs" / ".git" / "x.md").write_text("Hidden.")
    docs = Corpus.read(tmp_path / "docs")
    assert (docs.name, docs.languages) == ("docs", ("und",))
    assert docs.ids() == ("a.md", "b/1.md", "b/2.txt")
    assert Corpus.read(tmp_path / "docs", ["de"]).text("a.md", "de") == "# One"
    assert Corpus.read(tmp_path / "docs" / "a.md").ids() == ("a.md",)
    rows = [{"text": "One."}, {"text": "Two."}]
    for file in (write(tmp_path / "rows.jsonl", rows), write(tmp_path / "rows.parquet", rows)):
        assert Corpus.read(file).ids() == (f"{file.name}#1", f"{file.name}#2")
    assert Corpus.read(rows).ids() == ("records#1", "records#2")
    shards = tmp_path / "shards"
    for number, texts in enumerate((TEXTS["en"], TEXTS["de"])):
        write_folder(
            shards, {f"part-{number}": {f"{id}{number}": text for id, text in texts.items()}}
        )
    assert Corpus.read(shards).languages == ("und",)
    assert len(Corpus.read(shards)) == 6


def test_translations_need_ids(tmp_path: Path) -> None:
    """Files named by languages hold translations, which row numbers do not match."""
    write(tmp_path / "en.jsonl", [{"text": "One."}, {"text": "Two."}])
    write(tmp_path / "de.jsonl", [{"text": "Eins."}, {"text": "Zwei."}])
    assert said_by(Corpus.read, tmp_path, kind=CorpusError) == (
        "de.jsonl, line 1: there is no field 'id'. Fields there: text. Give translations the same "
        "id, or rename files whose names are no languages. (and 3 more)"
    )
    (tmp_path / "de.jsonl").unlink()
    assert Corpus.read(tmp_path).languages == ("en",)
    assert Corpus.read(tmp_path).ids() == ("en.jsonl#1", "en.jsonl#2")


def test_the_first_language_is_read_alone(tmp_path: Path) -> None:
    """English, or the first; what is not read is named, and translations are no loss."""
    folder = write_folder(tmp_path / "folder", TEXTS)
    (folder / "hi.jsonl").write_bytes(b"\xff not even text")
    english = Corpus.read_first(folder)
    assert (english.languages, len(english)) == (("en",), 3)
    assert english.notes == ("not read: texts in de, hi; name a language to use it",)
    mixed = {"de": {"x": "Ein Text."}, "it": {"y": "Uno."}, "fr": {"x": "Un texte."}}
    german = Corpus.read_first(write(tmp_path / "all.jsonl", labelled(mixed)))
    assert german.languages == ("de",)
    assert german.notes == ("not read: texts in it; name a language to use it",)
    assert Corpus.read_first("sample").notes == ()


def test_the_embedded_sample() -> None:
    corpus = Corpus.read("sample")
    assert corpus.name == "sample"
    assert corpus.languages == ("en", "zh", "de", "it", "ko", "hi")
    assert (len(corpus), len(corpus.ids())) == (6 * 48, 48)
    assert all(segment.title for segment in corpus.segments)
    assert Corpus.read("sample", ["de", "en"]).languages == ("de", "en")
    said = "sample has no language 'fr'. Languages there: en, zh, de, it, ko, hi."
    assert said_by(Corpus.read, "sample", ["fr"], kind=CorpusError) == said
    assert repr(corpus) == "Corpus('sample', 288 segments in en, zh, de, it, ko, hi)"


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


@settings(max_examples=25)
@given(st.dictionaries(text, st.tuples(text, text), min_size=1, max_size=6))
def test_any_text_survives_every_format(tmp_path: Path, texts: dict[str, tuple[str, str]]) -> None:
    """Ids and texts with any character at all: separators, controls, quotes, other planes."""
    by_language = {
        lang: {id: pair[column] for id, pair in texts.items()}
        for column, lang in enumerate(("en", "de"))
    }
    wanted = Corpus.from_segments("x", segments(by_language))
    for ending in (".jsonl", ".jsonl.gz", ".parquet"):
        read = Corpus.read(write(tmp_path / f"x{ending}", labelled(by_language)))
        assert read == wanted
        assert read.fingerprint == wanted.fingerprint
    unescaped = "".join(
        json.dumps(row, ensure_ascii=False) + "\r\n" for row in labelled(by_language)
    )
    (tmp_path / "x.jsonl").write_bytes(unescaped.encode())
    assert Corpus.read(tmp_path / "x.jsonl") == wanted
