"""The grid of temperatures: scores by hand, and what is embedded again after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
import lc_grid
from tests.builders.searches import write_beir
from tests.builders.tiny import words
from tests.papers.conftest import Script, refused

QUERIES = {f"q{number}": words(6, seed=100 + number) for number in range(9)}
DOCUMENTS = {f"d{number:02}": words(9 + 3 * number, seed=number) for number in range(20)}
RELEVANT = {
    f"q{number}": {f"d{number:02}": 2, f"d{number + 9:02}": 1} for number in range(len(QUERIES))
}
GRID = ["--temperatures", "0.3,0.6,1"]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The search in BEIR's layout."""
    documents = [{"id": id, "text": text} for id, text in DOCUMENTS.items()]
    queries = [{"id": id, "text": text} for id, text in QUERIES.items()]
    return write_beir(tmp_path / "task", documents, queries, RELEVANT)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sides that were embedded; after four, one is interrupted."""
    embedded: list[str] = []
    for side in ("query", "document"):
        name = f"encode_{side}"
        encode = getattr(SentenceTransformer, name)

        def counted(
            self: Any, *texts: Any, encode: Any = encode, side: str = side, **options: Any
        ) -> Any:
            if len(embedded) == 4:
                embedded.append("interrupted")
                raise KeyboardInterrupt
            embedded.append(side)
            return encode(self, *texts, **options)

        monkeypatch.setattr(SentenceTransformer, name, counted)
    return embedded


def score_by_hand(model: SentenceTransformer) -> float:
    """nDCG@10 of the search, with nothing of the script's."""
    queries = np.asarray(model.encode_query(list(QUERIES.values())), np.float64)
    documents = np.asarray(model.encode_document(list(DOCUMENTS.values())), np.float64)
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    ids = np.array(list(DOCUMENTS))
    discounts = 1 / np.log2(np.arange(2, 12))
    best = 2 * discounts[0] + discounts[1]
    scores = [
        [RELEVANT[query].get(id, 0) for id in ids[np.argsort(-products)[:10]]] @ discounts / best
        for query, products in zip(QUERIES, queries @ documents.T, strict=True)
    ]
    return float(np.mean(scores))


def test_pairs_are_those_of_a_model_with_temperatures_by_side(
    script: Script, model: Path, folder: str, tmp_path: Path
) -> None:
    """The diagonal and the corners."""
    said = script(lc_grid, model, folder, *GRID, "--out", tmp_path / "out").ok
    grid = pl.read_csv(tmp_path / "out" / "grid.csv")
    scores = {row[:2]: row[2] for row in grid.rows()}
    changes = {row[:2]: row[3] for row in grid.rows()}
    assert len(scores) == 9
    plain = fairspan.load(model)
    for pair in ((0.6, 0.6), (1.0, 1.0), (0.3, 1.0), (1.0, 0.3)):
        sides = fairspan.PerSide(query=pair[0], document=pair[1])
        treated = fairspan.calibrate(plain, fairspan.Calibration(strength=0, temperature=sides))
        assert scores[pair] == pytest.approx(score_by_hand(treated), abs=1e-9)
        assert changes[pair] == pytest.approx(scores[pair] / scores[1.0, 1.0] - 1)
    assert scores[1.0, 1.0] == pytest.approx(score_by_hand(plain), abs=1e-9)
    assert len(set(scores.values())) > 5, "the premise"
    assert (tmp_path / "out" / "grid.png").stat().st_size > 1000
    assert f"{scores[1.0, 0.3]:.3f}" in said.out


def test_an_interrupted_grid_continues(
    script: Script, model: Path, folder: str, tmp_path: Path, calls: list[str]
) -> None:
    typed = (model, folder, *GRID, "--out", tmp_path / "out")
    said = script(lc_grid, *typed)
    assert (said.code, said.last) == (130, "interrupted: the same command continues from here.")
    assert calls == ["query", "document"] * 2 + ["interrupted"]
    assert script(lc_grid, *typed).ok
    assert calls[5:] == ["query", "document"]
    first = (tmp_path / "out" / "grid.csv").read_bytes()
    assert script(lc_grid, *typed).ok
    assert len(calls) == 7
    assert (tmp_path / "out" / "grid.csv").read_bytes() == first
    assert script(lc_grid, *typed, "--query-prompt", "w1 ").ok
    assert len(calls) == 13, "other prompts, other vectors"


@pytest.mark.parametrize("as_in_version_1", [False, True])
def test_a_task_of_mteb_is_read(
    mteb: ModuleType,
    search: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    as_in_version_1: bool,
) -> None:
    """Older tasks have their data in other fields."""
    queries = {**QUERIES, "unanswered": "w1"}
    relevant = {**RELEVANT, "unanswered": {"d01": 0}}
    task = search(queries=queries, relevant=relevant, documents=DOCUMENTS)
    if as_in_version_1:
        corpus = {id: {"text": text} for id, text in DOCUMENTS.items()}
        fields = {"corpus": corpus, "queries": queries, "relevant_docs": relevant}
        task.__dict__ |= {name: {"test": value} for name, value in fields.items()}
        task.load_data = lambda **_: None
    monkeypatch.setattr(mteb, "get_task", lambda name: task)
    read = lc_grid.read_mteb("Tiny")
    assert {query.id: query.text for query in read.queries} == QUERIES
    assert {document.id: document.text for document in read.documents} == DOCUMENTS
    assert {query: read.relevant[query] for query in QUERIES} == RELEVANT


def test_bad_input_is_one_line(
    mteb: ModuleType, script: Script, model: Path, folder: str, tmp_path: Path
) -> None:
    for typed, reason in (
        ([folder, "--temperatures", "0.5,0.9"], "add 1 to temperatures"),
        ([folder, "--temperatures", "0.5,1,2"], "temperature must be a number above 0"),
        ([folder, "--temperatures", "0.5,hot"], "could not convert"),
        ([tmp_path / "nowhere"], "has no corpus.jsonl"),
        (["mteb:NFCorpu"], "mteb could not read NFCorpu as a search"),
    ):
        refused(script(lc_grid, model, *typed, "--out", tmp_path / "out"), reason)
    assert not (tmp_path / "out").exists()
