"""What can be asked of an evaluation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairspan import Endpoint
from fairspan.studies.evaluate.options import METRICS, EvaluateOptions
from tests.builders.saying import said_by


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": " "}, "a task is 'passages', the folder of a collection"),
        ({"metrics": ["ndcg"]}, "there is no metric 'ndcg': choose from ndcg@k"),
        ({"metrics": []}, "metrics must name at least one, such as ndcg@10"),
        ({"metrics": ["mrr", "mrr"]}, "metrics names 'mrr' twice"),
        ({"metrics": "mrr"}, r"metrics must be a list, such as \['ndcg@10'\], got 'mrr'"),
        ({"margin": 1}, "margin must be from 0 to below 1, got 1"),
        ({"margin": True}, "margin must be from 0 to below 1, got True"),
        ({"sets": 1}, "sets must be a whole number of at least 2, got 1"),
        ({"query_words": 61}, "query_words must be at most 60"),
        ({"task": "mteb:NFCorpus", "sets": 5}, "sets is for passages: omit it for mteb:NFCorpus"),
        ({"vectors": []}, "vectors must name different numbers, got"),
        ({"vectors": [2, "2"]}, "vectors must name different numbers, got 2, 2"),
        ({"vectors": [0]}, "vectors must be whole numbers from 1 on, or all, got 0"),
        ({"vectors": ["some"]}, "vectors must be whole numbers from 1 on, or all, got some"),
        ({"vectors": "all"}, r"vectors must be a list, such as \[1, 4, 'all'\], got 'all'"),
        ({"treatments": ["none such"]}, "none such"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(options: dict[str, Any], said: str) -> None:
    assert re.search(said, said_by(EvaluateOptions, **options))


def kinds(options: EvaluateOptions) -> dict[str, tuple[str, ...]]:
    return {one.name: options.indexes_of(one) for one in options.all_treatments}


def test_what_is_measured_by_default() -> None:
    """Passages under plain and fair, with one vector per chunk of plain as a reference."""
    options = EvaluateOptions()
    assert (options.task, tuple(options.metrics)) == ("passages", METRICS)
    assert kinds(options) == {"plain": ("whole", "parts-all"), "fair": ("whole",)}
    assert not options.compares_vectors


def test_the_reference_is_that_of_the_first_treatment_if_it_has_one_pass() -> None:
    assert kinds(EvaluateOptions(treatments=["tiles-64", "plain"])) == {
        "tiles-64": ("whole", "parts-all"),
        "plain": ("whole",),
    }
    assert kinds(EvaluateOptions(treatments=["chunk-mean", "plain"])) == {
        "chunk-mean": ("whole",),
        "plain": ("whole",),
    }


def test_an_endpoint_has_no_reference_that_was_not_asked_for() -> None:
    """What it embeds may cost money. It can be asked for."""
    pytest.importorskip("openai", reason="needs the extra endpoint")
    model = Endpoint("http://127.0.0.1:9/v1", "m")
    assert kinds(EvaluateOptions(model)) == {"plain": ("whole",), "chunk-mean": ("whole",)}
    both = EvaluateOptions(model, treatments=["plain"], vectors=[1, "all"])
    assert kinds(both) == {"plain": ("whole", "parts-all")}


def test_numbers_of_vectors() -> None:
    options = EvaluateOptions(vectors=[1, 2, "all"])
    assert options.vectors == ("1", "2", "all")
    assert options.compares_vectors
    assert set(kinds(options).values()) == {("whole", "parts-2", "parts-all")}
    alone = EvaluateOptions(vectors=[1])
    assert not alone.compares_vectors
    assert set(kinds(alone).values()) == {("whole",)}
