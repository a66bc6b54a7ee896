"""Clusters of queries: sharing a document or a text, by a graph that is walked from each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.splitting import link_queries
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask


def measured(task: RetrievalTask) -> MeasuredTask:
    """Lengths and places that say what they are of."""
    return MeasuredTask(
        task,
        {one.id: len(one.text) for one in task.documents},
        {one.id: len(one.text) for one in task.queries},
        {query: Position(1 + number % 3, 3, number) for number, query in enumerate(task.evidence)},
    )


def linked(
    relevant: Mapping[str, Mapping[str, float]],
    documents: Sequence[Passage] = (),
    queries: Mapping[str, str] | None = None,
    *,
    texts: bool = False,
) -> RetrievalTask:
    """A task of these documents and of others that share nothing, after its queries were linked."""
    own = {one.id for one in documents}
    names = dict.fromkeys(name for gains in relevant.values() for name in gains if name not in own)
    every = (*documents, *(Passage(name, f"text {name}") for name in names))
    asked = tuple(Query(name, (queries or {}).get(name, f"ask {name}")) for name in relevant)
    (found,) = link_queries(
        [measured(RetrievalTask("linked", asked, every, relevant, {}))], texts=texts
    )
    return found.task


def clusters(task: RetrievalTask) -> list[str]:
    return [query.cluster for query in task.queries]


@st.composite
def random_tasks(draw: st.DrawFn) -> list[MeasuredTask]:
    """One or two editions, whose documents share texts and segments, and whose queries share
    documents and words."""
    count = draw(st.integers(20, 32))
    texts = [f"text {number} " for number in range(2 * count)]
    pick = st.integers(0, 2 * count - 1)
    tasks = []
    for edition in range(draw(st.integers(1, 2))):
        documents = []
        for number in range(count + 6):
            # Segments are numbered, so that most documents have one of their own.
            parts = [texts[number % len(texts)] if draw(st.integers(0, 9)) else texts[draw(pick)]]
            parts += [texts[draw(pick)]] if not draw(st.integers(0, 7)) else []
            starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
            spans = tuple(pairwise(starts)) if draw(st.booleans()) else ()
            documents.append(Passage(f"d{number}", "".join(parts), spans=spans))
        queries, relevant, evidence = [], {}, {}
        for number in range(count):
            own = f"q{number}"
            same_words, same_cluster = not draw(st.integers(0, 9)), not draw(st.integers(0, 9))
            asked = f"ask {draw(st.integers(0, 3)) if same_words else number + 10}"
            cluster = f"set{draw(st.integers(0, 3))}" if same_cluster else ""
            queries.append(Query(own, asked, cluster=cluster))
            gains = {f"d{number}": float(draw(st.sampled_from([1, 2])))}
            if not draw(st.integers(0, 5)):
                other = f"d{draw(st.integers(0, count + 5))}"
                gains.setdefault(other, float(draw(st.sampled_from([0, 0, 1]))))
            relevant[own] = gains
            if draw(st.booleans()):
                evidence[own] = Evidence(f"d{number}", 0, 3)
        own_task = (tuple(queries), tuple(documents), relevant, evidence, edition)
        tasks.append(measured(RetrievalTask("random", *own_task)))
    return tasks


def companies(tasks: Sequence[MeasuredTask], *, texts: bool) -> set[frozenset[str]]:
    """The queries that hang together, by walking from each."""
    neighbours: dict[str, set[str]] = {}

    def join(*nodes: str) -> None:
        for node in nodes:
            neighbours.setdefault(node, set()).update(nodes)

    for one in tasks:
        for document in one.task.documents if texts else ():
            own = (document.text, *(document.text[slice(*span)] for span in document.spans))
            join(f"document {document.id}", *(f"text {text}" for text in own))
        for query in one.task.queries:
            positive = [name for name, gain in one.task.relevant[query.id].items() if gain > 0]
            join(f"query {query.id}", *(f"document {name}" for name in positive))
            join(f"query {query.id}", *([f"cluster {query.cluster}"] if query.cluster else []))
            join(f"query {query.id}", *([f"text {query.text}"] if texts else []))
    found = set()
    for query in (query for one in tasks for query in one.task.queries):
        seen, ahead = set[str](), [f"query {query.id}"]
        while ahead:
            node = ahead.pop()
            if node not in seen:
                seen.add(node)
                ahead.extend(neighbours[node])
        names = [name.removeprefix("query ") for name in seen if name.startswith("query ")]
        found.add(frozenset(names))
    return found


def as_sets(tasks: Sequence[MeasuredTask]) -> set[frozenset[str]]:
    named: dict[str, set[str]] = {}
    for query in (query for one in tasks for query in one.task.queries):
        named.setdefault(query.cluster or query.id, set()).add(query.id)
    return {frozenset(own) for own in named.values()}


@pytest.mark.parametrize("texts", [False, True])
@settings(max_examples=40)
@given(tasks=random_tasks())
def test_what_shares_something_is_one_cluster_and_nothing_else_changes(
    texts: bool, tasks: list[MeasuredTask]
) -> None:
    wanted = companies(tasks, texts=texts)
    found = link_queries(tasks, texts=texts)
    if found[0].task.notes:
        assert max(map(len, wanted)) * len(tasks) > sum(len(one.task.queries) for one in tasks) / 2
        wanted = as_sets(tuple(tasks))
    assert as_sets(found) == wanted
    for one, before in zip(found, tasks, strict=True):
        queries = tuple(
            replace(own, cluster=was.cluster)
            for own, was in zip(one.task.queries, before.task.queries, strict=True)
        )
        assert replace(one, task=replace(one.task, queries=queries, notes=())) == before


def test_queries_that_share_a_document() -> None:
    """q1 shares d1 with q0 and d2 with q2; q4 knows d3 only as one that does not answer it."""
    relevant = {"q0": {"d1": 1.0}, "q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d2": 1.0}}
    relevant |= {"q3": {"d3": 1.0}, "q4": {"d3": 0.0, "d4": 1.0}, "q5": {"d5": 1.0}}
    found = linked(relevant)
    assert clusters(found) == ["", "q0", "q0", "", "", ""]
    assert found.notes == ()
    left = linked({**relevant, "q3": {"d2": 1.0}})
    assert clusters(left) == [""] * 6, "four of six hang together: clusters would say little"
    assert left.notes[0].startswith("4 of 6 queries are linked by documents")


PAIR = Passage("d1", "one, two", spans=((0, 3), (5, 8)))
RELEVANT = {f"q{number}": {f"d{number}": 1.0} for number in range(6)}


@pytest.mark.parametrize(
    ("documents", "queries"),
    [
        ([Passage("d1", "the same"), Passage("d4", "the same")], {}),
        ([PAIR, Passage("d4", "three, two", spans=((0, 5), (7, 10)))], {}),
        ([PAIR, Passage("d4", "two")], {}),
        ([], {"q1": "what?", "q4": "what?"}),
        ([Passage("d1", "what?")], {"q4": "what?"}),
    ],
    ids=["text", "segment", "segment and text", "words", "words and text"],
)
def test_texts_that_are_the_same(documents: list[Passage], queries: dict[str, str]) -> None:
    assert clusters(linked(RELEVANT, documents, queries, texts=True)) == ["", "", "", "", "q1", ""]
    assert clusters(linked(RELEVANT, documents, queries)) == [""] * 6
    through = [*documents, Passage("unasked", "the same"), Passage("d5", "nothing of it")]
    assert clusters(linked(RELEVANT, through, queries, texts=True)) == ["", "", "", "", "q1", ""]


def test_a_document_that_nobody_asks_for_links_those_that_share_its_segments() -> None:
    between = replace(PAIR, id="unasked")
    documents = [Passage("d1", "one"), Passage("d4", "two"), between]
    assert clusters(linked(RELEVANT, documents, texts=True)) == ["", "", "", "", "q1", ""]


def test_editions_of_a_query_stay_in_one_cluster() -> None:
    queries = tuple(
        Query(f"q{number}", f"ask {number}", cluster=f"set{number}") for number in range(6)
    )
    tasks = []
    for edition, shared in enumerate(("d4", "d1")):
        relevant = {**RELEVANT, "q4": {shared: 1.0}}
        documents = tuple(Passage(f"d{number}", f"text {number}") for number in range(6))
        tasks.append(measured(RetrievalTask("pages", queries, documents, relevant, {}, edition)))
    for one in link_queries(tasks):
        assert clusters(one.task) == ["set0", "set1", "set2", "set3", "set1", "set5"]
