"""What is said where only some documents of a corpus are searched."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from fairspan.retrieval.passages import Budget
from fairspan.runs.progress import Silent
from fairspan.studies.evaluate.haystack import among_half
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.run import STUDY
from tests.embedding_server import Words
from tests.saying import said_by
from tests.searches import log_of, rows_of
from tests.tiny import words


def texts(folder: Path, documents: int, sentences: int) -> str:
    """A folder of documents with sentences of 12 words that occur once."""
    for number in range(documents):
        text = " ".join(words(12, 1000 * number + place) + "." for place in range(sentences))
        (folder / f"a{number:03}.md").write_text(text, encoding="utf-8")
    return str(folder)


def test_half_of_the_documents_by_hand() -> None:
    """Of four others one is before: of every two that are left, it is one in half of the cases."""
    now, half = among_half("ndcg@10", np.full(400, 2), 5)
    below = 1 / math.log2(3)
    # The mean of 40,000 draws has a standard error of 0.001.
    assert (now, half) == pytest.approx((below, (1 + below) / 2), abs=0.005)
    assert among_half("recall@1", np.full(10, 1), 5) == (1.0, 1.0)


@pytest.mark.parametrize("drawn_from", [None, 224])
def test_the_page_says_how_many_were_searched(tmp_path: Path, drawn_from: int | None) -> None:
    ranks = rows_of(lambda *_: 1 / math.log2(3), ["plain", "paper"], plans=[("", "")])
    rows = [ranks, rows_of(lambda *_: 2, ["plain", "paper"], plans=[("", "")], metrics=["rank"])]
    header = {} if drawn_from is None else {"drawn_from": drawn_from}
    task = {"source": "passages", "names": ["t"], "indexes": 1, "queries": 48, "documents": 100}
    view = log_of(tmp_path, rows[0].vstack(rows[1]), task=task, **header).view
    said = (
        "searched among 100 of 224 documents, and fewer documents make search easier: among half "
        "of them, ndcg@10 of plain is 0.8"
    )
    # Half of 99 others are 49, so the one before is left in 49/99, and log2(2.24) = 1.16 doublings.
    among_all = "instead of 0.631, so among all expect roughly 0.47"
    assert any(note.startswith(said) and note.endswith(among_all) for note in view.notes) == bool(
        drawn_from
    )
    assert ("among 100 of 224 documents" in view.heading) == bool(drawn_from)


@pytest.mark.parametrize(
    ("corpus", "names", "words"),
    [
        ("notes", "ab", "among 50 of your 52 documents (2 left out: a, b)"),
        ("sample", "ab", "among 50 of 52 documents (2 left out: a, b)"),
        ("notes", "", "among 50 documents"),
    ],
)
def test_the_first_line_names_what_was_left_out(
    tmp_path: Path, corpus: str, names: str, words: str
) -> None:
    task = {"source": "passages", "names": ["t"], "indexes": 1, "queries": 48, "documents": 50}
    rows = rows_of(lambda *_: 0.5, ["plain", "paper"], plans=[("", "")])
    log = log_of(tmp_path, rows, task=task, left_out=list(names), spec={"corpus": corpus})
    assert log.view.heading == f"m on passages: 48 queries {words}, 2 s"
    easier = "fewer documents make search easier: expect less in an index of more than 50"
    assert easier in log.view.notes


def test_passages_are_from_all_of_a_document_that_the_plain_model_cuts(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path
) -> None:
    """Sentences of 12 tokens: of 50 that are read, no fifth has one with its neighbours."""
    model = copy.deepcopy(make_tiny("bert", "mean"))
    model.max_seq_length = 50
    options = {"corpus": texts(tmp_path, 3, 60), "treatments": ["plain"], "progress": False}
    prepared = STUDY.ready(EvaluateOptions(model, **options), Silent())
    depths = [place.depth for place in prepared.tasks[0].positions.values()]
    assert max(depths) > 500
    assert said_by(STUDY.ready, EvaluateOptions(model, **options, indexes=["whole"]), Silent())
    cut = EvaluateOptions(model, **options, indexes=["whole"], too_long="cut")
    assert len(STUDY.ready(cut, Silent()).tasks[0].task.documents) == 3


@pytest.mark.parametrize(("sets", "used"), [(None, 130), (100, 100)])
def test_all_documents_are_used_up_to_a_budget(tmp_path: Path, sets: int | None, used: int) -> None:
    corpus = texts(tmp_path, 130, 12)
    options = EvaluateOptions(Words(), corpus=corpus, sets=sets, progress=False)
    assert Budget().most_tokens > 130 * 12 * 12 * 5 / 4, "the premise"
    prepared = STUDY.ready(options, Silent())
    task = prepared.tasks[0].task
    assert (len(task.documents), task.drawn_from) == (used, None if sets is None else 130)
    assert ("100 of your 130 documents" in prepared.scope) == (used == 100)
    assert [*prepared.plans] == ["whole"], "no document has two chunks to keep a vector of"


def test_one_vector_per_chunk_is_a_reference(tmp_path: Path) -> None:
    """Of documents with more tokens than a chunk has, under the first treatment only."""
    treatments = ["plain", "chunk-mean"]
    options = EvaluateOptions(Words(), corpus=texts(tmp_path, 3, 60), treatments=treatments)
    prepared = STUDY.ready(options, Silent())
    kinds = [[plan.kind for plan in prepared.plans_of(item)] for item in prepared.options.compared]
    assert kinds == [["whole", "parts-all"], ["whole"]]
    assert len(prepared.plans["parts-all"].flat) > 3
    assert replace(options, indexes=["whole"]).kinds == ("whole",)
