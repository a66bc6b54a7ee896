"""Collections in BEIR's layout: what is read, by hand; every fault has its file and line."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from tests.builders.saying import said_by
from tests.corpus.test_corpus import write

Row = Mapping[str, object]
Rows = Sequence[Row]

CORPUS: Rows = (
    {"_id": "d1", "title": "Sea", "text": "It is deep. ", "metadata": {}},
    {"_id": "d2", "title": "", "text": "A hill."},
    {"_id": 3, "text": " Fog. "},
    {"_id": "d4", "title": "Only a title", "text": ""},
    {"_id": "d5", "title": " ", "text": "\n"},
    {"_id": "d6", "title": None, "text": ""},
)
QUERIES: Rows = (
    {"_id": "q2", "text": "hill", "metadata": {}},
    {"_id": "q1", "text": "sea"},
    {"_id": "q3", "text": ""},
)
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq1\td4\t1\nq1\td2\t0\n"


def beir_folder(
    place: Path, qrels: str | bytes = QRELS, corpus: Rows = CORPUS, queries: Rows = QUERIES
) -> Path:
    folder = place / "small"
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    write(folder / "corpus.jsonl", corpus)
    write(folder / "queries.jsonl", queries)
    (folder / "qrels" / "test.tsv").write_bytes(qrels.encode() if isinstance(qrels, str) else qrels)
    return folder


def relevant(task: RetrievalTask) -> dict[str, dict[str, float]]:
    return {query: dict(gains) for query, gains in task.relevant.items()}


def test_texts_and_judgements(tmp_path: Path) -> None:
    """Nobody reads the empty query q3, which is not judged; q1 gains nothing from d2."""
    task = read_beir(beir_folder(tmp_path))
    assert task.name == "small-test"
    assert task.queries == (Query("q2", "hill"), Query("q1", "sea"))
    texts = {"d1": "Sea It is deep.", "d2": "A hill.", "3": "Fog.", "d4": "Only a title"}
    assert task.documents == tuple(Passage(*pair) for pair in texts.items())
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


def test_gzipped_files(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    plain = read_beir(folder)
    for file in (folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / "test.tsv"):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        said = f"{file.parent} has both {file.name} and {file.name}.gz: remove one."
        assert said_by(read_beir, folder) == said
        file.unlink()
    assert read_beir(folder) == plain
    (folder / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(QRELS.encode())[:-9])
    assert said_by(read_beir, folder).startswith("test.tsv.gz is damaged or cut off.")


def test_splits(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    task = read_beir(folder, split="dev")
    assert (task.name, relevant(task)) == ("small-dev", {"q2": {"d1": 1}})
    said = f"{folder} has no qrels/train.tsv. Splits there: dev, test. Name one, such as {folder}"
    assert said_by(read_beir, folder, split="train") == f"{said}/qrels/dev.tsv."


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """q1 loses d5, q2 had only d5 and d6; q3 has no answer, judgements of 0 may name what is not
    there, and one line comes twice. Copies are counted too."""
    lines = "q1 0 d1 1,q1 0 d5 1,q2 0 d5 1,q2 0 d6 1,q3 0 d1 0,q1 0 d99 0,q9 0 d1 0,q1 0 d1 1"
    corpus = [*CORPUS, {"_id": "copy", "text": "Sea It is deep."}]
    task = read_beir(beir_folder(tmp_path, lines.replace(",", "\n"), corpus))
    assert relevant(task) == {"q1": {"d1": 1}}
    assert task.notes == (
        "Documents without any text, left out of the index: 2.",
        "Judgements of documents without any text as relevant, dropped: 3.",
        "Judged queries without a relevant document, left out: 3.",
        "Documents with identical text: 2.",
    )


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


WRONG_SEGMENTS = (3, [[0, 4, 5]], [[0, 4.0]], [[0, 4], [3, 7]], [[5, 5]], [[4, 8]], [[-1, 4]])


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        (
            "corpus",
            {"_id": "x", "text": "x"},
            ": the id 'x' was already used at corpus.jsonl, line",
        ),
        ("corpus", {"id": "y", "text": "x"}, ": there is no field '_id'. Fields there: id, text."),
        ("corpus", {"_id": "y", "text": None}, ": 'text' must be text, got null."),
        ("corpus", {"_id": "y", "text": "x", "title": 1}, ": 'title' must be text, got 1."),
        ("queries", {"_id": "y", "text": " "}, ": 'text' is empty."),
        ("queries", {"_id": "y", "text": "x", "metadata": "x"}, ": 'metadata' must be an object,"),
        *(
            ("corpus", {"_id": "y", "text": "0123456", "metadata": {"segments": segments}}, place)
            for place in [", metadata: 'segments' must list [start, end] of segments one after"]
            for segments in WRONG_SEGMENTS
        ),
    ],
)
def test_faults_of_a_line(tmp_path: Path, file: str, row: Row, message: str) -> None:
    first = {"_id": "x", "text": "x"}
    rows = {"corpus": [first, {"_id": "y", "text": "x"}], "queries": [first]}
    folder = beir_folder(tmp_path, "x\tx\t1\n", **{**rows, file: [first, row]})
    if file == "queries":
        (folder / "qrels" / "test.tsv").write_text("x\tx\t1\ny\tx\t1\n")
    assert said_by(read_beir, folder).startswith(f"{file}.jsonl, line 2{message}")


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


# Evidence in the metadata.

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
    """Of 26 characters the last fifth has its middle at 23."""
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
        "q4": Evidence("sea", 23, 24, 4, exact=False),
        "q6": Evidence("sea", 0, 3, 2),
    }
    sea = Passage("sea", SEA, "en", ((0, 16), (17, 26)))
    assert task.documents == (sea, Passage("hill", "Hill It is high."))
    assert [query.cluster for query in task.queries] == ["sea"] * 7 + ["", ""]
    assert [query.language for query in task.queries] == ["", "de"] + [""] * 7


@pytest.mark.parametrize(
    ("hill", "metadata", "evidence"),
    [
        ({"title": "Hill", "text": "It is high."}, {"start": 6}, Evidence("hill", 11, 12)),
        ({"text": "  It is high."}, {"start": 8, "answer": "high"}, Evidence("hill", 6, 10)),
        ({"text": "It is high."}, {"start": 0, "document": "sea"}, Evidence("sea", 0, 1)),
    ],
)
def test_of_several_documents_the_best_has_the_evidence(
    tmp_path: Path, hill: Row, metadata: Row, evidence: Evidence
) -> None:
    """Unless another one is named. Characters are those of the text before its title is added and
    its white space removed."""
    corpus = [PLACED[0], {"_id": "hill", **hill}]
    queries = [{"_id": "q", "text": "x", "metadata": metadata}]
    folder = beir_folder(tmp_path, "q\tsea\t1\nq\thill\t2\n", corpus, queries)
    assert read_beir(folder).evidence == {"q": evidence}


def test_one_language_of_a_folder(tmp_path: Path) -> None:
    """A text that names no language is taken to be in the one asked for; every document stays."""
    folder = placed_folder(tmp_path, {"language": "de"}, {}, {"language": "en"})
    task = read_beir(folder, language="de")
    assert [(query.id, query.language) for query in task.queries] == [("q0", "de"), ("q1", "de")]
    assert [document.language for document in task.documents] == ["en", "de"]
    assert task.notes == ("Queries not in 'de', left out: 1.",)
    placed_folder(tmp_path, {"language": "de"}, {"language": "en"})
    said = f"{folder} has no queries in 'hi'. Languages there: de, en."
    assert said_by(read_beir, folder, language="hi") == said


OUTSIDE = "are not inside the document 'sea', which has 26."


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"start": 10, "answer": "deep"}, "the answer 'deep' is not at character 10"),
        ({"start": 23, "answer": "deep"}, f"characters 23 to 27 {OUTSIDE}"),
        ({"start": -4}, f"characters -4 to -3 {OUTSIDE}"),
        ({"start": 11, "end": 11}, f"characters 11 to 11 {OUTSIDE}"),
        ({"start": 11.0}, "'start' must be a whole number, got 11.0."),
        ({"start": 0, "end": True}, "'end' must be a whole number, got true."),
        ({"segment": 2}, "'segment' is 2, and the document 'sea' has 2, counted from 0."),
        ({"fifth": 5}, "'fifth' must be from 0 to 4, or -1 where it is not known, got 5."),
        ({"start": 0, "document": "hill"}, "'document' is 'hill', which does not answer the query"),
        ({"language": 3}, "'language' must be text, got 3."),
    ],
)
def test_faults_of_a_position(tmp_path: Path, metadata: Row, message: str) -> None:
    folder = placed_folder(tmp_path, {}, metadata, {})
    assert said_by(read_beir, folder).startswith(f"queries.jsonl, line 2, metadata: {message}")
