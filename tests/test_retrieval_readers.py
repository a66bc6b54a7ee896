"""Readers of retrieval tasks: what they find, by hand; every fault has its file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairspan.encoding.tokens import Characters
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import CHOICES, TaskOptions, TaskSource, find_source
from fairspan.retrieval.splitting import link_queries
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from fairspan.runs.identity import key_of
from fairspan.studies.evaluate.options import EvaluateOptions
from tests.saying import said_by
from tests.test_corpus import write

Row = Mapping[str, object]
Rows = Sequence[Row]


def read(folder: Path | str, **options: Any) -> tuple[RetrievalTask, ...]:
    """A collection as a user names it."""
    return source_of(folder, **options).read(Characters())


def source_of(task: Path | str, **options: Any) -> TaskSource:
    return find_source(str(task), TaskOptions(**options))


def relevant(task: RetrievalTask) -> dict[str, dict[str, float]]:
    return {query: dict(gains) for query, gains in task.relevant.items()}


def marked(task: RetrievalTask) -> dict[str, str]:
    """The characters that each query's evidence covers."""
    texts = {document.id: document.text for document in task.documents}
    return {id: texts[one.document][one.start : one.end] for id, one in task.evidence.items()}


# --- BEIR

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
FILES = ("corpus", "queries")
BEIR_QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq1\td4\t1\nq1\td2\t0\n"


def beir_folder(
    place: Path,
    qrels: str | bytes = BEIR_QRELS,
    corpus: Rows = BEIR_CORPUS,
    queries: Rows = BEIR_QUERIES,
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
    task = read_beir(beir_folder(tmp_path, qrels))
    assert relevant(task) == {"q1": {"d1": 2, "d4": 1}, "q2": {"d2": 1}}


def test_beir_gzipped(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    plain = read_beir(folder)
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        said = f"{file.parent} has both {file.name} and {file.name}.gz: remove one."
        assert said_by(read_beir, folder) == said
        file.unlink()
    assert read_beir(folder) == plain
    (folder / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(BEIR_QRELS.encode())[:-9])
    assert said_by(read_beir, folder).startswith("test.tsv.gz is damaged or cut off.")


def test_splits(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    task = read_beir(folder, split="dev")
    assert task.name == "small-dev"
    assert relevant(task) == {"q2": {"d1": 1}}
    assert [query.id for query in task.queries] == ["q2"]
    said = f"{folder} has no qrels/train.tsv. Splits there: dev, test."
    assert said_by(read_beir, folder, split="train") == said


def test_relevant_documents_without_text(tmp_path: Path) -> None:
    """q1 keeps d1 and loses d5; q2 had only d5 and d6."""
    task = read_beir(beir_folder(tmp_path, "q1\td1\t1\nq1\td5\t1\nq2\td5\t1\nq2\td6\t1\n"))
    assert relevant(task) == {"q1": {"d1": 1}}
    assert [query.id for query in task.queries] == ["q1"]
    assert task.notes == (
        "Documents without any text, left out of the index: 2.",
        "Judgements of documents without any text as relevant, dropped: 3.",
        "Judged queries without a relevant document, left out: 1.",
    )


def test_judgements_that_change_nothing(tmp_path: Path) -> None:
    """Three of score 0 name what is not there, q3 has no answer, and one line comes twice."""
    qrels = "q1\td1\t1\nq1\td99\t0\nq9\td1\t0\nq9\td99\t-1\nq3\td1\t0\nq1\td1\t1\n"
    task = read_beir(beir_folder(tmp_path, qrels, BEIR_CORPUS[:2]))
    assert relevant(task) == {"q1": {"d1": 1}}
    assert task.notes == ("Judged queries without a relevant document, left out: 2.",)


def test_the_same_text_twice(tmp_path: Path) -> None:
    corpus = [BEIR_CORPUS[0], {"_id": "copy", "text": "Sea It is deep."}, BEIR_CORPUS[1]]
    task = read_beir(beir_folder(tmp_path, "q1\td1\t1\n", corpus))
    assert task.notes == ("Documents with identical text: 2.",)


COLUMNS = "expected 3 columns (query-id, corpus-id, score) or TREC's 4, got "


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q9\td1\t1", "there is no query 'q9' in queries.jsonl."),
        ("q1\td9\t1", "there is no document 'd9' in corpus.jsonl."),
        ("q1\td1\tyes", "the score must be a number, got 'yes'."),
        ("q1\td1\tnan", "the score must be a number, got 'nan'."),
        ("q1\td1\t2", "the score is 2, but 1 before."),
        ("q1\td1", f"{COLUMNS}2."),
        ("q1 0 d1 1 5", f"{COLUMNS}5."),
        ("q1\t\t1", f"{COLUMNS}2."),
        ("query-id\tcorpus-id\tscore", "the score must be a number, got 'score'."),
        (b"q1\td\xe9\t1", "byte 5 of the line (0xe9) is not UTF-8. Save the file as UTF-8."),
    ],
)
def test_faults_of_a_judgement(tmp_path: Path, line: str | bytes, message: str) -> None:
    """Line 3 is blank and counts; a header counts too, and only once."""
    middle = line.encode() if isinstance(line, str) else line
    before = b"query-id\tcorpus-id\tscore\nq1\td1\t1\n\n"
    folder = beir_folder(tmp_path, before + middle + b"\nq2\td2\t1\n")
    assert said_by(read_beir, folder) == f"qrels/test.tsv, line 4: {message}"


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        (
            "corpus",
            {"_id": "x", "text": "x"},
            "the id 'x' was already used at corpus.jsonl, line 1.",
        ),
        ("corpus", {"id": "y", "text": "x"}, "there is no field '_id'. Fields there: id, text."),
        (
            "corpus",
            {"_id": "y", "title": "x"},
            "there is no field 'text'. Fields there: _id, title.",
        ),
        ("corpus", {"_id": "y", "text": None}, "'text' must be text, got null."),
        ("corpus", {"_id": "y", "text": "x", "title": 1}, "'title' must be text, got 1."),
        (
            "queries",
            {"_id": "x", "text": "x"},
            "the id 'x' was already used at queries.jsonl, line 1.",
        ),
        ("queries", {"_id": "y", "text": " "}, "'text' is empty."),
        ("queries", {"_id": "y"}, "there is no field 'text'. Fields there: _id."),
    ],
)
def test_faults_of_a_beir_line(
    tmp_path: Path, file: str, row: dict[str, object], message: str
) -> None:
    rows = {name: [{"_id": "x", "text": "x"}, {"_id": "y", "text": "x"}] for name in FILES}
    rows[file] = [rows[file][0], row]
    folder = beir_folder(tmp_path, "x\tx\t1\ny\tx\t1\n", **rows)
    assert said_by(read_beir, folder) == f"{file}.jsonl, line 2: {message}"


def test_what_is_missing(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path, "query-id\tcorpus-id\tscore\n")
    assert said_by(read_beir, folder) == "qrels/test.tsv holds no judgements."
    (folder / "qrels" / "test.tsv").write_text("q1\td1\t0\n")
    assert said_by(read_beir, folder) == "small-test has no queries."
    (folder / "qrels" / "test.tsv").unlink()
    assert said_by(read_beir, folder) == f"{folder} has no qrels/test.tsv. Splits there: none."
    for name in ("queries.jsonl", "corpus.jsonl"):
        (folder / name).unlink()
        assert said_by(read_beir, folder) == f"{folder} has no {name} (or {name}.gz)."
    for name in (str(folder / "no"), f"beir:{folder}/no"):
        assert said_by(read, name) == f"there is no task {name!r}: it is {CHOICES}."
    assert said_by(read, folder.parent / "small" / "qrels").endswith(
        f"without questions, give the task 'passages' with corpus={folder}/qrels."
    )


# --- evidence in the metadata of BEIR files

#      0         1         2
#      0123456789012345678901234
SEA = "The sea is deep. It sings."
PLACED: Rows = (
    {"_id": "sea", "text": SEA, "metadata": {"segments": [[0, 16], [17, 26]], "language": "en"}},
    {"_id": "hill", "title": "Hill", "text": "It is high."},
)


def placed_folder(
    place: Path, *metadata: object, corpus: Rows = PLACED, asked: str = "sea"
) -> Path:
    """Queries q0, q1, … with this metadata, all answered by one document."""
    ids = [f"q{number}" for number in range(len(metadata))]
    queries = [
        {"_id": id, "text": "x", "metadata": own} for id, own in zip(ids, metadata, strict=True)
    ]
    qrels = "".join(f"{id}\t{asked}\t1\n" for id in ids)
    return beir_folder(place, qrels, corpus, queries)


def test_evidence_by_characters_segment_and_fifth(tmp_path: Path) -> None:
    """Of 26 characters the fifths have their middles at 2, 7, 13, 18 and 23."""
    folder = placed_folder(
        tmp_path,
        {"start": 11, "answer": "deep"},
        {"start": 17, "end": 26, "document": "sea", "language": "de"},
        {"start": 11},
        {"segment": 1},
        {"fifth": 4},
        {"fifth": -1},
        {"start": 0, "end": 3, "fifth": 2},
        {},
        None,
    )
    task = read_beir(folder)
    assert task.evidence == {
        "q0": Evidence("sea", 11, 15),
        "q1": Evidence("sea", 17, 26),
        "q2": Evidence("sea", 11, 12),
        "q3": Evidence("sea", 17, 26),
        "q4": Evidence("sea", 23, 24, 4),
        "q6": Evidence("sea", 0, 3, 2),
    }
    sea = Passage("sea", SEA, "en", ((0, 16), (17, 26)))
    assert task.documents == (sea, Passage("hill", "Hill It is high."))
    assert [query.cluster for query in task.queries] == ["sea"] * 7 + ["", ""]
    assert [query.language for query in task.queries] == ["", "de"] + [""] * 7


def test_characters_are_those_of_the_text_without_its_title(tmp_path: Path) -> None:
    spaced = [{"_id": "hill", "text": "  It is high."}]
    for start, corpus in ((6, PLACED), (8, spaced)):
        metadata = {"start": start, "answer": "high"}
        folder = placed_folder(tmp_path, metadata, corpus=corpus, asked="hill")
        assert marked(read_beir(folder)) == {"q0": "high"}


def test_one_language_of_a_folder(tmp_path: Path) -> None:
    """A text that names no language is taken to be in the one asked for; every document stays."""
    folder = placed_folder(tmp_path, {"language": "de"}, {}, {"language": "en"})
    (task,) = read(folder, language="de")
    assert [(query.id, query.language) for query in task.queries] == [("q0", "de"), ("q1", "de")]
    languages = {document.id: document.language for document in task.documents}
    assert languages == {"sea": "en", "hill": "de"}
    assert task.notes == ("Queries not in 'de', left out: 1.",)
    placed_folder(tmp_path, {"language": "de"}, {"language": "en"})
    said = f"{folder} has no queries in 'hi'. Languages there: de, en."
    assert said_by(read, folder, language="hi") == said


OUTSIDE = "are not inside the document 'sea', which has 26."


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (
            {"start": 10, "answer": "deep"},
            "the answer 'deep' is not at character 10 of the document 'sea'; found ' dee'.",
        ),
        ({"start": 23, "answer": "deep"}, f"characters 23 to 27 {OUTSIDE}"),
        ({"start": -4}, f"characters -4 to -3 {OUTSIDE}"),
        ({"start": 11, "end": 11}, f"characters 11 to 11 {OUTSIDE}"),
        ({"start": 11.0}, "'start' must be a whole number, got 11.0."),
        ({"start": 0, "end": True}, "'end' must be a whole number, got true."),
        ({"segment": 2}, "'segment' is 2, and the document 'sea' has 2, counted from 0."),
        ({"fifth": 5}, "'fifth' must be from 0 to 4, or -1 where it is not known, got 5."),
        ({"fifth": "0"}, "'fifth' must be a whole number, got \"0\"."),
        (
            {"start": 0, "document": "hill"},
            "'document' is 'hill', which does not answer the query: sea does.",
        ),
        ({"language": 3}, "'language' must be text, got 3."),
    ],
)
def test_faults_of_a_position(tmp_path: Path, metadata: Row, message: str) -> None:
    folder = placed_folder(tmp_path, {}, metadata, {})
    assert said_by(read_beir, folder) == f"queries.jsonl, line 2, metadata: {message}"


def test_metadata_that_are_no_object(tmp_path: Path) -> None:
    message = "queries.jsonl, line 1: 'metadata' must be an object, got \"x\"."
    assert said_by(read_beir, placed_folder(tmp_path, "x")) == message


def test_of_several_documents_the_best_has_the_evidence(tmp_path: Path) -> None:
    """Unless another one is named."""
    for metadata, wanted in (
        ({"start": 0}, Evidence("hill", 5, 6)),
        ({"start": 0, "document": "sea"}, Evidence("sea", 0, 1)),
    ):
        queries = [{"_id": "q", "text": "x", "metadata": metadata}]
        folder = beir_folder(tmp_path, "q\tsea\t1\nq\thill\t2\n", PLACED, queries)
        assert read_beir(folder).evidence == {"q": wanted}


@pytest.mark.parametrize(
    "segments",
    [3, [[0, 4, 5]], [[0, 4.0]], [[0, 4], [3, 9]], [[5, 5]], [[0, 4], [4, 27]], [[-1, 4]]],
)
def test_faults_of_segments(tmp_path: Path, segments: object) -> None:
    corpus = [{"_id": "sea", "text": SEA, "metadata": {"segments": segments}}]
    said = "corpus.jsonl, line 1, metadata: 'segments' must list [start, end] of segments one"
    assert said_by(read_beir, placed_folder(tmp_path, {}, corpus=corpus)).startswith(said)


# --- several languages


def several_folder(place: Path) -> Path:
    """The same queries and documents as two BEIR folders, named by their languages."""
    for language in ("de", "en"):
        corpus = [{"_id": "a", "text": f"{language} sea"}, {"_id": "b", "text": f"{language} hill"}]
        folder = beir_folder(place, "q\ta\t1\n", corpus, [{"_id": "q", "text": language}])
        folder.rename(place / language)
    return place


def test_a_folder_for_each_language(tmp_path: Path) -> None:
    folder = several_folder(tmp_path)
    tasks = read(folder, languages=("de", "en"))
    assert [task.name for task in tasks] == [f"{tmp_path.name}-de", f"{tmp_path.name}-en"]
    for task, language in zip(tasks, ("de", "en"), strict=True):
        assert task.queries == (Query("q", language, language),)
        assert task.documents[1] == Passage("b", f"{language} hill", language)
    assert read(folder, language="de") == tasks[:1]
    assert read(folder) == tasks[1:], "English unless another is named"
    said = f"{tmp_path.name} has no 'hi'. Languages there: de, en."
    assert said_by(read, folder, language="hi") == said
    assert said_by(read, folder, languages=("de", "hi")) == said


def test_languages_that_would_do_nothing(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    for task in (str(folder), f"beir:{folder}", "mteb:SciFact"):
        assert said_by(source_of, task, languages=("de", "en")) == (
            "languages is for passages, pages, a collection in several languages: "
            f"omit it for {task}."
        )
        options = TaskOptions(languages=("de", "en"))
        assert find_source(task, options, ["languages"]) == source_of(task), "used elsewhere"
    for languages, named in (((), "none"), (("de",), "'de'"), (("de", "de"), "'de', 'de'")):
        said = f"needs at least two different languages, got {named}: name more"
        assert said in said_by(source_of, tmp_path, languages=languages)


# --- XQuAD's positions: two paragraphs of 16 and 9 characters with an empty line between them

POSITIONS_TEXT = "The sea is deep.\n\nIt sings."


def positions_row(**changes: object) -> dict[str, object]:
    row = {"qid": "q1", "question": "How deep?", "article": "00", "answer": "deep"}
    places = {"start_in_paragraph": 11, "paragraph_chars": 16, "start_in_article": 11}
    return {**row, **places, **changes}


def positions_folder(place: Path, **changes: object) -> Path:
    """Questions in German and English."""
    places = {"start_in_paragraph": 3, "paragraph_chars": 9, "start_in_article": 21}
    second = positions_row(qid="q2", answer="sings", **places)
    folder = place / "sea_positions"
    corpus = folder / "documents"
    for one in (folder, corpus):
        one.mkdir(parents=True, exist_ok=True)
    for language in ("de", "en"):
        write(folder / f"{language}.jsonl", [positions_row(), {**second, **changes}])
        write(corpus / f"{language}.jsonl", [{"id": "00", "text": POSITIONS_TEXT}])
    return folder


def test_positions(tmp_path: Path) -> None:
    folder = positions_folder(tmp_path)
    (task,) = read(folder)
    assert task.name == "sea_positions-en"
    assert task.queries == tuple(Query(id, "How deep?", "en", "00") for id in ("q1", "q2"))
    assert task.documents == (Passage("00", POSITIONS_TEXT, "en", ((0, 16), (18, 27))),)
    assert task.evidence == {"q1": Evidence("00", 11, 15), "q2": Evidence("00", 21, 26)}
    assert relevant(task) == {"q1": {"00": 1}, "q2": {"00": 1}}
    both = read(folder, languages=("en", "de"))
    assert [one.name for one in both] == ["sea_positions-en", "sea_positions-de"]
    (folder / "documents").rename(tmp_path / "elsewhere")
    assert said_by(read, folder) == (
        f"{folder} has questions but no articles: put the corpus that has them into "
        f"{folder / 'documents'}, as a copy or a link."
    )
    (folder / "documents").symlink_to(tmp_path / "elsewhere")
    assert [one.queries for one in read(folder)] == [task.queries]
    options = EvaluateOptions(SimpleNamespace(identity="m"), f"beir:{folder}")
    before = key_of(options)
    with (tmp_path / "elsewhere" / "en.jsonl").open("a") as file:
        file.write("\n")
    assert key_of(options) not in (None, before), "the articles decide, wherever the link leads"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"start_in_article": 20},
            "the answer 'sings' is not at character 20 of the document '00'; found ' sing'.",
        ),
        ({"article": "01"}, "there is no article '01' in documents (en)."),
        ({"qid": "q1"}, "the id 'q1' was already used at en.jsonl, line 1."),
        ({"answer": ""}, "'answer' is empty."),
        ({"start_in_paragraph": "3"}, "'start_in_paragraph' must be a whole number, got \"3\"."),
    ],
)
def test_faults_of_positions(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    assert said_by(read, positions_folder(tmp_path, **changes)) == f"en.jsonl, line 2: {message}"


# --- the real ones


@pytest.mark.parametrize("language", ["en", "de", "hi", "zh"])
def test_xquad(shared: Path, tmp_path: Path, language: str) -> None:
    """All of it, against the raw lines: 1190 questions about 48 articles of five paragraphs."""
    folder = shared / "retrieval" / "xquad_positions"
    if not folder.is_dir() or not (shared / "corpora" / "xquad").is_dir():
        pytest.skip("needs ../shared/retrieval/xquad_positions and ../shared/corpora/xquad")
    (tmp_path / "documents").symlink_to(shared / "corpora" / "xquad")
    (tmp_path / f"{language}.jsonl").symlink_to(folder / f"{language}.jsonl")
    (task,) = read(tmp_path, language=language)
    corpus = shared / "corpora" / "xquad" / f"{language}.jsonl"
    rows, articles = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in (folder / f"{language}.jsonl", corpus)
    )
    assert (len(task.queries), len(task.documents)) == (1190, 48)
    names = ("qid", "question", "article")
    asked = [
        Query(id, text, language, cluster) for id, text, cluster in map(itemgetter(*names), rows)
    ]
    assert list(task.queries) == asked
    assert marked(task) == {row["qid"]: row["answer"] for row in rows}
    assert {id: found.start for id, found in task.evidence.items()} == {
        row["qid"]: row["start_in_article"] for row in rows
    }
    for document, article in zip(task.documents, articles, strict=True):
        assert [document.text[start:end] for start, end in document.spans] == article["paragraphs"]


def test_qmsum(shared: Path) -> None:
    """The fifths are those of the raw lines; 196 of 1,527 queries have none."""
    folder = shared / "retrieval" / "longembed_qmsum"
    if not folder.is_dir():
        pytest.skip("needs ../shared/retrieval/longembed_qmsum")
    task = read_beir(folder)
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    fifths = {row["_id"]: row["metadata"]["fifth"] for row in map(json.loads, lines)}
    assert {id: found.fifth for id, found in task.evidence.items()} == {
        id: fifth for id, fifth in fifths.items() if fifth >= 0
    }
    assert (len(task.queries), len(task.evidence)) == (1527, 1331)
    assert all(query.cluster in task.relevant[query.id] for query in task.queries)


def test_scifact(shared: Path) -> None:
    """5183 abstracts, all with title and text; 339 judgements of 300 queries, all of score 1."""
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
    [linked] = link_queries([MeasuredTask(task, {}, {}, {})])
    assert len({query.cluster or query.id for query in linked.task.queries}) == 247, (
        "as many as share no abstract"
    )
    assert len(read_beir(folder, split="train").queries) == 809
