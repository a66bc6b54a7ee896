"""A search by length, from rows whose means, ranks and clusters are known by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairspan.runs.rows import SCHEMA
from fairspan.studies.evaluate.summary import frames_of
from tests.searches import log_of

SCORES = {
    "plain": [0.1, 0.3, 0.9, 0.8, 0.7, 0.2, 0.5, 0.6, 0.4, 0.0],
    "paper": [0.2, 0.6, 0, 0, 0, 1, 1, 1, 0.5, 0.7],
}


def by_length(
    folder: Path,
    values: Mapping[str, Sequence[float]],
    query_tokens: Sequence[int],
    *,
    ranks: Mapping[str, Sequence[float]] | None = None,
    tokens: Sequence[int] | None = None,
) -> dict[tuple[str, str], dict[str, Any]]:
    """The frame by group and treatment; one query a cluster, whose rows are not in order."""
    rows = [
        {"run": "r", "model": "m", "treatment": name, "measure": measure, "part": "whole"}
        | {"set": number, "order": 0, "document": f"d{number:02}", "query": f"q{number:02}"}
        | {"query_tokens": query_tokens[number], "tokens": tokens[number] if tokens else 500}
        | {"value": float(value)}
        for measure, own in (("ndcg@10", values), ("rank", ranks or {}))
        for name, found in own.items()
        for number, value in enumerate(found)
    ]
    frame = pl.DataFrame(rows, schema=SCHEMA)
    log = log_of(folder, frame, positions=None, spec={"documents_only": False})
    found = frames_of(log).get("by_length", pl.DataFrame())
    return {(one["group"], one["treatment"]): one for one in found.to_dicts()}


def test_shortest_and_longest_fifth_by_hand(tmp_path: Path) -> None:
    """Ten queries of 10 to 1 tokens: the last two are the shortest, the first two the longest."""
    found = by_length(tmp_path, SCORES, list(range(10, 0, -1)))
    assert list(found) == [
        (which, name) for name in SCORES for which in ("shortest queries", "longest queries")
    ]
    for which, part, tokens in (
        ("shortest queries", slice(8, 10), (1, 2)),
        ("longest queries", slice(2), (9, 10)),
    ):
        for name, values in SCORES.items():
            one = found[which, name]
            assert (one["measure"], one["count"]) == ("ndcg@10", 2)
            assert (one["tokens_from"], one["tokens_to"]) == tokens
            assert one["estimate"] == pytest.approx(np.mean(values[part]))
        assert found[which, "plain"]["change_estimate"] is None
        difference = np.mean(np.array(SCORES["paper"][part]) - np.array(SCORES["plain"][part]))
        assert found[which, "paper"]["change_estimate"] == pytest.approx(difference)


@pytest.mark.parametrize(
    ("lengths", "short", "long"),
    [
        # Quantiles 5 and 9: four queries and three lie on them, and all of them are in.
        ([5, 5, 5, 5, 6, 7, 8, 9, 9, 9], 4, 3),
        # Between 6 and 8 of the sorted lengths: 6.8 and 8.2.
        ([6, 6, 7, 7, 7, 8, 8, 8, 9, 9], 2, 2),
    ],
)
def test_ties_at_the_quantile_are_inside(
    tmp_path: Path, lengths: list[int], short: int, long: int
) -> None:
    found = by_length(tmp_path, SCORES, lengths)
    shortest = found["shortest queries", "plain"]
    assert (shortest["count"], found["longest queries", "plain"]["count"]) == (short, long)
    assert shortest["estimate"] == pytest.approx(np.mean(SCORES["plain"][:short]))


def test_too_few_different_lengths(tmp_path: Path) -> None:
    assert by_length(tmp_path, SCORES, [5] * 9 + [9]) == {}


def test_the_longest_documents_by_rank(tmp_path: Path) -> None:
    ranks = {"plain": [1, 2, 3, 4, 5, 6, 7, 8, 9, 30], "paper": [1, 1, 1, 1, 1, 1, 1, 1, 5, 4]}
    tokens = [100, 110, 120, 130, 140, 150, 160, 170, 900, 1000]
    found = by_length(tmp_path, SCORES, [5] * 10, ranks=ranks, tokens=tokens)
    assert list(found) == [("longest documents", "plain"), ("longest documents", "paper")]
    first, second = found.values()
    assert (first["count"], first["tokens_from"], first["tokens_to"]) == (2, 900, 1000)
    assert (first["estimate"], second["estimate"]) == pytest.approx((19.5, 4.5))
    assert second["change_estimate"] == pytest.approx(-15)
