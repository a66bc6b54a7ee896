"""Metrics of a ranking, by hand and against ranx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from fairspan.errors import CorpusError
from fairspan.retrieval.metrics import Metric, gains_of, ndcg, parse_metric, recall, reciprocal_rank

NAMES = ("ndcg@3", "ndcg@10", "recall@1", "recall@10", "mrr", "mrr@3", "mrr@10")
RANX = """
import json, sys
from ranx import Qrels, Run, evaluate
for line in sys.stdin:
    given = json.loads(line)
    found = evaluate(Qrels(given["qrels"]), Run(given["run"]), given["names"], return_mean=False)
    print(json.dumps({name: values.tolist() for name, values in found.items()}), flush=True)
"""

Relevant = list[dict[int, int]]


@pytest.fixture(scope="module")
def by_ranx() -> Iterator[Callable[[Relevant, list[dict[int, float]]], dict[str, np.ndarray]]]:
    """ranx's values per query.

    In a process of its own, where numba compiles nothing: compiling takes 45 s, warns of unsafe
    casts in ranx, and switching it off here would switch it off for every other test.
    """
    if find_spec("ranx") is None:
        pytest.skip("needs ranx")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONHASHSEED": "0"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", RANX], env=environment, text=True, **pipes)
    assert process.stdin is not None
    assert process.stdout is not None

    def named(rows: list[dict[int, float]] | Relevant) -> dict[str, dict[str, float]]:
        return {
            f"q{number:04}": {f"d{d}": value for d, value in row.items()}
            for number, row in enumerate(rows)
        }

    def ask(relevant: Relevant, runs: list[dict[int, float]]) -> dict[str, np.ndarray]:
        print(
            json.dumps({"qrels": named(relevant), "run": named(runs), "names": NAMES}),
            file=process.stdin,
            flush=True,
        )
        return {
            name: np.array(values) for name, values in json.loads(process.stdout.readline()).items()
        }

    yield ask
    process.communicate()


def ours(numbers: np.ndarray, relevant: Relevant) -> dict[str, np.ndarray]:
    useful = [{number: gain for number, gain in wanted.items() if gain > 0} for wanted in relevant]
    gains, ideal = gains_of(numbers, useful), [list(wanted.values()) for wanted in useful]
    return {name: parse_metric(name)(gains, ideal) for name in NAMES}


def test_a_tiny_ranking_by_hand() -> None:
    """Documents 7, 2, 5, 9 in order; 2 is worth 3, 4 is worth 2 but not found, 9 is worth 1."""
    gains = gains_of(np.array([[7, 2, 5, 9]]), [{2: 3.0, 4: 2.0, 9: 1.0}])
    np.testing.assert_array_equal(gains, [[0, 3, 0, 1]])
    ideal = [[1.0, 3.0, 2.0]]
    found, best = 3 / np.log2(3) + 1 / np.log2(5), 3 + 2 / np.log2(3) + 1 / 2
    assert ndcg(gains, ideal, 10) == pytest.approx([found / best])
    assert ndcg(gains, ideal, 2) == pytest.approx([3 / np.log2(3) / (3 + 2 / np.log2(3))])
    assert ndcg(gains, ideal) == pytest.approx([found / best])
    assert recall(gains, ideal, 1) == [0]
    assert recall(gains, ideal, 2) == pytest.approx([1 / 3])
    assert recall(gains, ideal, 10) == pytest.approx([2 / 3])
    assert reciprocal_rank(gains, ideal) == [1 / 2]
    assert reciprocal_rank(gains, ideal, 1) == [0]


@pytest.mark.slow
def test_random_rankings_with_ties_are_ranxs(by_ranx: Any) -> None:
    """Ties between documents of different gains, so that the order in them matters; ranx is told
    ours as ranks."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, (200, 40)).astype(float)
    relevant: Relevant = []
    for row in range(200):
        wanted = rng.choice(40, (1, 4, 20)[row % 3], replace=False)
        judged = dict(zip(wanted.tolist(), rng.integers(1, 4, len(wanted)).tolist(), strict=True))
        # Judged, but of no use.
        useless = [d for d in range(40) if d not in judged][:2]
        relevant.append(judged | {useless[0]: 0, useless[1]: -1})
    numbers = np.argsort(-scores, axis=1, kind="stable")[:, :12]
    theirs = by_ranx(
        relevant, [{d: 12.0 - rank for rank, d in enumerate(row)} for row in numbers.tolist()]
    )
    found = ours(numbers, relevant)
    for name in NAMES:
        np.testing.assert_allclose(found[name], theirs[name], atol=1e-9, err_msg=name)


def test_names() -> None:
    assert parse_metric("ndcg@10") == Metric("ndcg", 10)
    assert parse_metric("mrr") == Metric("mrr", None)


@pytest.mark.parametrize(
    "name", ["ndcg", "recall", "map@10", "ndcg@0", "mrr@", "NDCG@10", "mrr@1.5", "mrr@5\n", ""]
)
def test_other_names_are_refused_with_the_choices(name: str) -> None:
    with pytest.raises(CorpusError, match=r"choose from ndcg@k, recall@k, mrr, mrr@k"):
        parse_metric(name)
