"""`Answers`: rankings and ranks without what does not count, against brute force."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from fairspan.retrieval.keywords import NOTHING
from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.task import Passage, Query, RetrievalTask
from fairspan.studies.evaluate.ranking import DEPTH, Answers


def answers_of(
    relevant: Mapping[str, Mapping[str, float]],
    left_out: Mapping[str, frozenset[str]] = {},
    documents: int = 12,
    clusters: Mapping[str, str] = {},
    languages: Mapping[str, str] = {},
) -> Answers:
    names = [f"d{number:04}" for number in range(documents)]
    queries = tuple(Query(id, "ask", "xx", clusters.get(id, "")) for id in relevant)
    passages = tuple(Passage(name, "text", languages.get(name, "")) for name in names)
    task = RetrievalTask("t", queries, passages, relevant, left_out=left_out)
    lengths = {name: 100 + number for number, name in enumerate(names)}
    positions = {queries[0].id: Position(2, 30, 30)}
    return Answers.of(MeasuredTask(task, lengths, {query.id: 9 for query in queries}, positions))


@pytest.mark.parametrize("seed", range(5))
def test_what_does_not_count_is_as_if_it_were_not_there(seed: int) -> None:
    """Every query ranks all documents in an order of its own; those that are left out are struck
    from it, and the ranks of the others counted anew."""
    rng = np.random.default_rng(seed)
    names = [f"d{number:04}" for number in range(12)]
    relevant, left_out = {}, {}
    for query in ("q0", "q1", "q2", "q3"):
        shuffled = rng.permutation(names).tolist()
        wanted = rng.integers(1, 4)
        relevant[query] = {name: 1.0 + place for place, name in enumerate(shuffled[:wanted])}
        left_out[query] = frozenset(shuffled[wanted : wanted + rng.integers(0, 4)])
    left_out.pop("q3")
    answers = answers_of(relevant, left_out)
    orders = np.stack([rng.permutation(12) for _ in relevant])
    kept = [
        [number for number in order if answers.names[number] not in left_out.get(query, ())]
        for query, order in zip(relevant, orders.tolist(), strict=True)
    ]
    place_of = np.argsort(orders, 1) + 1
    ranked, omitted = (
        np.array([place_of[query, number] for query, number in pairs], np.int64)
        for pairs in (answers.pairs, answers.omitted_pairs)
    )
    expected = [1 + kept[query].index(number) for query, number in answers.pairs.tolist()]
    assert answers.counted_ranks(ranked, omitted).tolist() == expected
    for depth in (3, 12):
        counted = answers.counted(orders[:, :depth])
        for row, order, rest in zip(counted.tolist(), orders.tolist(), kept, strict=True):
            rest = [number for number in rest if number in order[:depth]]
            assert row == rest + [NOTHING] * (depth - len(rest))
    assert answers.deepest == DEPTH + max(map(len, left_out.values()))


def test_rows() -> None:
    """One a query and metric, about the document that answers best; ranks of every answer that has
    a gain; the language of the document or else of the query; clusters are numbered."""
    relevant = {"q0": {"d0001": 1.0, "d0002": 3.0, "d0003": 0.0}, "q1": {"d0005": 1.0}}
    answers = answers_of(relevant, clusters={"q0": "c"}, languages={"d0002": "de"})
    label = {"treatment": "plain", "index": "whole"}
    first = [answers.names.index(name) for name in ("d0009", "d0002", "d0001")]
    second = [answers.names.index(name) for name in ("d0005", "d0001", "d0002")]
    rows = answers.metric_rows(np.array([first, second]), ("mrr", "recall@1"), label)
    assert rows.select("measure", "query", "value").rows() == [
        ("mrr", "q0", 0.5),
        ("mrr", "q1", 1.0),
        ("recall@1", "q0", 0.0),
        ("recall@1", "q1", 1.0),
    ]
    columns = ["cluster", "document", "fifth", "language", "tokens", "query_tokens", "depth"]
    assert rows.select(columns).rows()[:2] == [
        (0, "d0002", 2, "de", 102, 9, 30),
        (1, "d0005", None, "xx", 105, 9, None),
    ]
    ranks = answers.rank_rows(np.array([4, 1, 2]), label)
    assert ranks.select("query", "document", "tokens", "value").sort("document").rows() == [
        ("q0", "d0001", 101, 4.0),
        ("q0", "d0002", 102, 1.0),
        ("q1", "d0005", 105, 2.0),
    ]
    assert set(ranks["measure"]) == {"rank"}


def test_a_metric_without_a_number_looks_at_1000_ranks() -> None:
    """The only answer is the last of 1,100."""
    answers = answers_of({"q": {"d1099": 1.0}}, documents=1100)
    (wanted,) = answers.relevant[0]
    others = [number for number in range(1100) if number != wanted]
    ranking = np.array([[*others, wanted]])
    metrics = ("mrr", "mrr@1099", "mrr@2000", "recall@1099", "recall@1100", "ndcg@1100")
    rows = answers.metric_rows(ranking, metrics, {"treatment": "plain"})
    expected = [0, 0, 1 / 1100, 0, 1, 1 / np.log2(1101)]
    assert rows["value"].to_list() == pytest.approx(expected)
