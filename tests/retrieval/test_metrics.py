"""Metrics of a ranking, by hand and against ranx."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import numpy as np
import pytest

from fairspan.errors import CorpusError
from fairspan.retrieval.metrics import gains_of, ndcg, parse_metric, recall, reciprocal_rank

NAMES = ("ndcg@3", "ndcg@10", "recall@1", "recall@10", "mrr", "mrr@3", "mrr@10")


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


def named(rows: Sequence[Mapping[int, float]]) -> dict[str, dict[str, float]]:
    return {
        f"q{number:04}": {f"d{d}": value for d, value in row.items()}
        for number, row in enumerate(rows)
    }


RANX = """
import json, sys
from ranx import Qrels, Run, evaluate
qrels, run, names = json.load(sys.stdin)
found = evaluate(Qrels(qrels), Run(run), names, return_mean=False)
print(json.dumps({name: values.tolist() for name, values in found.items()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ranx") is None, reason="needs ranx")
def test_random_rankings_with_ties_are_ranxs() -> None:
    """Ties between documents of different gains, so that the order in them matters; ranx is told
    ours as ranks.

    In a process of its own, where numba compiles nothing: compiling takes 45 s, warns of unsafe
    casts in ranx, and switching it off here would switch it off for every other test.
    """
    rng = np.random.default_rng(0)
    relevant: list[dict[int, int]] = []
    for row in range(200):
        wanted = rng.choice(40, (1, 4, 20)[row % 3], replace=False)
        judged = dict(zip(wanted.tolist(), rng.integers(1, 4, len(wanted)).tolist(), strict=True))
        # Judged, but of no use.
        useless = [d for d in range(40) if d not in judged][:2]
        relevant.append(judged | {useless[0]: 0, useless[1]: -1})
    scores = rng.integers(0, 6, (200, 40)).astype(float)
    numbers = np.argsort(-scores, axis=1, kind="stable")[:, :12]
    runs = [{d: 12.0 - rank for rank, d in enumerate(row)} for row in numbers.tolist()]
    theirs = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([named(relevant), named(runs), NAMES]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    useful = [{number: gain for number, gain in row.items() if gain > 0} for row in relevant]
    gains, ideal = gains_of(numbers, useful), [list(row.values()) for row in useful]
    for name, expected in json.loads(theirs.stdout).items():
        ours = parse_metric(name)(gains, ideal)
        np.testing.assert_allclose(ours, expected, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "name", ["ndcg", "recall", "map@10", "ndcg@0", "mrr@", "NDCG@10", "mrr@1.5", "mrr@5\n", ""]
)
def test_other_names_are_refused_with_the_choices(name: str) -> None:
    with pytest.raises(CorpusError, match=r"choose from ndcg@k, recall@k, mrr, mrr@k"):
        parse_metric(name)
