"""Parts of tasks: what they share (nothing), how large they are, and that a part is a task like any other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.errors import CorpusError
from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.splitting import Tasks, link_queries, split_tasks
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from fairspan.runs.fit_part import FitPart
from fairspan.runs.progress import Silent
from fairspan.runs.searching import Searching, measure_tasks
from fairspan.runs.study import Run
from fairspan.runs.subject import Subject, open_subject
from tests.tiny import words

HALVES = {"tune": 0.5, "guard": 0.25, "report": 0.25}


def measured(task: RetrievalTask) -> MeasuredTask:
    """Lengths and places that say what they are of."""
    return MeasuredTask(
        task,
        {one.id: len(one.text) for one in task.documents},
        {one.id: len(one.text) for one in task.queries},
        {query: Position(1 + number % 3, 3, number) for number, query in enumerate(task.evidence)},
    )


def simple(clusters: int, others: int = 0, each: int = 1, edition: int = 0) -> MeasuredTask:
    """Clusters of one document and its queries, and documents that nobody asks for."""
    documents = [Passage(f"d{number}", f"text {number}") for number in range(clusters + others)]
    queries = [
        Query(f"q{number}-{turn}", f"ask {number} {turn}", cluster=f"set{number}")
        for number in range(clusters)
        for turn in range(each)
    ]
    relevant = {query.id: {f"d{query.cluster[3:]}": 1.0} for query in queries}
    evidence = {query.id: Evidence(f"d{query.cluster[3:]}", 0, 4) for query in queries}
    return measured(RetrievalTask("simple", tuple(queries), tuple(documents), relevant, evidence, edition))


@st.composite
def random_tasks(draw: st.DrawFn) -> list[MeasuredTask]:
    """One or two editions, whose documents share texts and segments, and whose queries share documents and words.

    Enough of them share nothing for every part to have some.
    """
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
        tasks.append(measured(RetrievalTask("random", tuple(queries), tuple(documents), relevant, evidence, edition)))
    return tasks


def shared_things(part: Tasks) -> dict[str, set[str]]:
    """Everything that must not be in two parts."""
    documents = [own for one in part for own in one.task.documents]
    queries = [own for one in part for own in one.task.queries]
    texts = {own.text for own in documents} | {own.text[slice(*span)] for own in documents for span in own.spans}
    return {
        "documents": {own.id for own in documents},
        "queries": {own.id for own in queries},
        "texts": texts | {own.text for own in queries},
        "clusters": {own.cluster for own in queries},
    }


def clusters_of(part: Tasks) -> list[str]:
    return list(dict.fromkeys(query.cluster for one in part for query in one.task.queries))


# --- nothing is shared


@settings(max_examples=40, deadline=None)
@given(random_tasks(), st.integers(0, 5))
def test_parts_share_nothing_and_lose_nothing(tasks: list[MeasuredTask], seed: int) -> None:
    try:
        parts = split_tasks(tasks, HALVES, seed)
    except CorpusError:
        return  # everything hangs together
    things = [shared_things(part) for part in parts.values()]
    for kind in ("documents", "queries", "texts", "clusters"):
        found = [name for own in things for name in own[kind]]
        assert len(found) == len(set(found)), kind
    for edition, one in enumerate(tasks):
        pieces = [own for part in parts.values() for own in part if own.task.edition == edition]
        queries = {query.id: (own, query) for own in pieces for query in own.task.queries}
        assert queries.keys() == {query.id for query in one.task.queries}
        for query in one.task.queries:
            own, found = queries[query.id]
            assert (found.text, found.language) == (query.text, query.language)
            assert own.task.evidence.get(query.id) == one.task.evidence.get(query.id)
            assert own.positions.get(query.id) == one.positions.get(query.id)
            wanted = one.task.relevant[query.id]
            kept = own.task.relevant[query.id]
            assert {name for name, gain in kept.items() if gain > 0} == {
                name for name, gain in wanted.items() if gain > 0
            }
            assert kept.items() <= wanted.items()
        # Documents go nowhere, unless a part has no queries of that edition at all.
        documents = [document for own in pieces for document in own.task.documents]
        assert len(documents) == len({document.id for document in documents})
        if len(pieces) == len(parts):
            assert {document.id for document in documents} == {document.id for document in one.task.documents}


@settings(max_examples=40, deadline=None)
@given(random_tasks(), st.integers(0, 5))
def test_the_most_is_divided(tasks: list[MeasuredTask], seed: int) -> None:
    """Only what shares something is one cluster: by a graph of everything, walked from each query."""
    neighbours: dict[str, set[str]] = {}

    def join(*nodes: str) -> None:
        for node in nodes:
            neighbours.setdefault(node, set()).update(nodes)

    for one in tasks:
        for document in one.task.documents:
            texts = (document.text, *(document.text[slice(*span)] for span in document.spans))
            join(f"document {document.id}", *(f"text {text}" for text in texts))
        for query in one.task.queries:
            positive = [name for name, gain in one.task.relevant[query.id].items() if gain > 0]
            join(f"query {query.id}", f"text {query.text}", *(f"document {name}" for name in positive))
            if query.cluster:
                join(f"query {query.id}", f"cluster {query.cluster}")
    companies = set()
    for query in (query for one in tasks for query in one.task.queries):
        seen, ahead = set[str](), [f"query {query.id}"]
        while ahead:
            node = ahead.pop()
            if node not in seen:
                seen.add(node)
                ahead.extend(neighbours[node])
        companies.add(frozenset(name for name in seen if name.startswith("query ")))
    try:
        parts = split_tasks(tasks, HALVES, seed)
    except CorpusError:
        assert len(companies) < 8
        return
    quarter = len(companies) // 4
    found = {part: len(clusters_of(own)) for part, own in parts.items()}
    assert found == {"tune": len(companies) - 2 * quarter, "guard": quarter, "report": quarter}


# --- how large, which, and how many


@pytest.mark.parametrize(("clusters", "sizes"), [(200, (100, 50, 50)), (11, (7, 2, 2)), (8, (4, 2, 2))])
def test_shares_are_of_clusters_and_the_first_part_gets_the_rest(clusters: int, sizes: tuple[int, int, int]) -> None:
    parts = split_tasks([simple(clusters, others=2 * clusters, each=3)], HALVES, 0)
    assert tuple(len(clusters_of(part)) for part in parts.values()) == sizes
    assert tuple(len(part[0].task.queries) for part in parts.values()) == tuple(3 * size for size in sizes)
    quarter = 2 * clusters // 4
    others = (2 * clusters - 2 * quarter, quarter, quarter)
    found = tuple(len(part[0].task.documents) for part in parts.values())
    assert found == tuple(size + other for size, other in zip(sizes, others, strict=True))


@pytest.mark.parametrize("clusters", [1, 3, 7])
def test_too_few_to_divide_are_refused(clusters: int) -> None:
    """A part of one cluster would have no error."""
    with pytest.raises(CorpusError, match=rf"simple has {clusters} clusters of queries .* into tune, guard, report"):
        split_tasks([simple(clusters, each=20)], HALVES, 0)


def test_queries_that_share_a_document_are_one_cluster() -> None:
    """q1 shares d1 with q0 and d2 with q2; q4 knows d3 only as a document that does not answer it."""
    texts = [Passage(f"d{number}", f"text {number}") for number in range(6)]
    relevant = {"q0": {"d1": 1.0}, "q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d2": 1.0}}
    relevant |= {"q3": {"d3": 1.0}, "q4": {"d3": 0.0, "d4": 1.0}, "q5": {"d5": 1.0}}
    queries = tuple(Query(name, "ask") for name in relevant)
    task = RetrievalTask("linked", queries, tuple(texts), relevant, {})
    [found] = link_queries([measured(task)])
    assert [query.cluster for query in found.task.queries] == ["", "q0", "q0", "", "", ""]
    assert found.task.notes == ()
    many = {**relevant, "q3": {"d2": 1.0}}
    [left] = link_queries([measured(RetrievalTask("hub", queries, tuple(texts), many, {}))])
    assert left.task.queries == queries, "four of six hang together: clusters would say little"
    assert left.task.notes[0].startswith("4 of 6 queries are linked by documents")


def test_the_seed_decides() -> None:
    task = simple(60, others=30)

    def split(seed: int) -> list[list[str]]:
        return [
            sorted(one.id for one in part[0].task.documents) for part in split_tasks([task], HALVES, seed).values()
        ]

    assert split(4) == split(4)
    assert split(4) != split(5)
    # A part is no beginning or end of the collection.
    tuned = {int(query.cluster[3:]) for query in split_tasks([task], HALVES, 4)["tune"][0].task.queries}
    assert 10 < sum(number < 30 for number in tuned) < 20


def test_an_edition_without_queries_in_a_part_is_not_in_it() -> None:
    """Half of the clusters have no second edition: a part of those alone has one task."""
    one, two = simple(40, others=8), simple(2, others=46, edition=1)
    parts = split_tasks([one, two], HALVES, 0)
    assert sorted(len(part) for part in parts.values()) in ([1, 1, 2], [1, 2, 2])
    assert all(own.task.queries for part in parts.values() for own in part)


def test_searching_a_part_is_searching_a_task_of_that_part_alone(
    make_tiny: Callable[..., SentenceTransformer],
) -> None:
    """Measured anew, with nothing else in it."""
    documents = tuple(Passage(f"d{number:02}", words(6 + number % 9, number)) for number in range(40))
    queries = tuple(Query(f"q{number:02}", words(4, 500 + number)) for number in range(24))
    relevant = {f"q{number:02}": {f"d{number:02}": 2.0, f"d{number + 8:02}": 0.0} for number in range(24)}
    relevant["q03"]["d30"] = 1.0
    evidence = {f"q{number:02}": Evidence(f"d{number:02}", 6, 8) for number in range(0, 24, 2)}
    subject = open_subject(make_tiny())
    whole = measure_tasks(subject, [RetrievalTask("texts", queries, documents, relevant, evidence)])
    for part in split_tasks(whole, HALVES, 0).values():
        (own,) = part
        ids = {document.id for document in own.task.documents}
        clusters = {query.id: query.cluster for query in own.task.queries}
        alone = RetrievalTask(
            "texts",
            tuple(Query(name, words(4, 500 + int(name[1:])), cluster=clusters[name]) for name in clusters),
            tuple(document for document in documents if document.id in ids),
            {
                query: {name: gain for name, gain in relevant[query].items() if gain > 0 or name in ids}
                for query in clusters
            },
            {query: found for query, found in evidence.items() if query in clusters},
        )
        assert own.task == alone
        found = searched(subject, part)
        assert len(found) == 2 * len(own.task.queries)
        assert found.equals(searched(subject, measure_tasks(subject, [alone])))


def searched(subject: Subject, tasks: Tasks) -> pl.DataFrame:
    """All rows of a search by the plain model."""
    searching = Searching(subject, tasks, ("ndcg@10", "mrr"), 64, with_ranks=False)
    with Store(":memory:") as store:
        prepared = SimpleNamespace(subject=subject, fit=FitPart())
        writer = SimpleNamespace(header={"run": "r"}, add=None)
        run = Run(prepared, writer, store, 512, Tally(), Silent())  # type: ignore[arg-type]
        treated = run.under(as_treatment("none"))
        run.fill(treated.queries, searching.queries())
        rows, cost = searching.index_and_search(run, treated, searching.plan("whole"))
    assert cost["documents"] == len(tasks[0].task.documents)
    return rows
