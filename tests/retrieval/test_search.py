"""Exact search against the whole matrix of scores in float64, rounded to float32 and sorted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairspan.errors import CorpusError
from fairspan.retrieval import search as module
from fairspan.retrieval.search import MEMORY, ranks, search

Rng = np.random.Generator
Kind = Callable[[Rng, int, int], np.ndarray]
# Bytes for a block of products: a few documents at a time, some, everything at once.
MEMORIES = (800, 4_000, MEMORY)


def all_scores(
    queries: np.ndarray, vectors: np.ndarray, owners: np.ndarray | None = None
) -> np.ndarray:
    """Scores [Q, D]. Float64 is off by 1e-16, and these are at least 1e-10 away from where float32
    rounds up."""
    scores = (
        (queries[:, None].astype(np.float64) * vectors.astype(np.float64))
        .sum(-1)
        .astype(np.float32)
    )
    if owners is None:
        return scores
    return np.stack([scores[:, owners == number].max(1) for number in range(owners.max() + 1)], 1)


def whole_order(scores: np.ndarray) -> np.ndarray:
    """Document numbers [Q, D], best first, ties by number."""
    return np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores))


def assert_found(hits: np.ndarray, scores: np.ndarray, k: int) -> None:
    order = whole_order(scores)[:, :k]
    np.testing.assert_array_equal(hits, order)


def all_ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks [Q, D] from 1."""
    found = np.empty(scores.shape, np.int64)
    np.put_along_axis(found, whole_order(scores), np.arange(1, scores.shape[1] + 1)[None], 1)
    return found


def normal(rng: Rng, rows: int, d: int) -> np.ndarray:
    return rng.standard_normal((rows, d)).astype(np.float32)


def integers(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Few different scores, each shared by many documents."""
    return rng.integers(-1, 2, (rows, d)).astype(np.float32)


def repeated(rng: Rng, rows: int, d: int) -> np.ndarray:
    return normal(rng, 3, d)[rng.integers(0, 3, rows)]


def uneven(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Lengths from 1e-15 to 1e15, and some of 0."""
    lengths = 10 ** rng.uniform(-15, 15, (rows, 1)) * (rng.random((rows, 1)) < 0.7)
    return normal(rng, rows, d) * lengths.astype(np.float32)


def some_owners(rng: Rng, vectors: int) -> np.ndarray:
    """Documents with one vector, a few, and one with half of all."""
    steps = rng.random(vectors) < 0.5
    steps[0], steps[vectors // 4 : 3 * vectors // 4] = False, False
    return np.cumsum(steps)


@pytest.mark.parametrize(
    ("kind", "owned"), [(normal, False), (integers, True), (repeated, True), (uneven, True)]
)
def test_hits_and_ranks_are_those_of_the_whole_order(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, owned: bool
) -> None:
    """Whatever the sizes of blocks and batches, for one hit, a few, and more than there are
    documents."""
    rng = np.random.default_rng(1)
    queries, vectors = kind(rng, 7, 11), kind(rng, 90, 11)
    owners = some_owners(rng, 90) if owned else None
    scores = all_scores(queries, vectors, owners)
    expected = all_ranks(scores)
    pairs = rng.permutation(np.argwhere(expected > 0))
    for batch in (3, 1024):
        monkeypatch.setattr(module, "BATCH", batch)
        for memory in MEMORIES:
            monkeypatch.setattr(module, "MEMORY", memory)
            for k in (1, 5, 1000):
                assert_found(search(queries, vectors, k, owners=owners), scores, k)
            found = ranks(queries, vectors, pairs, owners=owners)
            np.testing.assert_array_equal(found, expected[pairs[:, 0], pairs[:, 1]])


@pytest.mark.parametrize("memory", [4, MEMORY])
def test_ties_go_to_the_lower_number_by_hand(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    """Scores 1, 2, 2, 0, 2, and for the opposite query their negatives."""
    vectors = np.array([[1, 5], [2, 7], [2, -3], [0, 0], [2, 1]], np.float32)
    queries = np.array([[1, 0], [-1, 0]], np.float32)
    pairs = np.array([[1, 4], [0, 4], [0, 3], [1, 3]])
    monkeypatch.setattr(module, "MEMORY", memory)
    assert search(queries, vectors, 4).tolist() == [[1, 2, 4, 0], [3, 0, 1, 2]]
    assert ranks(queries, vectors, pairs).tolist() == [5, 3, 5, 1]


def test_copies_of_a_vector_have_one_score_wherever_they_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MEMORY", 30_000)
    rng = np.random.default_rng(5)
    for query in normal(rng, 3, 131):
        vectors = normal(rng, 700, 131)
        copies = np.sort(rng.choice(700, 100, replace=False))
        vectors[copies] = query
        hits = search(query[None], vectors, 100)
        assert hits[0].tolist() == copies.tolist()


def test_a_map_on_disk_is_searched_like_an_array(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    queries, vectors = normal(rng, 4, 7), normal(rng, 80, 7)
    vectors.tofile(tmp_path / "vectors")
    on_disk = np.memmap(tmp_path / "vectors", np.float32, "r", shape=vectors.shape)
    assert_found(search(queries, on_disk, 5), all_scores(queries, vectors), 5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_without_a_score_are_refused(value: float) -> None:
    whole, broken = np.ones((3, 2), np.float32), np.ones((6, 2), np.float32)
    broken[4, 1] = value
    with pytest.raises(CorpusError, match="vector of a query holds NaN or infinity"):
        search(broken, whole, 1)
    with pytest.raises(CorpusError, match="vector of a document holds NaN or infinity"):
        search(whole, broken, 1)
