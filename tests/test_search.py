"""Exact search against the whole matrix of scores in float64, sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.errors import TaskError
from fairspan.retrieval import scoring
from fairspan.retrieval import search as module
from fairspan.retrieval.search import MEMORY, Hits, ranks, search

Rng = np.random.Generator
# Bytes for a block of scores: a few scores at a time, a few rows, everything at once.
MEMORIES = (800, 4_000, MEMORY)


def all_scores(queries: np.ndarray, vectors: np.ndarray, owners: np.ndarray | None = None) -> np.ndarray:
    """Scores [Q, D]: each row of products is added up by itself, so that equal vectors have equal scores."""
    scores = (queries[:, None].astype(np.float64) * vectors.astype(np.float64)).sum(-1)
    if owners is None:
        return scores
    return np.stack([scores[:, owners == number].max(1) for number in range(owners.max() + 1)], 1)


def whole_order(scores: np.ndarray) -> np.ndarray:
    """Document numbers [Q, D], best first, ties by number."""
    return np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores))


def assert_found(hits: Hits, scores: np.ndarray, k: int) -> None:
    """Only the order of adding up may tell scores apart, which float64 feels in the sixteenth digit."""
    order = whole_order(scores)[:, :k]
    assert hits.numbers.dtype == np.int64
    assert hits.scores.dtype == np.float64
    np.testing.assert_array_equal(hits.numbers, order)
    np.testing.assert_allclose(hits.scores, np.take_along_axis(scores, order, 1), rtol=1e-9, atol=1e-300)


def all_ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks [Q, D] from 1."""
    found = np.empty(scores.shape, np.int64)
    np.put_along_axis(found, whole_order(scores), np.arange(1, scores.shape[1] + 1)[None], 1)
    return found


def normal(rng: Rng, rows: int, d: int) -> np.ndarray:
    return rng.standard_normal((rows, d)).astype(np.float32)


def integers(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Few different scores, each shared by many documents, and without any rounding."""
    return rng.integers(-1, 2, (rows, d)).astype(np.float32)


def repeated(rng: Rng, rows: int, d: int) -> np.ndarray:
    return normal(rng, 3, d)[rng.integers(0, 3, rows)]


def equal(rng: Rng, rows: int, d: int) -> np.ndarray:
    return np.repeat(normal(rng, 1, d), rows, 0)


def nearly_equal(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Vectors that differ in the last digit of one number: float32 products cannot tell which is nearer."""
    vectors = equal(rng, rows, d)
    vectors[np.arange(rows), rng.integers(0, d, rows)] *= np.float32(1 + 2**-23)
    return vectors


def zeros(rng: Rng, rows: int, d: int) -> np.ndarray:
    return normal(rng, rows, d) * (rng.random((rows, 1)) < 0.3).astype(np.float32)


def huge(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Products of such numbers overflow in float32."""
    return normal(rng, rows, d) * np.float32(1e37)


def uneven(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Lengths from 1e-30 to 1e30: one bound for all is far too wide for most."""
    return normal(rng, rows, d) * 10 ** rng.uniform(-30, 30, (rows, 1)).astype(np.float32)


def one_long(rng: Rng, rows: int, d: int) -> np.ndarray:
    """The last is longer than all others, and so is what float32 products with it are off by."""
    vectors = normal(rng, rows, d)
    vectors[-1] *= np.float32(1e8)
    return vectors


def tiny(rng: Rng, rows: int, d: int) -> np.ndarray:
    """Products of such numbers vanish in float32, and many of the numbers have few digits left."""
    return normal(rng, rows, d) * np.float32(1e-42)


KINDS = (normal, integers, repeated, equal, nearly_equal, zeros, huge, uneven, one_long, tiny)
Kind = Callable[[Rng, int, int], np.ndarray]


def some_owners(rng: Rng, vectors: int) -> np.ndarray:
    """Documents with one vector, a few, and one with half of all."""
    steps = rng.random(vectors) < 0.5
    steps[0], steps[vectors // 4 : 3 * vectors // 4] = False, False
    return np.cumsum(steps)


@pytest.mark.parametrize("owned", [False, True], ids=["alone", "owned"])
@pytest.mark.parametrize("kind", KINDS)
def test_hits_are_the_head_of_the_whole_order(kind: Kind, owned: bool) -> None:
    """Whatever the block size, for one hit, a few, and more than there are documents."""
    rng = np.random.default_rng(1)
    queries, vectors = kind(rng, 7, 11), kind(rng, 90, 11)
    owners = some_owners(rng, 90) if owned else None
    scores = all_scores(queries, vectors, owners)
    for k in (1, 5, 1000):
        for memory in MEMORIES:
            hits = search(queries, vectors, k, owners=owners, device="cpu", memory=memory)
            assert hits.numbers.shape == (7, min(k, scores.shape[1]))
            assert_found(hits, scores, k)


@pytest.mark.parametrize("owned", [False, True], ids=["alone", "owned"])
@pytest.mark.parametrize("kind", KINDS)
def test_many_documents_are_searched_by_groups(monkeypatch: pytest.MonkeyPatch, kind: Kind, owned: bool) -> None:
    """Blocks of five groups, and of three with forty documents behind them, for two or three candidates."""
    monkeypatch.setattr(module, "SLACK", 1)
    rng = np.random.default_rng(2)
    queries, vectors = kind(rng, 40, 6), kind(rng, 8 * 64 + 40, 6)
    owners = some_owners(rng, len(vectors)) if owned else None
    scores = all_scores(queries, vectors, owners)
    for memory in (4 * 40 * 5 * 64, MEMORY):
        for k in (1, 2):
            assert_found(search(queries, vectors, k, owners=owners, device="cpu", memory=memory), scores, k)


@pytest.mark.parametrize("owned", [False, True], ids=["alone", "owned"])
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_places_in_the_whole_order(kind: Kind, owned: bool) -> None:
    """Of every document for every query, in any order, some twice."""
    rng = np.random.default_rng(3)
    queries, vectors = kind(rng, 4, 5), kind(rng, 40, 5)
    owners = some_owners(rng, 40) if owned else None
    expected = all_ranks(all_scores(queries, vectors, owners))
    pairs = rng.permutation(np.argwhere(expected > 0))
    pairs = np.concatenate([pairs, pairs[:9]])
    for memory in MEMORIES:
        found = ranks(queries, vectors, pairs, owners=owners, device="cpu", memory=memory)
        np.testing.assert_array_equal(found, expected[pairs[:, 0], pairs[:, 1]])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 40), st.integers(1, 9)),
    k=st.integers(1, 45),
    memory=st.integers(100, 8000),
    owned=st.booleans(),
)
def test_any_shape(
    seed: int, kinds: tuple[Kind, Kind], sizes: tuple[int, int, int], k: int, memory: int, owned: bool
) -> None:
    """Queries of one kind and vectors of another, of any small size, in blocks of any small size."""
    rng = np.random.default_rng(seed)
    count, total, d = sizes
    queries, vectors = kinds[0](rng, count, d), kinds[1](rng, total, d)
    owners = some_owners(rng, total) if owned else None
    hits = search(queries, vectors, k, owners=owners, device="cpu", memory=memory)
    scores = all_scores(queries, vectors, owners)
    assert_found(hits, scores, k)
    rows = np.repeat(np.arange(count), hits.numbers.shape[1])
    pairs = np.stack([rows, hits.numbers.ravel()], 1)
    found = ranks(queries, vectors, pairs, owners=owners, device="cpu", memory=memory)
    np.testing.assert_array_equal(
        found.reshape(hits.numbers.shape), np.arange(1, min(k, scores.shape[1]) + 1) + 0 * hits.numbers
    )


def test_ties_go_to_the_lower_number_by_hand() -> None:
    """Scores 1, 2, 2, 0, 2, and for the opposite query their negatives."""
    vectors = np.array([[1, 5], [2, 7], [2, -3], [0, 0], [2, 1]], np.float32)
    queries = np.array([[1, 0], [-1, 0]], np.float32)
    pairs = np.array([[1, 4], [0, 4], [0, 3], [1, 3]])
    for memory in (4, MEMORY):
        hits = search(queries, vectors, 4, device="cpu", memory=memory)
        assert hits.numbers.tolist() == [[1, 2, 4, 0], [3, 0, 1, 2]]
        assert hits.scores.tolist() == [[2, 2, 2, 1], [0, -1, -2, -2]]
        assert ranks(queries, vectors, pairs, device="cpu", memory=memory).tolist() == [5, 3, 5, 1]


def test_a_document_has_the_score_of_its_best_vector_by_hand() -> None:
    """Documents of two, one and three vectors score 3, 3 and 4."""
    vectors = np.array([[3], [-1], [3], [-9], [4], [2]], np.float32)
    owners = np.array([0, 0, 1, 2, 2, 2])
    queries = np.ones((1, 1), np.float32)
    pairs = np.array([[0, 0], [0, 1], [0, 2]])
    for memory in (4, MEMORY):
        hits = search(queries, vectors, 3, owners=owners, device="cpu", memory=memory)
        assert hits.numbers.tolist() == [[2, 0, 1]]
        assert hits.scores.tolist() == [[4, 3, 3]]
        assert ranks(queries, vectors, pairs, owners=owners, device="cpu", memory=memory).tolist() == [2, 3, 1]


def test_one_document_is_found_for_every_query() -> None:
    vectors = np.array([[-2.5]], np.float32)
    queries = np.array([[2], [-2], [0]], np.float32)
    hits = search(queries, vectors, 3, device="cpu")
    assert hits.numbers.tolist() == [[0], [0], [0]]
    assert hits.scores.tolist() == [[-5], [5], [0]]


def test_nothing_asked_is_nothing_found() -> None:
    vectors = np.ones((4, 2), np.float32)
    assert search(np.empty((0, 2), np.float32), vectors, 3, device="cpu").numbers.shape == (0, 3)
    assert ranks(vectors, vectors, np.empty((0, 2), np.int64), device="cpu").shape == (0,)


@pytest.fixture
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("owned", [False, True], ids=["alone", "owned"])
def test_the_last_digit_is_always_the_same(owned: bool) -> None:
    """Not a bit of a score depends on blocks, threads or the queries beside it."""
    rng = np.random.default_rng(4)
    queries, vectors = normal(rng, 40, 67), normal(rng, 900, 67)
    owners = some_owners(rng, 900) if owned else None
    first = search(queries, vectors, 9, owners=owners, device="cpu")
    assert_found(first, all_scores(queries, vectors, owners), 9)
    order = rng.permutation(40)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for memory in (5_000, 100_000, MEMORY):
            again = search(queries[order], vectors, 9, owners=owners, device="cpu", memory=memory)
            np.testing.assert_array_equal(again.numbers, first.numbers[order])
            np.testing.assert_array_equal(again.scores, first.scores[order])


def test_equal_vectors_have_equal_scores_wherever_they_lie() -> None:
    """A hundred copies of the best vector among others: bit by bit one score, in the order of their numbers."""
    rng = np.random.default_rng(5)
    queries = normal(rng, 3, 131)
    for query in queries:
        vectors = normal(rng, 700, 131)
        places = np.sort(rng.choice(700, 100, replace=False))
        vectors[places] = query
        hits = search(query[None], vectors, 100, device="cpu", memory=30_000)
        assert hits.numbers[0].tolist() == places.tolist()
        assert len(np.unique(hits.scores)) == 1


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The queries that the candidates did not settle."""
    seen: list[int] = []
    settle = module._settle

    def listen(scorer: Any, rows: np.ndarray, least: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(rows.tolist())
        return settle(scorer, rows, least, k)

    monkeypatch.setattr(module, "_settle", listen)
    return seen


def test_only_ties_are_searched_twice(settled: list[int]) -> None:
    """Copies of the vector nearest to queries 2 and 3, more than the candidates, and far from the other queries."""
    rng = np.random.default_rng(6)
    queries, vectors = normal(rng, 5, 32), normal(rng, 2000, 32)
    queries *= -np.sign(queries @ queries[2])[:, None]
    queries[2] *= -1
    queries[3] = 2 * queries[2]
    vectors[100:2000:50] = 10 * queries[2]
    vectors[7] = vectors[100] + np.float32(1)
    hits = search(queries, vectors, 5, device="cpu")
    assert settled == [2, 3]
    assert_found(hits, all_scores(queries, vectors), 5)


def test_all_equal_documents_are_settled_for_every_query(settled: list[int]) -> None:
    """So are all documents for a query of zeros. The lowest numbers are found."""
    rng = np.random.default_rng(7)
    queries, vectors = normal(rng, 30, 8), normal(rng, 300, 8)
    for asked, found in ((queries, equal(rng, 300, 8)), (0 * queries, vectors)):
        settled.clear()
        hits = search(asked, found, 4, device="cpu", memory=3000)
        assert settled == list(range(30))
        np.testing.assert_array_equal(hits.numbers, np.tile(np.arange(4), (30, 1)))


def test_more_queries_than_fit_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 16)
    rng = np.random.default_rng(8)
    queries, vectors = normal(rng, 50, 5), normal(rng, 60, 5)
    scores = all_scores(queries, vectors)
    assert_found(search(queries, vectors, 6, device="cpu"), scores, 6)
    pairs = np.argwhere(scores < np.inf)
    np.testing.assert_array_equal(ranks(queries, vectors, pairs, device="cpu"), all_ranks(scores).ravel())


def test_a_map_on_disk_and_views_are_searched_like_arrays(tmp_path: Path) -> None:
    """A map that may only be read, rows from last to first, and columns before rows."""
    rng = np.random.default_rng(9)
    queries, vectors = normal(rng, 4, 7), normal(rng, 80, 7)
    vectors.tofile(tmp_path / "vectors")
    on_disk = np.memmap(tmp_path / "vectors", np.float32, "r", shape=vectors.shape)
    scores = all_scores(queries, vectors)
    pairs = np.argwhere(scores < np.inf)
    for given_vectors in (on_disk, vectors[::-1].copy()[::-1], np.asfortranarray(vectors)):
        assert_found(search(np.asfortranarray(queries), given_vectors, 5, device="cpu", memory=500), scores, 5)
        np.testing.assert_array_equal(ranks(queries, given_vectors, pairs, device="cpu"), all_ranks(scores).ravel())


def test_inputs_stay_as_they_were() -> None:
    rng = np.random.default_rng(10)
    queries, vectors = huge(rng, 4, 7), huge(rng, 80, 7)
    before = queries.copy(), vectors.copy()
    search(queries, vectors, 5, device="cpu")
    ranks(queries, vectors, np.array([[0, 1]]), device="cpu")
    np.testing.assert_array_equal(queries, before[0])
    np.testing.assert_array_equal(vectors, before[1])


# Precision


def allowed() -> list[str]:
    """What torch may do instead of float32 products, on GPUs and on CPUs."""
    return [torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision]


needs_settings = pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="needs the precision settings of torch 2.9"
)


@needs_settings
@pytest.mark.parametrize("vectors", [1.0, np.nan], ids=["found", "refused"])
def test_products_are_float32_inside_and_what_the_user_chose_outside(
    monkeypatch: pytest.MonkeyPatch, vectors: float
) -> None:
    inside = []
    block = scoring.Index.block

    def listen(*arguments: Any) -> Any:
        inside.append(allowed())
        return block(*arguments)

    monkeypatch.setattr(scoring.Index, "block", listen)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        chosen = allowed()
        queries, matrix = np.ones((1, 2), np.float32), np.full((3, 2), vectors, np.float32)
        for call in (lambda: search(queries, matrix, 1), lambda: ranks(queries, matrix, np.array([[0, 0]]))):
            if np.isnan(vectors):
                with pytest.raises(TaskError):
                    call()
            else:
                call()
        assert torch.get_float32_matmul_precision() == "medium"
        assert allowed() == chosen
    finally:
        torch.set_float32_matmul_precision(before)
    assert "ieee" not in chosen
    assert inside == [["ieee", "ieee"]] * 2


def test_a_device_that_rounds_more_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of bfloat16 numbers are off by up to 2^-8, and the bound for 64 dimensions is 2^-18."""
    multiply = torch.mm

    def roughly(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return multiply(a.bfloat16().float(), b.bfloat16().float(), out=out)

    monkeypatch.setattr(torch, "mm", roughly)
    rng = np.random.default_rng(11)
    queries, vectors = normal(rng, 4, 64), normal(rng, 80, 64)
    with pytest.raises(TaskError, match="less exactly than float32"):
        search(queries, vectors, 5, device="cpu")
    with pytest.raises(TaskError, match="less exactly than float32"):
        ranks(queries, vectors, np.argwhere(np.ones((4, 80))), device="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("owned", [False, True], ids=["alone", "owned"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_finds_the_same_to_the_last_digit(kind: Kind, owned: bool) -> None:
    rng = np.random.default_rng(12)
    queries, vectors = kind(rng, 30, 48), kind(rng, 3000, 48)
    owners = some_owners(rng, 3000) if owned else None
    pairs = np.stack([np.arange(30), np.arange(30)], 1)
    for memory in (200_000, MEMORY):
        here, there = (search(queries, vectors, 7, owners=owners, device=it, memory=memory) for it in ("cpu", "cuda"))
        np.testing.assert_array_equal(here.numbers, there.numbers)
        np.testing.assert_array_equal(here.scores, there.scores)
        counted = [ranks(queries, vectors, pairs, owners=owners, device=it, memory=memory) for it in ("cpu", "cuda")]
        np.testing.assert_array_equal(*counted)


# Refusals

ONES = np.ones((3, 2), np.float32)


def broken(row: int, value: float) -> np.ndarray:
    vectors = np.ones((6, 2), np.float32)
    vectors[row, 1] = value
    return vectors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ONES, ONES, 0), "k must be .* at least 1, got 0"),
        ((ONES, ONES, 1.5), "got 1.5"),
        ((ONES, ONES, True), "got True"),
        ((ONES[0], ONES, 1), r"queries must be a float32 array .* got float32 \(2,\)"),
        ((ONES, ONES.astype(np.float64), 1), r"vectors must be a float32 array .* got float64 \(3, 2\)"),
        ((ONES.tolist(), ONES, 1), "queries must be .* got list"),
        ((ONES[:, :0], ONES[:, :0], 1), r"got float32 \(3, 0\)"),
        ((ONES, ONES[:0], 1), "no vectors to search"),
        ((ONES, np.ones((4, 3), np.float32), 1), "queries have 2 dimensions and vectors 3"),
        ((broken(2, np.nan), ONES, 1), "query 2 holds NaN or infinity"),
        ((broken(5, -np.inf), ONES, 1), "query 5 holds NaN or infinity"),
        ((ONES, broken(4, np.nan), 1), "vector 4 holds NaN or infinity"),
        ((ONES, broken(3, np.inf), 1), "vector 3 holds NaN or infinity"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        search(*arguments, device="cpu", memory=16)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        ([0, 0], r"each of 3 vectors, got int64 \(2,\)"),
        ([0.0, 1.0, 2.0], r"got float64 \(3,\)"),
        ([1, 1, 2], "number 1 of vector 0 does not"),
        ([0, 2, 2], "number 2 of vector 1 does not"),
        ([0, 1, 0], "number 0 of vector 2 does not"),
        ([-1, 0, 0], "number -1 of vector 0 does not"),
    ],
)
def test_owners_that_do_not_count_up_are_refused(owners: list[Any], message: str) -> None:
    for call in (
        lambda: search(ONES, ONES, 1, owners=np.array(owners)),
        lambda: ranks(ONES, ONES, np.array([[0, 0]]), owners=np.array(owners)),
    ):
        with pytest.raises(TaskError, match=message):
            call()


def test_the_vector_that_is_named_is_the_one_given() -> None:
    """Blocks hold vectors in an order of their own when documents have several."""
    with pytest.raises(TaskError, match="vector 1 holds NaN"):
        search(ONES, broken(1, np.nan), 1, owners=np.array([0, 0, 0, 1, 2, 2]), device="cpu")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([0, 1], r"pairs must be whole numbers \[pairs, 2\], got int64 \(2,\)"),
        ([[0.0, 1.0]], "got float64"),
        ([[0, 0], [3, 0]], "pair 1 names query 3, and the last is 2"),
        ([[0, 2]], "pair 0 names document 2, and the last is 1"),
        ([[0, -1]], "pair 0 names document -1"),
    ],
)
def test_pairs_that_name_nothing_are_refused(pairs: list[Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        ranks(ONES, ONES, np.array(pairs), owners=np.array([0, 0, 1]), device="cpu")
