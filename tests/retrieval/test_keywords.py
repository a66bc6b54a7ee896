"""Keywords and fused rankings against their formulas."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.keywords import NOTHING, KeywordIndex, fuse
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.words import keywords
from fairspan.studies.evaluate.ranking import Answers

TEXTS = [
    "The whale sings. The whale dives.",
    "A ship at sea",
    "Ships sail the sea, and the sea is wide and the sea is deep",
    "",
    "鲸鱼在海里唱歌",
    "The whale",
]


def bm25(query: str, texts: list[str]) -> np.ndarray:
    """Robertson's formula with k1 = 1.5 and b = 0.75, and the idf of Lucene; a repeated word of
    the query counts each time."""
    words = [keywords(text) for text in texts]
    lengths = np.array([len(row) for row in words])
    scores = np.zeros(len(texts))
    for word in keywords(query):
        counts = np.array([row.count(word) for row in words])
        holders = (counts > 0).sum()
        idf = np.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
        norm = 1.5 * (1 - 0.75 + 0.75 * lengths / lengths.mean())
        scores += idf * np.where(counts > 0, counts / (counts + norm), 0)
    return scores


@pytest.mark.parametrize(
    "query", ["whale", "the deep SEA", "sea sea whale", "whale unheard-of", "鲸鱼唱歌"]
)
def test_scores_are_bm25(query: str) -> None:
    expected = bm25(query, TEXTS)
    assert (expected > 0).any()
    # The index keeps float32.
    np.testing.assert_allclose(KeywordIndex(TEXTS).scores(query), expected, rtol=1e-6)


def test_only_texts_with_a_word_of_the_query_are_found_and_ties_go_to_the_lower_number() -> None:
    texts = ["sea", "whale", "sea", "sea ship", "whale"]
    found = KeywordIndex(texts).search(["sea", "whale", "unknown", "?!"], 4)
    assert found.tolist() == [
        [0, 2, 3, NOTHING],
        [1, 4, NOTHING, NOTHING],
        *[[NOTHING] * 4] * 2,
    ]
    assert KeywordIndex(texts).search(["sea"], 9).shape == (1, 5)


def test_an_index_without_words_finds_nothing() -> None:
    index = KeywordIndex(["", "…"])
    assert index.search(["whale", ""], 5).tolist() == [[NOTHING, NOTHING]] * 2


def test_rankings_are_fused_by_reciprocal_ranks() -> None:
    """3 has 1/61 + 1/62, 1 has 1/62 + 1/63 and 8 has 1/61; 5 is third in one ranking, and 2 fourth.
    In the second row one ranking is empty, in the third the two put 4 and 7 the other way round.
    """
    vectors = np.array([[3, 1, 5, 2], [6, 4, 2, 0], [7, 4, 1, 0]])
    words = np.array([[8, 3, 1], [NOTHING] * 3, [4, 7, NOTHING]])
    fused = fuse(vectors, words)
    assert fused.tolist() == [[3, 1, 8, 5], [6, 4, 2, 0], [4, 7, 1, 0]]
    nothing = np.full((1, 3), NOTHING)
    assert fuse(nothing, nothing).tolist() == nothing.tolist()


@pytest.mark.slow
def test_scifact(shared: Path) -> None:
    """BEIR's own BM25, of Elasticsearch with stemming and two fields, has .665 (Thakur et al. 2021,
    table 2); so have keywords without stemming here, to two digits."""
    folder = shared / "retrieval" / "scifact"
    if not folder.is_dir():
        pytest.skip("needs ../shared/retrieval/scifact")
    task = read_beir(folder)
    lengths = dict.fromkeys([*(text.id for text in task.documents), *task.relevant], 1)
    answers = Answers.of(MeasuredTask(task, lengths, lengths, {}))
    texts = {document.id: document.text for document in task.documents}
    index = KeywordIndex([texts[name] for name in answers.names])
    found = index.search([query.text for query in task.queries], 10)
    rows = answers.metric_rows(found, ("ndcg@10",), {"treatment": "r", "index": "keywords"})
    assert rows["value"].mean() == pytest.approx(0.665, abs=0.01)


def test_jax_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bm25s runs JAX while it is imported, which would reserve most of a GPU's memory."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").touch()
    (tmp_path / "jax" / "lax.py").write_text("def top_k(*args): raise AssertionError")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("jax", "bm25s")]:
        monkeypatch.delitem(sys.modules, name)
    for imported_before in (False, True):
        if imported_before:
            monkeypatch.delitem(sys.modules, "bm25s")
            import_module("jax.lax")
        assert KeywordIndex(TEXTS).search(["whale"], 1).tolist() == [[5]]
        assert ("jax.lax" in sys.modules) == imported_before
    for name in ("jax", "jax.lax"):
        monkeypatch.delitem(sys.modules, name)
