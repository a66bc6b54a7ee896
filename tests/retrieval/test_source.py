"""What a task is called, and with which options it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairspan.errors import CorpusError
from fairspan.retrieval.source import CHOICES, TaskOptions, TaskSource
from fairspan.retrieval.task import Passage, Query, RetrievalTask
from tests.builders.saying import said_by
from tests.corpus.test_corpus import write
from tests.retrieval.test_beir import beir_folder
from tests.retrieval.test_passages import article


def source(task: Path | str, **options: Any) -> TaskSource:
    return TaskSource(str(task), TaskOptions(**options))


def read(task: Path | str, **options: Any) -> RetrievalTask:
    return source(task, **options).task


def test_passages_are_cut_out_of_all_languages_of_a_corpus_or_of_some(tmp_path: Path) -> None:
    for language in ("de", "en"):
        parts = [article(10 * len(list(tmp_path.iterdir())) + number, 15) for number in range(4)]
        rows = [{"id": str(number), "text": part.text} for number, part in enumerate(parts)]
        write(tmp_path / f"{language}.jsonl", rows)
    both = read("passages", corpus=tmp_path)
    assert {document.language for document in both.documents} == {"de", "en"}
    german = read("passages", corpus=tmp_path, languages=["de"])
    assert {document.language for document in german.documents} == {"de"}
    assert len(read("passages", corpus=tmp_path, sets=2).documents) == 2 * 2
    short = read("passages", corpus=tmp_path, query_words=6)
    assert {len(query.text.split()) for query in short.queries} == {6}
    assert read("passages", corpus=tmp_path, seed=1).fingerprint != both.fingerprint


def test_a_collection_by_its_folder_or_by_a_split(tmp_path: Path) -> None:
    folder = beir_folder(tmp_path)
    (folder / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")
    names = {read(name).name for name in (folder, f"beir:{folder}", folder / "qrels" / "test.tsv")}
    assert names == {"small-test"}
    assert read(folder / "qrels" / "dev.tsv").name == "small-dev"
    (folder / "qrels" / "test.tsv").unlink()
    assert read(folder).name == "small-dev", "the only one"


def test_a_folder_for_each_language(tmp_path: Path) -> None:
    """English unless another is named."""
    for language in ("de", "en"):
        corpus = [{"_id": "a", "text": f"{language} sea"}, {"_id": "b", "text": f"{language} hill"}]
        folder = beir_folder(tmp_path, "q\ta\t1\n", corpus, [{"_id": "q", "text": language}])
        folder.rename(tmp_path / language)
    for languages, language in ((None, "en"), (["de"], "de")):
        task = read(tmp_path, languages=languages)
        assert task.name == f"{tmp_path.name}-{language}"
        assert task.queries == (Query("q", language, language),)
        assert task.documents[1] == Passage("b", f"{language} hill", language)
    said = f"{tmp_path.name} has no 'hi'. Languages there: de, en: name one with languages."
    assert said_by(read, tmp_path, languages=["hi"]) == said


def test_what_is_no_task(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/no", f"beir:{tmp_path}/no"):
        assert said_by(read, name) == f"there is no task {name!r}: it is {CHOICES}."
    assert said_by(source, " ") == f"a task is {CHOICES}, got ' '."
    assert said_by(read, tmp_path) == (
        f"{tmp_path} is not a task: it has no qrels folder. To search documents without questions, "
        f"omit the task and name them with corpus={tmp_path}."
    )


@pytest.mark.parametrize("task", ["folder", "mteb:SciFact"])
def test_options_of_passages_are_not_for_other_tasks(task: str) -> None:
    for options in ({"sets": 9}, {"corpus": "sample"}, {"query_words": 15}):
        (name,) = options
        assert said_by(source, task, **options) == f"{name} is for passages: omit it for {task}."
        assert name in source(task).unused
    assert source("passages").unused == set()
    said = f"{task} is searched in one language at a time: name one with languages."
    assert said_by(source, task, languages=["de", "en"]) == said


def test_values_that_are_not_allowed() -> None:
    for options, said in (
        ({"sets": 1}, "sets must be a whole number of at least 2, got 1"),
        ({"query_words": 5}, "query_words must be a whole number of at least 6, got 5"),
        ({"query_words": 61}, "query_words must be at most 60, the length of a passage, got 61"),
    ):
        assert said in said_by(TaskOptions, **options)


def test_a_task_needs_queries_and_documents() -> None:
    with pytest.raises(CorpusError, match="t has no documents"):
        RetrievalTask("t", (Query("q", "x"),), (), {})
