"""Readers of retrieval tasks: what they find is recomputed by hand, and every fault has its file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairspan.corpus.corpus import Corpus
from fairspan.errors import CorpusError, TaskError
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.evidence import read_evidence
from fairspan.retrieval.records import LAYOUTS
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from tests.test_corpus import write

Row = Mapping[str, object]
Rows = Sequence[Row]

#        0         1         2
#        0123456789012345678901234
SEA = "The sea is deep. It sings."
HILL = "A hill is high."


def said(read: Callable[..., RetrievalTask], *arguments: Any, **options: Any) -> str:
    with pytest.raises(TaskError) as caught:
        read(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def relevant(task: RetrievalTask) -> dict[str, dict[str, float]]:
    return {query: dict(gains) for query, gains in task.relevant.items()}


def marked(task: RetrievalTask) -> dict[str, str]:
    """The characters that each query's evidence covers."""
    texts = {document.id: document.text for document in task.documents}
    return {id: texts[found.document][found.start : found.end] for id, found in task.evidence.items()}


OFF = "the segment {} is empty, overlaps the one before or leaves the text, which has 15 characters."
OWN_DOCUMENTS: Rows = (
    {"id": "sea", "text": SEA, "title": "Water", "segments": [[0, 16], [17, 26]]},
    {"id": 7, "text": HILL, "language": "en"},
    {"id": "moor", "text": "Fog."},
)
OWN_QUERIES: Rows = (
    {"id": "q1", "query": "How deep?", "document": "sea", "start": 11, "answer": "deep"},
    {"id": "q2", "query": "Does it sing?", "document": "sea", "start": 17, "end": 26, "gain": 2},
    {"id": 3, "query": "How high?", "document": 7, "start": 10, "language": "en"},
    {"id": "q4", "query": "What is?", "document": "7", "start": 2, "end": 14, "answer": "hill", "gain": None},
)


def own_folder(place: Path, queries: Rows = OWN_QUERIES, documents: Rows = OWN_DOCUMENTS, ending: str = "") -> Path:
    folder = place / "own"
    folder.mkdir(exist_ok=True)
    write(folder / f"queries.jsonl{ending}", queries)
    write(folder / f"documents.jsonl{ending}", documents)
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_an_own_folder(tmp_path: Path, ending: str) -> None:
    task = read_evidence(own_folder(tmp_path, ending=ending))
    assert task.name == "own"
    assert task.queries == (
        Query("q1", "How deep?", "", "sea"),
        Query("q2", "Does it sing?", "", "sea"),
        Query("3", "How high?", "en", "7"),
        Query("q4", "What is?", "", "7"),
    )
    assert task.documents == (
        Passage("sea", SEA, "", ((0, 16), (17, 26))),
        Passage("7", HILL, "en"),
        Passage("moor", "Fog."),
    )
    assert relevant(task) == {"q1": {"sea": 1}, "q2": {"sea": 2}, "3": {"7": 1}, "q4": {"7": 1}}
    assert task.evidence == {
        "q1": Evidence("sea", 11, 15),
        "q2": Evidence("sea", 17, 26),
        "3": Evidence("7", 10, 11),
        "q4": Evidence("7", 2, 14),
    }
    assert marked(task) == {"q1": "deep", "q2": "It sings.", "3": "h", "q4": "hill is high"}
    assert task.notes == ("Documents that no query asks for, kept in the index: 1 of 3.",)


def test_one_language_of_an_own_folder(tmp_path: Path) -> None:
    """A query that names no language is taken to be in the one asked for; every document stays."""
    queries = [
        {"id": "a", "query": "x", "document": "sea", "start": 0, "language": "de"},
        {"id": "b", "query": "y", "document": "sea", "start": 0},
        {"id": "c", "query": "z", "document": "moor", "start": 0, "language": "en"},
    ]
    folder = own_folder(tmp_path, queries)
    task = read_evidence(folder, language="de")
    assert task.name == "own-de"
    assert [(query.id, query.language) for query in task.queries] == [("a", "de"), ("b", "de")]
    assert [(document.id, document.language) for document in task.documents] == [
        ("sea", "de"),
        ("7", "en"),
        ("moor", "de"),
    ]
    assert task.notes[0] == "Queries in other languages than 'de', left out: 1."
    assert [query.id for query in read_evidence(folder).queries] == ["a", "b", "c"]
    write(folder / "queries.jsonl", [queries[0], queries[2]])
    assert said(read_evidence, folder, language="hi") == "own has no queries in 'hi'. Languages there: de, en."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"answer": "dee!"},
            "the answer 'dee!' is not at character 11 of the document 'sea'; found 'deep'.",
        ),
        ({"start": 10}, "the answer 'deep' is not at character 10 of the document 'sea'; found ' dee'."),
        ({"start": 23}, "characters 23 to 27 are not inside the document 'sea', which has 26."),
        ({"start": -4}, "characters -4 to 0 are not inside the document 'sea', which has 26."),
        ({"start": 26, "answer": None}, "characters 26 to 27 are not inside the document 'sea', which has 26."),
        ({"end": 27}, "characters 11 to 27 are not inside the document 'sea', which has 26."),
        ({"end": 14}, "'end' is 14, but what starts at 11 ends at 15 at the earliest."),
        ({"end": 11, "answer": None}, "'end' is 11, but what starts at 11 ends at 12 at the earliest."),
        ({"end": "15"}, "'end' must be a whole number, got the text '15'."),
        ({"start": 11.0}, "'start' must be a whole number, got the number 11.0."),
        ({"start": True}, "'start' must be a whole number, got true."),
        ({"answer": " "}, "'answer' is empty."),
        ({"answer": 4}, "'answer' must be text, got the number 4."),
        ({"query": ""}, "'query' is empty."),
        (
            {"query": "a\ud800"},
            "'query' has a lone surrogate (\\ud800) after 1 characters, which no tokenizer can take.",
        ),
        ({"document": "tree"}, "there is no document 'tree' in documents.jsonl."),
        ({"document": None}, "'document' must be text or a whole number, got null."),
        ({"gain": 0}, "'gain' must be a number above 0, got the number 0."),
        ({"gain": float("inf")}, "'gain' must be a number above 0, got the number inf."),
        ({"gain": float("nan")}, "'gain' must be a number above 0, got the number nan."),
        ({"gain": True}, "'gain' must be a number above 0, got true."),
        ({"language": 3}, "'language' must be text, got the number 3."),
        ({"id": ""}, "'id' is empty."),
        ({"id": "q0"}, "the id 'q0' was already used at queries.jsonl, line 1."),
    ],
)
def test_faults_of_an_own_query(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    """The good query before it and the one after it do not hide the fault."""
    first = {"id": "q0", "query": "x", "document": "sea", "start": 0}
    folder = own_folder(tmp_path, [first, {**OWN_QUERIES[0], **changes}, OWN_QUERIES[1]])
    assert said(read_evidence, folder) == f"queries.jsonl, line 2: {message}"


@pytest.mark.parametrize("field", ["id", "query", "document", "start"])
def test_fields_that_an_own_query_needs(tmp_path: Path, field: str) -> None:
    query = {"id": "q", "query": "x", "document": "sea", "start": 0}
    del query[field]
    there = ", ".join(query)
    folder = own_folder(tmp_path, [OWN_QUERIES[0], query])
    assert (
        said(read_evidence, folder) == f"queries.jsonl, line 2: there is no field '{field}'. Fields there: {there}."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "sea"}, "the id 'sea' was already used at documents.jsonl, line 1."),
        ({"text": " \n"}, "'text' is empty."),
        ({"text": None}, "'text' must be text, got null."),
        ({"segments": 3}, "'segments' must be a list of [start, end], such as [[0, 120], [121, 300]]."),
        ({"segments": [[0, 4, 5]]}, "'segments' must be a list of [start, end], such as [[0, 120], [121, 300]]."),
        ({"segments": [[0, 4.0]]}, "'segments' must be a list of [start, end], such as [[0, 120], [121, 300]]."),
        ({"segments": [[0, 4], [3, 9]]}, OFF.format("[3, 9]")),
        ({"segments": [[5, 5]]}, OFF.format("[5, 5]")),
        ({"segments": [[9, 8]]}, OFF.format("[9, 8]")),
        ({"segments": [[0, 4], [4, 16]]}, OFF.format("[4, 16]")),
        ({"segments": [[-1, 4]]}, OFF.format("[-1, 4]")),
    ],
)
def test_faults_of_an_own_document(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    documents = [OWN_DOCUMENTS[0], {**OWN_DOCUMENTS[1], **changes}]
    folder = own_folder(tmp_path, OWN_QUERIES[:2], documents)
    assert said(read_evidence, folder) == f"documents.jsonl, line 2: {message}"


def test_lines_of_an_own_folder_that_are_no_json(tmp_path: Path) -> None:
    """Blank lines count."""
    folder = own_folder(tmp_path)
    (folder / "queries.jsonl").write_bytes(b'\n{"id": "q1"\n')
    assert said(read_evidence, folder) == (
        "queries.jsonl, line 2: not JSON (Expecting ',' delimiter, character 12). Each line holds one object."
    )
    (folder / "documents.jsonl").write_bytes(b'{"id": "a", "text": "caf\xe9"}\n')
    assert said(read_evidence, folder) == (
        "documents.jsonl, line 1: byte 25 of the line (0xe9) is not UTF-8. Save the file as UTF-8."
    )


def test_files_that_are_empty_damaged_or_there_twice(tmp_path: Path) -> None:
    folder = own_folder(tmp_path, [])
    assert said(read_evidence, folder) == "own has no queries."
    (folder / "documents.jsonl.gz").write_bytes(b"")
    assert said(read_evidence, folder) == f"{folder} has both documents.jsonl and documents.jsonl.gz: remove one."
    (folder / "documents.jsonl").unlink()
    (folder / "documents.jsonl.gz").write_bytes(gzip.compress(b'{"id": "a", "text": "x"}\n')[:-9])
    assert said(read_evidence, folder).startswith(
        "documents.jsonl.gz: the gzip file is damaged or cut off after line"
    )


def test_what_results_should_be_read_with(tmp_path: Path) -> None:
    """'the' stands twice in each of two equal documents; 'on' stands twice, but nobody says it is the answer."""
    text = "the cat on the mat on it"
    documents = [{"id": id, "text": text} for id in ("a", "b")] + [{"id": "c", "text": "other"}]
    queries = [
        {"id": "1", "query": "x", "document": "a", "start": 0, "answer": "the"},
        {"id": "2", "query": "y", "document": "b", "start": 8, "end": 10},
        {"id": "3", "query": "z", "document": "c", "start": 0, "answer": "other"},
    ]
    assert read_evidence(own_folder(tmp_path, queries, documents)).notes == (
        "Answers that occur more than once in their document, so that another place may be meant: 1.",
        "Documents with identical text: 2.",
    )


# Two paragraphs of 16 and 9 characters with an empty line between them.
POSITIONS_TEXT = "The sea is deep.\n\nIt sings."


def positions_row(**changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "qid": "q1",
        "question": "How deep?",
        "article": "00",
        "title": "Sea",
        "paragraph": 0,
        "answer": "deep",
        "start_in_paragraph": 11,
        "paragraph_chars": 16,
        "start_in_article": 11,
        "article_chars": 27,
    }
    return {**row, **changes}


def positions_second() -> dict[str, object]:
    return positions_row(
        qid="q2", paragraph=1, answer="sings", start_in_paragraph=3, paragraph_chars=9, start_in_article=21
    )


def positions_folder(place: Path, *rows: Mapping[str, object], languages: Sequence[str] = ("en",)) -> Path:
    folder = place / "retrieval" / "sea_positions"
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        write(folder / f"{language}.jsonl", rows or [positions_row(), positions_second()])
    return folder


def positions_corpus(folder: Path, languages: Sequence[str] = ("en",), more: Rows = ()) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        write(folder / f"{language}.jsonl", [{"id": "00", "title": "Sea", "text": POSITIONS_TEXT}, *more])
    return folder


def test_positions(tmp_path: Path) -> None:
    folder = positions_folder(tmp_path)
    positions_corpus(tmp_path / "corpora" / "sea")
    task = read_evidence(folder)
    assert task.name == "sea_positions-en"
    assert task.queries == (Query("q1", "How deep?", "en", "00"), Query("q2", "How deep?", "en", "00"))
    assert task.documents == (Passage("00", POSITIONS_TEXT, "en", ((0, 16), (18, 27))),)
    assert task.evidence == {"q1": Evidence("00", 11, 15), "q2": Evidence("00", 21, 26)}
    assert marked(task) == {"q1": "deep", "q2": "sings"}
    assert relevant(task) == {"q1": {"00": 1}, "q2": {"00": 1}}
    assert task.notes == ()


def test_where_the_articles_are_looked_for(tmp_path: Path) -> None:
    """A folder inside comes before the corpus beside, and what is named before both."""
    folder = positions_folder(tmp_path)
    inside, beside = folder / "documents", tmp_path / "corpora" / "sea"
    assert said(read_evidence, folder) == (
        f"{folder} holds questions but no articles, and neither {inside} nor {beside} exists: name the corpus "
        "that holds them with documents=."
    )
    for number, place in enumerate((beside, inside, tmp_path / "named"), start=2):
        positions_corpus(place, more=[{"id": str(id), "text": "x"} for id in range(1, number)])
        named = {"documents": str(place)} if place.name == "named" else {}
        assert len(read_evidence(folder, **named).documents) == number
    assert said(read_evidence, folder, documents=tmp_path / "no") == (
        f"there is no file or folder {str(tmp_path / 'no')!r} to read the articles from."
    )


def test_which_language_of_positions(tmp_path: Path) -> None:
    """The only one, or English; anything else has to be named."""
    folder = positions_folder(tmp_path, languages=["de"])
    positions_corpus(folder / "documents", languages=["de", "en", "hi"])
    assert read_evidence(folder).name == "sea_positions-de"
    positions_folder(tmp_path, languages=["hi"])
    assert said(read_evidence, folder) == "sea_positions needs a language. Languages there: de, hi."
    assert {query.language for query in read_evidence(folder, language="hi").queries} == {"hi"}
    assert said(read_evidence, folder, language="en") == "sea_positions has no 'en'. Languages there: de, hi."
    positions_folder(tmp_path, languages=["en"])
    assert read_evidence(folder).name == "sea_positions-en"
    (folder / "documents" / "en.jsonl").unlink()
    assert said(read_evidence, folder).startswith("documents has no language 'en'")


def test_paragraphs_that_nobody_asks_about(tmp_path: Path) -> None:
    """Only one paragraph's borders are known, so no part is marked; the second article has no question at all."""
    folder = positions_folder(tmp_path, positions_row())
    positions_corpus(folder / "documents", more=[{"id": "01", "text": "Fog."}])
    task = read_evidence(folder)
    assert [document.spans for document in task.documents] == [(), ()]
    assert task.notes == (
        "Documents whose questions do not give the position of every paragraph, so none is marked: 2.",
        "Documents that no query asks for, kept in the index: 1 of 2.",
    )


@pytest.mark.parametrize(
    "changes", [{"paragraph_chars": 10}, {"paragraph_chars": 8}, {"start_in_paragraph": 6, "paragraph_chars": 12}]
)
def test_paragraphs_that_do_not_fit_the_text(tmp_path: Path, changes: dict[str, object]) -> None:
    """The second one ends behind the text, leaves its full stop out, or begins inside the first."""
    folder = positions_folder(tmp_path, positions_row(), {**positions_second(), **changes})
    positions_corpus(folder / "documents")
    task = read_evidence(folder)
    assert task.documents[0].spans == ()
    assert task.notes == (
        "Documents whose questions do not give the position of every paragraph, so none is marked: 1.",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"start_in_article": 12},
            "the answer 'deep' is not at character 12 of the document '00'; found 'eep.'.",
        ),
        ({"start_in_article": 24}, "characters 24 to 28 are not inside the document '00', which has 27."),
        ({"article": "01"}, "there is no article '01' in documents (en)."),
        ({"qid": "q2"}, "the id 'q2' was already used at en.jsonl, line 1."),
        ({"answer": ""}, "'answer' is empty."),
        ({"question": " "}, "'question' is empty."),
        ({"start_in_article": None}, "'start_in_article' must be a whole number, got null."),
        ({"start_in_paragraph": "3"}, "'start_in_paragraph' must be a whole number, got the text '3'."),
        ({"paragraph_chars": 1.5}, "'paragraph_chars' must be a whole number, got the number 1.5."),
    ],
)
def test_faults_of_positions(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    folder = positions_folder(tmp_path, positions_second(), positions_row(**changes))
    positions_corpus(folder / "documents")
    assert said(read_evidence, folder) == f"en.jsonl, line 2: {message}"


def test_faults_of_the_articles(tmp_path: Path) -> None:
    folder = positions_folder(tmp_path)
    positions_corpus(folder / "documents", more=[{"id": "01", "text": ""}])
    assert said(read_evidence, folder) == "en.jsonl, line 2: 'text' is empty."


# Joined by a line break: "The sea is deep." 0 to 16, "It sings. It is old." 17 to 37, "Fog." 38 to 42.
def squad_data() -> dict[str, Any]:
    questions = [
        {"id": "q1", "question": "How deep?", "answers": [{"text": "deep", "answer_start": 11}]},
        {"id": "q2", "question": "How high?", "answers": [], "is_impossible": True},
    ]
    more = [
        {
            "id": "q3",
            "question": "Is it old?",
            "answers": [{"text": "old", "answer_start": 16}, {"text": "It", "answer_start": 0}],
            "is_impossible": False,
        }
    ]
    hill = [{"id": "q4", "question": "High?", "answers": [{"text": "hill", "answer_start": 2}]}]
    sea = [
        {"context": "The sea is deep.", "qas": questions},
        {"context": "It sings. It is old.", "qas": more},
        {"context": "Fog.", "qas": []},
    ]
    return {
        "version": "v2.0",
        "data": [
            {"title": "Sea", "paragraphs": sea},
            {"title": "Hill", "paragraphs": [{"context": HILL, "qas": hill}]},
        ],
    }


def squad_file(place: Path, data: object) -> Path:
    path = place / "dev-v2.0.json"
    path.write_text(json.dumps(data), encoding="utf-8-sig")
    return path


def test_squad_by_article(tmp_path: Path) -> None:
    """The first of two answers counts: 'old' at 16 of the second paragraph, which begins at 17."""
    task = read_evidence(squad_file(tmp_path, squad_data()), language="en")
    assert task.name == "dev-v2.0"
    text = "The sea is deep.\nIt sings. It is old.\nFog."
    assert task.documents == (
        Passage("Sea", text, "en", ((0, 16), (17, 37), (38, 42))),
        Passage("Hill", HILL, "en", ((0, 15),)),
    )
    assert task.queries == (
        Query("q1", "How deep?", "en", "Sea"),
        Query("q3", "Is it old?", "en", "Sea"),
        Query("q4", "High?", "en", "Hill"),
    )
    assert task.evidence == {
        "q1": Evidence("Sea", 11, 15),
        "q3": Evidence("Sea", 33, 36),
        "q4": Evidence("Hill", 2, 6),
    }
    assert marked(task) == {"q1": "deep", "q3": "old", "q4": "hill"}
    assert relevant(task) == {"q1": {"Sea": 1}, "q3": {"Sea": 1}, "q4": {"Hill": 1}}
    assert task.notes == ("Questions that their text does not answer, left out: 1.",)


def test_squad_by_paragraph(tmp_path: Path) -> None:
    """Questions about one article stay one cluster; 'Fog.' answers none."""
    task = read_evidence(squad_file(tmp_path, squad_data()), unit="paragraph")
    assert task.name == "dev-v2.0-paragraphs"
    assert [(document.id, document.text, document.spans) for document in task.documents] == [
        ("Sea/0", "The sea is deep.", ()),
        ("Sea/1", "It sings. It is old.", ()),
        ("Sea/2", "Fog.", ()),
        ("Hill/0", HILL, ()),
    ]
    assert [(query.cluster, query.language) for query in task.queries] == [("Sea", ""), ("Sea", ""), ("Hill", "")]
    assert task.evidence == {
        "q1": Evidence("Sea/0", 11, 15),
        "q3": Evidence("Sea/1", 16, 19),
        "q4": Evidence("Hill/0", 2, 6),
    }
    assert task.notes[1:] == ("Documents that no query asks for, kept in the index: 1 of 4.",)


def test_titles_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    data = squad_data()
    data["data"][1]["title"] = "Sea"
    assert [one.id for one in read_evidence(squad_file(tmp_path, data)).documents] == ["Sea", "Sea (data[1])"]
    del data["data"][1]["title"]
    assert [one.id for one in read_evidence(squad_file(tmp_path, data)).documents] == ["Sea", "data[1]"]


def test_an_impossible_question_is_left_out_whatever_it_says(tmp_path: Path) -> None:
    """v2 gives such questions plausible answers; some conversions give them no field at all."""
    data = squad_data()
    question = data["data"][0]["paragraphs"][0]["qas"][1]
    for answers in ([{"text": "deep", "answer_start": 11}], None):
        question["answers"] = answers
        assert "q2" not in read_evidence(squad_file(tmp_path, data)).evidence
    del question["answers"]
    assert read_evidence(squad_file(tmp_path, data)).notes == (
        "Questions that their text does not answer, left out: 1.",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"answers": [{"text": "Deep", "answer_start": 11}]},
            "the answer 'Deep' is not at character 11 of the context; found 'deep'.",
        ),
        (
            {"answers": [{"text": "deep", "answer_start": 14}]},
            "characters 14 to 18 are not inside the context, which has 16.",
        ),
        (
            {"answers": [{"text": "deep", "answer_start": -5}]},
            "characters -5 to -1 are not inside the context, which has 16.",
        ),
        ({"id": "q4"}, "the id 'q4' was already used at dev-v2.0.json, data[0], paragraphs[0], qas[0]."),
        ({"id": None}, "'id' must be text or a whole number, got null."),
        ({"question": ""}, "'question' is empty."),
        ({"answers": "deep"}, "'answers' must be a list of objects, got the text 'deep'."),
    ],
)
def test_faults_of_a_squad_question(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    """The offset is the paragraph's: character 14 is inside the article but not inside its first paragraph."""
    data = squad_data()
    questions = data["data"][0]["paragraphs"][0]["qas"]
    questions[1] = {**questions[0], "id": "q9", **changes}
    questions[0]["id"] = "q4"
    data["data"][1]["paragraphs"][0]["qas"] = []
    for unit in ("article", "paragraph"):
        assert said(read_evidence, squad_file(tmp_path, data), unit=unit) == (
            f"dev-v2.0.json, data[0], paragraphs[0], qas[1]: {message}"
        )


def test_faults_of_a_squad_answer(tmp_path: Path) -> None:
    for answer, message in [
        ({"text": "", "answer_start": 1}, "answers[0]: 'text' is empty."),
        ({"text": "x"}, "answers[0]: there is no field 'answer_start'. Fields there: text."),
        ("deep", "answers[0]: not an object but the text 'deep'."),
    ]:
        data = squad_data()
        data["data"][1]["paragraphs"][0]["qas"][0]["answers"] = [answer]
        place = "dev-v2.0.json, data[1], paragraphs[0], qas[0]"
        assert said(read_evidence, squad_file(tmp_path, data)) == f"{place}, {message}"


def test_faults_of_a_squad_article(tmp_path: Path) -> None:
    for article, message in [
        ({"title": "x", "paragraphs": []}, ": 'paragraphs' is empty."),
        ({"title": "x"}, ": there is no field 'paragraphs'. Fields there: title."),
        ({"title": 4, "paragraphs": []}, ": 'title' must be text, got the number 4."),
        ({"paragraphs": [{"context": " ", "qas": []}]}, ", paragraphs[0]: 'context' is empty."),
        ({"paragraphs": [{"context": "x"}]}, ", paragraphs[0]: there is no field 'qas'. Fields there: context."),
        ([], ": not an object but a list."),
    ]:
        data = squad_data()
        data["data"].append(article)
        assert said(read_evidence, squad_file(tmp_path, data)) == f"dev-v2.0.json, data[2]{message}"


def test_faults_of_a_squad_file(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_bytes(b'{"data":\n [}')
    assert said(read_evidence, path) == (
        "train.json, line 2: not JSON (Expecting value, character 3). A file with one object per line must be called "
        ".jsonl."
    )
    path.write_bytes(b'{"data":\n\n "caf\xe9"}')
    assert said(read_evidence, path) == "train.json, line 3: not UTF-8. Save the file as UTF-8."
    path.write_bytes(b"[" * 200_000)
    assert said(read_evidence, path).startswith("train.json: JSON that cannot be read (")
    path.write_bytes(b'{"data": []}')
    assert said(read_evidence, path) == "train has no documents."


# Joined by a line break: "The sea is deep." 0 to 16, "It sings." 17 to 26.
SQUAD_ROWS: Rows = (
    {"id": "q1", "title": "Sea", "context": "The sea is deep.", "question": "How deep?"}
    | {"answers": {"text": ["deep", "sea"], "answer_start": [11, 4]}},
    {"id": "q2", "title": "Hill", "context": HILL, "question": "What?"}
    | {"answers": {"text": ["hill"], "answer_start": [2]}},
    {"id": "q3", "title": "Sea", "context": "It sings.", "question": "Does it?"}
    | {"answers": {"text": ["sings"], "answer_start": [3]}},
    {"id": "q4", "title": "Sea", "context": "The sea is deep.", "question": "How wide?"}
    | {"answers": {"text": [], "answer_start": []}},
)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_squad_rows_by_article(tmp_path: Path, ending: str) -> None:
    """A context that comes again, rows later, is the same paragraph."""
    task = read_evidence(write(tmp_path / f"squad.v2{ending}", SQUAD_ROWS), language="en")
    assert task.name == "squad.v2"
    assert task.documents == (
        Passage("Sea", "The sea is deep.\nIt sings.", "en", ((0, 16), (17, 26))),
        Passage("Hill", HILL, "en", ((0, 15),)),
    )
    assert task.evidence == {
        "q1": Evidence("Sea", 11, 15),
        "q2": Evidence("Hill", 2, 6),
        "q3": Evidence("Sea", 20, 25),
    }
    assert marked(task) == {"q1": "deep", "q2": "hill", "q3": "sings"}
    assert [query.cluster for query in task.queries] == ["Sea", "Hill", "Sea"]
    assert task.notes == (
        "Questions that their text does not answer, left out: 1.",
        "Articles hold the paragraphs that rows ask about, in the order in which rows first do.",
    )


def test_squad_rows_by_paragraph(tmp_path: Path) -> None:
    task = read_evidence(write(tmp_path / "rows.jsonl", SQUAD_ROWS), unit="paragraph")
    assert [document.id for document in task.documents] == ["Sea/0", "Sea/1", "Hill/0"]
    assert task.evidence["q3"] == Evidence("Sea/1", 3, 8)
    assert task.notes == ("Questions that their text does not answer, left out: 1.",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"answers": {"text": ["sing!"], "answer_start": [3]}},
            ": the answer 'sing!' is not at character 3 of the context; found 'sings'.",
        ),
        (
            {"answers": {"text": ["sings"], "answer_start": [5]}},
            ": characters 5 to 10 are not inside the context, which has 9.",
        ),
        (
            {"answers": {"text": ["sings"], "answer_start": []}},
            ", answers: 'text' and 'answer_start' must be lists of the same length.",
        ),
        (
            {"answers": {"text": "sings", "answer_start": 3}},
            ", answers: 'text' and 'answer_start' must be lists of the same length.",
        ),
        (
            {"answers": {"text": ["sings"], "answer_start": ["3"]}},
            ", answers: 'answer_start' must be a whole number, got the text '3'.",
        ),
        ({"answers": {"text": ["sings"]}}, ", answers: there is no field 'answer_start'. Fields there: text."),
        ({"id": "q2"}, ": the id 'q2' was already used at rows.jsonl, line 2."),
        ({"title": None}, ": 'title' must be text, got null."),
        ({"context": ""}, ": 'context' is empty."),
        ({"question": None}, ": 'question' must be text, got null."),
    ],
)
def test_faults_of_a_squad_row(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = write(tmp_path / "rows.jsonl", [*SQUAD_ROWS[:2], {**SQUAD_ROWS[2], **changes}])
    assert said(read_evidence, path) == f"rows.jsonl, line 3{message}"


def test_a_first_line_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"oh\n" + json.dumps(SQUAD_ROWS[0]).encode())
    message = "rows.jsonl, line 1: not JSON (Expecting value, character 1). Each line holds one object."
    assert said(read_evidence, path) == message
    path.write_bytes(b"oh\n")
    assert said(read_evidence, path) == message


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"queries.jsonl": "{}\n"},
        {"queries.jsonl": '{"_id": "1"}', "corpus.jsonl": '{"_id": "1"}'},
        {"en.jsonl": ""},
        {"readme.txt": "x"},
    ],
)
def test_folders_of_no_layout(tmp_path: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    message = said(read_evidence, tmp_path)
    assert message.startswith(f"{tmp_path} is no task with evidence. That is a folder with a JSONL file of documents")
    assert all(layout in message for layout in LAYOUTS)
    assert "A BEIR folder has corpus.jsonl, queries.jsonl and a folder qrels." in message
    if "corpus.jsonl" in files:
        assert message.endswith("Files and their fields there: corpus.jsonl (_id); queries.jsonl (_id).")


QUESTION: Row = {"qid": "q1", "question": "Which sing?", "article": "whales", "answer": "sing", "start_in_article": 5}
OWN_QUESTION: Row = {"id": "q1", "query": "Which sing?", "document": "whales", "start": 5, "answer": "sing"}
ARTICLES: Rows = ({"id": "whales", "text": "Some sing."}, {"id": "bees", "text": "Bees dance."})


@pytest.mark.parametrize("question", [QUESTION, OWN_QUESTION], ids=["positions", "own"])
def test_fields_say_what_a_file_holds_whatever_its_name(tmp_path: Path, question: Row) -> None:
    """articles.jsonl and questions.jsonl, which are no languages."""
    write(tmp_path / "articles.jsonl", ARTICLES)
    write(tmp_path / "questions.jsonl", [question])
    task = read_evidence(tmp_path)
    assert task.name == tmp_path.name
    assert [(one.id, one.text) for one in task.documents] == [("whales", "Some sing."), ("bees", "Bees dance.")]
    assert [(one.id, one.text, one.cluster) for one in task.queries] == [("q1", "Which sing?", "whales")]
    assert task.evidence["q1"] == Evidence("whales", 5, 9)
    assert {one.language for one in read_evidence(tmp_path, language="en").documents} == {"en"}
    name = "article" if question is QUESTION else "document"
    write(tmp_path / "questions.jsonl", [{**question, name: "wasps"}])
    assert said(read_evidence, tmp_path) == (
        f"questions.jsonl, line 1: there is no {name} 'wasps' in articles.jsonl."
    )


@pytest.mark.parametrize("name", ["en.jsonl", "articles.jsonl"])
def test_a_corpus_is_no_task(tmp_path: Path, name: str) -> None:
    """And what makes one of it is named, for a folder and for its file."""
    file = write(tmp_path / name, ARTICLES)
    for path in (tmp_path, file):
        with pytest.raises(TaskError) as caught:
            read_evidence(path)
        assert caught.value.for_command_line == (
            f"{path} is a corpus, which has texts and no questions: to search pages made of it, give the task "
            f"'pages' with --corpus {path}."
        )


def test_a_task_is_no_corpus(tmp_path: Path) -> None:
    write(tmp_path / "articles.jsonl", ARTICLES)
    for question, name in (
        (QUESTION, "questions"),
        (OWN_QUESTION, "questions"),
        ({"_id": "1", "text": "x"}, "queries"),
    ):
        file = write(tmp_path / f"{name}.jsonl", [question])
        for path, languages in ((tmp_path, None), (tmp_path, ["en"]), (file, None)):
            with pytest.raises(CorpusError, match="holds questions, and a corpus holds texts") as caught:
                Corpus.read(path, languages)
            assert str(caught.value).startswith(str(file))
        file.unlink()
    assert Corpus.read(tmp_path / "articles.jsonl", ["en"]).ids() == ("whales", "bees")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", '{"id": "q", "question": "x", "context": "y"}'),
        ("rows.jsonl", ""),
        ("rows.csv", "id,context,answers"),
        ("dev.json", "[]"),
        ("dev.json", '{"rows": []}'),
    ],
)
def test_files_of_no_layout(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    message = said(read_evidence, tmp_path / name)
    assert message.startswith(f"{tmp_path / name} is no task with evidence. That is ")
    assert all(layout in message for layout in LAYOUTS)


def test_nothing_there(tmp_path: Path) -> None:
    assert said(read_evidence, tmp_path / "no") == f"there is no file or folder {str(tmp_path / 'no')!r}."


def test_options_that_a_layout_has_no_use_for(tmp_path: Path) -> None:
    own = own_folder(tmp_path)
    positions = positions_folder(tmp_path)
    rows = write(tmp_path / "rows.jsonl", SQUAD_ROWS)
    assert said(read_evidence, rows, unit="sentence") == "unit must be one of article, paragraph, got 'sentence'."
    for path in (own, positions):
        assert said(read_evidence, path, unit="paragraph") == (
            f'{path} defines its own documents: unit="paragraph" is for files like SQuAD\'s.'
        )
    for path in (own, rows):
        assert said(read_evidence, path, documents="texts") == (
            f"{path} brings its own texts: documents is for {LAYOUTS[1]}."
        )


BEIR_CORPUS: Rows = (
    {"_id": "d1", "title": "Sea", "text": "It is deep. ", "metadata": {}},
    {"_id": "d2", "title": "", "text": "A hill."},
    {"_id": 3, "text": " Fog. "},
    {"_id": "d4", "title": "Only a title", "text": ""},
    {"_id": "d5", "title": " ", "text": "\n"},
    {"_id": "d6", "title": None, "text": ""},
)
BEIR_QUERIES: Rows = (
    {"_id": "q2", "text": "hill", "metadata": {}},
    {"_id": "q1", "text": "sea"},
    {"_id": "q3", "text": ""},
)
BEIR_QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq1\td4\t1\nq1\td2\t0\n"


def beir_folder(
    place: Path, qrels: str | bytes = BEIR_QRELS, corpus: Rows = BEIR_CORPUS, queries: Rows = BEIR_QUERIES
) -> Path:
    folder = place / "small"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    write(folder / "corpus.jsonl", corpus)
    write(folder / "queries.jsonl", queries)
    (folder / "qrels" / "test.tsv").write_bytes(qrels.encode() if isinstance(qrels, str) else qrels)
    return folder


def test_beir(tmp_path: Path) -> None:
    """The empty query q3 is not judged, so nobody reads it; q1 gains nothing from d2."""
    task = read_beir(beir_folder(tmp_path))
    assert task.name == "small-test"
    assert task.queries == (Query("q2", "hill"), Query("q1", "sea"))
    assert task.documents == (
        Passage("d1", "Sea It is deep."),
        Passage("d2", "A hill."),
        Passage("3", "Fog."),
        Passage("d4", "Only a title"),
    )
    assert relevant(task) == {"q1": {"d1": 2, "d4": 1}, "q2": {"d2": 1}}
    assert task.evidence == {}
    assert task.notes == ("Documents without any text, left out of the index: 2.",)


@pytest.mark.parametrize(
    "qrels",
    [
        "q1 0 d1 2\nq2 0 d2 1\nq1 Q0 d4 1\nq1 0 d2 -1\n",
        "q1\t0\td1\t2\nq2\t0\td2\t1.0\nq1\t0\td4\t1\n",
        "q1\td1\t2\r\n\r\nq2\td2\t1\r\nq1\td4\t1",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq1\td4\t1\n",
    ],
    ids=["TREC", "TREC with tabs", "no header, CRLF", "BOM"],
)
def test_other_forms_of_judgements(tmp_path: Path, qrels: str) -> None:
    """A first line that is a judgement is not taken for a header."""
    assert relevant(read_beir(beir_folder(tmp_path, qrels))) == {"q1": {"d1": 2, "d4": 1}, "q2": {"d2": 1}}


def test_beir_gzipped(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    plain = read_beir(folder)
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        assert said(read_beir, folder) == f"{file.parent} has both {file.name} and {file.name}.gz: remove one."
        file.unlink()
    assert read_beir(folder) == plain
    (folder / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(BEIR_QRELS.encode())[:-9])
    assert said(read_beir, folder).startswith("qrels/test.tsv.gz: the gzip file is damaged or cut off after line")


def test_splits(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    task = read_beir(folder, split="dev")
    assert task.name == "small-dev"
    assert relevant(task) == {"q2": {"d1": 1}}
    assert [query.id for query in task.queries] == ["q2"]
    assert said(read_beir, folder, split="train") == f"{folder} has no qrels/train.tsv. Splits there: dev, test."


def test_relevant_documents_without_text(tmp_path: Path) -> None:
    """q1 keeps d1 and loses d5; q2 had only d5 and d6."""
    task = read_beir(beir_folder(tmp_path, "q1\td1\t1\nq1\td5\t1\nq2\td5\t1\nq2\td6\t1\n"))
    assert relevant(task) == {"q1": {"d1": 1}}
    assert [query.id for query in task.queries] == ["q1"]
    assert task.notes == (
        "Documents without any text, left out of the index: 2.",
        "Judgements of documents without any text as relevant, dropped: 3.",
        "Queries that lose all their relevant documents by this, left out: 1.",
    )


def test_judgements_that_change_nothing(tmp_path: Path) -> None:
    """Three of score 0 name what is not there, q3 has no relevant document, and one line comes twice."""
    qrels = "q1\td1\t1\nq1\td99\t0\nq9\td1\t0\nq9\td99\t-1\nq3\td1\t0\nq1\td1\t1\n"
    task = read_beir(beir_folder(tmp_path, qrels, BEIR_CORPUS[:2]))
    assert relevant(task) == {"q1": {"d1": 1}}
    assert task.notes == (
        "Judged queries without a relevant document, left out: 2.",
        "Duplicate judgements, used once: 1.",
        "Judgements as not relevant whose query or document is not there, passed over: 3.",
    )


def test_the_same_text_twice(tmp_path: Path) -> None:
    corpus = [BEIR_CORPUS[0], {"_id": "copy", "text": "Sea It is deep."}, BEIR_CORPUS[1]]
    assert read_beir(beir_folder(tmp_path, "q1\td1\t1\n", corpus)).notes == ("Documents with identical text: 2.",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q9\td1\t1", "there is no query 'q9' in queries.jsonl."),
        ("q1\td9\t1", "there is no document 'd9' in corpus.jsonl."),
        ("q1\td1\tyes", "the score must be a number, got 'yes'."),
        ("q1\td1\tnan", "the score must be a number, got 'nan'."),
        ("q1\td1\t2", "the score is 2, but 1 at qrels/test.tsv, line 2."),
        ("q1\td1", "expected 3 columns (query-id, corpus-id, score) or TREC's 4, got 2."),
        ("q1 0 d1 1 5", "expected 3 columns (query-id, corpus-id, score) or TREC's 4, got 5."),
        ("q1\t\t1", "expected 3 columns (query-id, corpus-id, score) or TREC's 4, got 2."),
        ("query-id\tcorpus-id\tscore", "the score must be a number, got 'score'."),
        (b"q1\td\xe9\t1", "byte 5 of the line (0xe9) is not UTF-8. Save the file as UTF-8."),
    ],
)
def test_faults_of_a_judgement(tmp_path: Path, line: str | bytes, message: str) -> None:
    """Line 3 is blank and counts; a header counts too, and only once."""
    middle = line.encode() if isinstance(line, str) else line
    folder = beir_folder(tmp_path, b"query-id\tcorpus-id\tscore\nq1\td1\t1\n\n" + middle + b"\nq2\td2\t1\n")
    assert said(read_beir, folder) == f"qrels/test.tsv, line 4: {message}"


def test_a_first_line_that_is_no_judgement(tmp_path: Path) -> None:
    """Nothing but a header is passed over."""
    folder = beir_folder(tmp_path, "q1\td1\tone\nq2\td2\t1\n")
    assert said(read_beir, folder) == "qrels/test.tsv, line 1: the score must be a number, got 'one'."


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        ("corpus.jsonl", {"_id": "d1", "text": "x"}, "the id 'd1' was already used at corpus.jsonl, line 1."),
        ("corpus.jsonl", {"id": "d9", "text": "x"}, "there is no field '_id'. Fields there: id, text."),
        ("corpus.jsonl", {"_id": "d9", "title": "x"}, "there is no field 'text'. Fields there: _id, title."),
        ("corpus.jsonl", {"_id": "d9", "text": None}, "'text' must be text, got null."),
        ("corpus.jsonl", {"_id": "d9", "text": "x", "title": 1}, "'title' must be text, got the number 1."),
        ("queries.jsonl", {"_id": "q1", "text": "x"}, "the id 'q1' was already used at queries.jsonl, line 1."),
        ("queries.jsonl", {"_id": "q2", "text": " "}, "'text' is empty."),
        ("queries.jsonl", {"_id": "q2"}, "there is no field 'text'. Fields there: _id."),
    ],
)
def test_faults_of_a_beir_line(tmp_path: Path, file: str, row: dict[str, object], message: str) -> None:
    folder = beir_folder(tmp_path, "q1\td1\t1\nq2\td1\t1\n")
    write(folder / file, [{"_id": "d1" if file == "corpus.jsonl" else "q1", "text": "x"}, row])
    if file == "corpus.jsonl":
        write(folder / "queries.jsonl", [{"_id": "q1", "text": "x"}, {"_id": "q2", "text": "x"}])
    assert said(read_beir, folder) == f"{file}, line 2: {message}"


def test_a_beir_line_that_is_no_json(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (folder / "corpus.jsonl").write_bytes(b'{"_id": "d1", "text": "x"}\n[1]\n')
    assert said(read_beir, folder) == ("corpus.jsonl, line 2: not an object but a list. Each line holds one object.")


def test_what_is_missing(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path, "query-id\tcorpus-id\tscore\n")
    assert said(read_beir, folder) == "qrels/test.tsv holds no judgements."
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t0\n")
    assert said(read_beir, folder) == "small-test has no queries."
    (folder / "qrels" / "test.tsv").unlink()
    assert said(read_beir, folder) == f"{folder} has no qrels/test.tsv. Splits there: none."
    for name in ("queries.jsonl", "corpus.jsonl"):
        (folder / name).unlink()
        assert said(read_beir, folder) == f"{folder} has no {name} (or {name}.gz)."
    assert said(read_beir, folder / "no") == f"there is no folder {str(folder / 'no')!r}."


@pytest.mark.parametrize(("language", "repeated"), [("en", 212), ("de", 191), ("hi", 220), ("zh", 234)])
def test_xquad(shared: Path, language: str, repeated: int) -> None:
    """All of it, against the raw lines: 1190 questions about 48 articles of five paragraphs."""
    folder = shared / "retrieval" / "xquad_positions"
    if not folder.is_dir() or not (shared / "corpora" / "xquad").is_dir():
        pytest.skip("needs ../shared/retrieval/xquad_positions and ../shared/corpora/xquad")
    task = read_evidence(folder, language=language)
    rows = [json.loads(line) for line in (folder / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()]
    corpus = shared / "corpora" / "xquad" / f"{language}.jsonl"
    articles = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    assert (len(task.queries), len(task.documents)) == (1190, 48)
    assert [(query.id, query.text, query.cluster) for query in task.queries] == [
        (row["qid"], row["question"], row["article"]) for row in rows
    ]
    assert {query.language for query in task.queries} == {language}
    assert marked(task) == {row["qid"]: row["answer"] for row in rows}
    assert {id: found.start for id, found in task.evidence.items()} == {
        row["qid"]: row["start_in_article"] for row in rows
    }
    for document, article in zip(task.documents, articles, strict=True):
        assert [document.text[start:end] for start, end in document.spans] == article["paragraphs"]
    assert task.notes == (
        f"Answers that occur more than once in their document, so that another place may be meant: {repeated}.",
    )


def test_scifact(shared: Path) -> None:
    """5183 abstracts, all with a title and a text; 339 judgements of 300 queries, all of score 1."""
    folder = shared / "retrieval" / "scifact"
    if not folder.is_dir():
        pytest.skip("needs ../shared/retrieval/scifact")
    task = read_beir(folder)
    assert (len(task.queries), len(task.documents)) == (300, 5183)
    pairs = [(query, document) for query, gains in task.relevant.items() for document in gains]
    lines = (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]
    assert sorted("\t".join((*pair, "1")) for pair in pairs) == sorted(lines)
    assert len(lines) == 339
    with (folder / "corpus.jsonl").open(encoding="utf-8") as file:
        first = json.loads(next(file))
    assert task.documents[0] == Passage(first["_id"], f"{first['title']} {first['text']}".strip())
    assert task.notes == ()
    assert len(read_beir(folder, split="train").queries) == 809
