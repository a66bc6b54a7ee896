"""A search by length, from rows whose means, ranks and clusters are known by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.evaluate.spec import make_evaluation
from fairspan.studies.evaluate.summary import LengthGroup, by_length
from fairspan.studies.evaluate.view import view_of


def search_log(
    folder: Path,
    values: Mapping[str, Sequence[float]],
    *,
    measure: str = "ndcg@10",
    query_tokens: Sequence[int | None],
    tokens: Sequence[int] | None = None,
    clusters: Sequence[int] | None = None,
    index: str = "whole",
    verb: str = "evaluate",
) -> RunLog:
    """One query a cluster, whose rows are not in order."""
    count = len(query_tokens)
    rows = pl.DataFrame(
        [
            dict.fromkeys(SCHEMA)
            | {
                "run": "r",
                "model": "m",
                "treatment": name,
                "measure": measure,
                "set": number if clusters is None else clusters[number],
                "order": 0,
                "document": f"d{number:02}",
                "query": f"q{number:02}",
                "query_tokens": query_tokens[number],
                "tokens": 500 if tokens is None else tokens[number],
                "part": index,
                "value": float(found[number]),
            }
            for name, found in values.items()
            for number in np.random.default_rng(len(name)).permutation(count).tolist()
        ],
        schema=SCHEMA,
    )
    spec = make_evaluation(
        "pages", treatments=list(values), documents_only=False, metrics=["ndcg@10", "mrr"]
    ).to_dict()
    header = {"verb": verb, "run": "m-1", "seed": 0, "spec": spec, "status": "complete", "notes": []}
    return RunLog(folder, header, rows, view_of)


def group(found: Sequence[LengthGroup], name: str, treatment: str = "none") -> LengthGroup:
    [one] = [one for one in found if (one.group, one.arm.treatment) == (name, treatment)]
    return one


SCORES = {"none": [0.1, 0.3, 0.9, 0.8, 0.7, 0.2, 0.5, 0.6, 0.4, 0.0], "paper": [0.2, 0.6, 0, 0, 0, 1, 1, 1, 0.5, 0.7]}


def test_shortest_and_longest_fifth_by_hand(tmp_path: Path) -> None:
    """Ten queries of 10 to 1 tokens: the last two are the shortest, the first two the longest."""
    found = by_length(search_log(tmp_path, SCORES, query_tokens=list(range(10, 0, -1))))
    assert [(one.arm.treatment, one.group) for one in found] == [
        (name, which) for name in SCORES for which in ("shortest queries", "longest queries")
    ]
    for name, values in SCORES.items():
        short, long = group(found, "shortest queries", name), group(found, "longest queries", name)
        assert (short.count, short.tokens) == (2, (1, 2))
        assert (long.count, long.tokens) == (2, (9, 10))
        assert short.value.estimate == pytest.approx(np.mean(values[8:]))
        assert long.value.estimate == pytest.approx(np.mean(values[:2]))
        assert short.measure == long.measure == "ndcg@10"
    assert group(found, "longest queries").change is None
    for which, part in (("shortest queries", slice(8, 10)), ("longest queries", slice(0, 2))):
        by_hand = np.mean(np.array(SCORES["paper"][part]) - np.array(SCORES["none"][part]))
        change = group(found, which, "paper").change
        assert change is not None
        assert change.estimate == pytest.approx(by_hand)


def test_changes_are_paired(tmp_path: Path) -> None:
    """The second treatment adds 0.1 to every query: the change has no width, though the scores differ much."""
    rng = np.random.default_rng(1)
    scores = rng.uniform(0, 0.9, 40)
    log = search_log(tmp_path, {"none": scores, "paper": scores + 0.1}, query_tokens=list(range(1, 41)))
    for which in ("shortest queries", "longest queries"):
        one = group(by_length(log), which, "paper")
        assert one.change is not None
        assert (one.change.low, one.change.estimate, one.change.high) == pytest.approx((0.1, 0.1, 0.1))
        assert one.value.high - one.value.low > 0.05


@pytest.mark.parametrize(
    ("lengths", "short", "long"),
    [
        # Quantiles 5 and 9: four queries and three lie on them, and all of them are in.
        ([5, 5, 5, 5, 6, 7, 8, 9, 9, 9], 4, 3),
        ([5] * 5 + [9] * 5, 5, 5),
        # Between 6 and 8 of the sorted lengths: 6.8 and 8.2.
        ([6, 6, 7, 7, 7, 8, 8, 8, 9, 9], 2, 2),
    ],
)
def test_ties_at_the_quantile_are_inside(tmp_path: Path, lengths: list[int], short: int, long: int) -> None:
    found = by_length(search_log(tmp_path, SCORES, query_tokens=lengths))
    assert group(found, "shortest queries").count == short
    assert group(found, "longest queries").count == long
    assert group(found, "shortest queries").value.estimate == pytest.approx(np.mean(SCORES["none"][:short]))


@pytest.mark.parametrize("lengths", [[7] * 10, [5] * 9 + [9], [5] + [9] * 9, [None] * 10])
def test_too_few_different_lengths(tmp_path: Path, lengths: list[int | None]) -> None:
    """One length for more than four fifths of the queries, or none that is known."""
    assert by_length(search_log(tmp_path, SCORES, query_tokens=lengths)) == []


def test_the_longest_documents_by_rank(tmp_path: Path) -> None:
    ranks = {"none": [1, 2, 3, 4, 5, 6, 7, 8, 9, 30], "paper": [1, 1, 1, 1, 1, 1, 1, 1, 5, 4]}
    tokens = [100, 110, 120, 130, 140, 150, 160, 170, 900, 1000]
    found = by_length(search_log(tmp_path, ranks, measure="rank", query_tokens=[None] * 10, tokens=tokens))
    assert [(one.group, one.measure) for one in found] == [("longest documents", "rank")] * 2
    first, second = found
    assert (first.count, first.tokens) == (2, (900, 1000))
    assert first.value.estimate == pytest.approx(19.5)
    assert second.value.estimate == pytest.approx(4.5)
    assert second.change is not None
    assert second.change.estimate == pytest.approx(-15)


def test_queries_of_one_document_are_one_cluster(tmp_path: Path) -> None:
    """Forty queries in clusters of two that are alike: intervals are those of twenty clusters."""
    rng = np.random.default_rng(2)
    lengths = list(range(1, 41))
    scores = np.repeat(rng.uniform(0, 1, 20), 2)
    alone = by_length(search_log(tmp_path, {"none": scores}, query_tokens=lengths))
    pairs = by_length(
        search_log(tmp_path, {"none": scores}, query_tokens=lengths, clusters=[n // 2 for n in range(40)])
    )
    for which in ("shortest queries", "longest queries"):
        one, two = group(alone, which).value, group(pairs, which).value
        assert two.estimate == pytest.approx(one.estimate)
        assert two.high - two.low > 1.1 * (one.high - one.low)


def test_another_log_has_no_search(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="not an evaluation"):
        by_length(search_log(tmp_path, SCORES, query_tokens=list(range(10)), verb="collapse"))
