"""Clusters of queries that share a document, by a graph that is walked from each query."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.retrieval.clusters import link_queries
from fairspan.retrieval.task import Passage, Query, RetrievalTask

Relevant = Mapping[str, Mapping[str, float]]


def task_of(relevant: Relevant, clusters: Mapping[str, str] = {}) -> RetrievalTask:
    names = dict.fromkeys(name for gains in relevant.values() for name in gains)
    queries = tuple(Query(id, f"ask {id}", cluster=clusters.get(id, "")) for id in relevant)
    return RetrievalTask("t", queries, tuple(Passage(name, name) for name in names), relevant)


def groups_by_hand(relevant: Relevant, clusters: Mapping[str, str]) -> set[frozenset[str]]:
    """The queries that can be reached from each by steps to one with which it shares something."""
    holds = {
        query: {name for name, gain in gains.items() if gain > 0} | {clusters.get(query) or query}
        for query, gains in relevant.items()
    }
    groups = set()
    for query in holds:
        reached: set[str] = set()
        more = {query}
        while more > reached:
            reached = more
            more = {other for other in holds for one in reached if holds[other] & holds[one]}
        groups.add(frozenset(reached))
    return groups


@settings(max_examples=25)
@given(st.data())
def test_what_shares_a_document_is_one_cluster_and_nothing_else_changes(
    data: st.DataObject,
) -> None:
    """Unless that links more than half of all queries."""
    queries = [f"q{number}" for number in range(data.draw(st.integers(2, 12)))]
    gains = st.dictionaries(
        st.sampled_from([f"d{number}" for number in range(12)]),
        st.sampled_from([0.0, 1.0, 2.0]),
        max_size=2,
    )
    # A document of its own answers each.
    relevant = {query: data.draw(gains) | {f"own {query}": 1.0} for query in queries}
    few = st.sampled_from(["", "", "c1", "c2"])
    clusters = {query: data.draw(few) for query in queries}
    task = task_of(relevant, clusters)
    linked = link_queries(task)
    expected = groups_by_hand(relevant, clusters)
    if max(map(len, expected)) > max(1, len(queries) / 2):
        (note,) = linked.notes
        assert note.startswith(f"{max(map(len, expected))} of {len(queries)} queries are linked by")
        assert linked.queries == task.queries
        return
    named: dict[str, set[str]] = {}
    for query in linked.queries:
        named.setdefault(query.cluster, set()).add(query.id)
    assert {frozenset(group) for group in named.values()} == expected
    for name, group in named.items():
        first = next(query for query in queries if query in group)
        assert name == (clusters[first] or first), "called after its first query"
    assert [(query.id, query.text) for query in linked.queries] == [
        (query.id, query.text) for query in task.queries
    ]
    assert (linked.documents, linked.relevant, linked.notes) == (task.documents, relevant, ())
