"""Parts of tasks that share nothing: documents with their queries, and everything that shares a text with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from fairspan.errors import CorpusError
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.task import RetrievalTask

Tasks = tuple[MeasuredTask, ...]
LEAST = 2
"""Clusters in a part: of one alone, no error is known."""
_QUERY, _CLUSTER, _DOCUMENT, _TEXT = "q ", "c ", "d ", "t "


def split_tasks(tasks: Sequence[MeasuredTask], shares: Mapping[str, float], seed: int) -> dict[str, Tasks]:
    """Divide tasks that are searched together, such as the editions of pages.

    Queries that share a cluster, a document that answers them, or its text or that of one of its segments, stay
    together and become one cluster, with every other document that shares a text with them. Documents that no query
    asks for are divided as well. A part has no tasks without queries.

    Args:
        shares: of the clusters by part, adding up to 1; the first part gets what rounding leaves over.

    Raises:
        CorpusError: if a part would have fewer than two clusters.
    """
    rng = np.random.default_rng(seed)
    linked = _linked([one.task for one in tasks])
    parts = _divided([linked.clusters[number] for number in rng.permutation(len(linked.clusters))], shares)
    if min(map(len, parts.values())) < LEAST:
        raise CorpusError(
            f"{tasks[0].task.name} has {len(linked.clusters)} clusters of queries that share no document, and "
            f"{ceil(LEAST / min(shares.values()))} are needed to divide it into {', '.join(shares)}: add documents "
            "and queries."
        )
    spread = _divided([linked.others[number] for number in rng.permutation(len(linked.others))], shares)
    return {part: _taken(tasks, linked, own, spread[part]) for part, own in parts.items()}


@dataclass(frozen=True, slots=True)
class _Linked:
    """Companies: queries and documents that share a text, by the cluster or document that names them.

    Attributes:
        queries, documents: the company of each one, by id.
    """

    queries: Mapping[str, str]
    documents: Mapping[str, str]

    @property
    def clusters(self) -> list[str]:
        """Companies with queries."""
        return list(dict.fromkeys(self.queries.values()))

    @property
    def others(self) -> list[str]:
        """Companies that no query asks for."""
        return [one for one in dict.fromkeys(self.documents.values()) if one.startswith(_DOCUMENT)]


def _taken(tasks: Sequence[MeasuredTask], linked: _Linked, clusters: Sequence[str], others: Sequence[str]) -> Tasks:
    """Tasks with the queries of these clusters, in their order, their documents, and the other documents."""
    place, kept = {name: number for number, name in enumerate(clusters)}, {*clusters, *others}
    found = []
    for one in tasks:
        task = one.task
        queries = [query for query in task.queries if linked.queries[query.id] in place]
        queries.sort(key=lambda query: place[linked.queries[query.id]])
        if not queries:
            continue
        documents = tuple(document for document in task.documents if linked.documents[document.id] in kept)
        there = {document.id for document in documents}
        relevant = {query.id: task.relevant[query.id] for query in queries}
        part = replace(
            task,
            queries=tuple(
                replace(query, cluster=linked.queries[query.id].removeprefix(_CLUSTER)) for query in queries
            ),
            documents=documents,
            relevant={
                query: {document: gain for document, gain in gains.items() if document in there}
                for query, gains in relevant.items()
            },
            evidence={query: task.evidence[query] for query in relevant if query in task.evidence},
        )
        positions = {query: own for query, own in one.positions.items() if query in relevant}
        found.append(replace(one, task=part, positions=positions))
    return tuple(found)


def _divided(names: Sequence[str], shares: Mapping[str, float]) -> dict[str, list[str]]:
    """Runs of names, as long as the shares say; the first part gets the rest."""
    first, *others = shares
    counts = {part: int(len(names) * shares[part] + 1e-9) for part in others}
    ends = np.cumsum([len(names) - sum(counts.values()), *counts.values()])
    starts = [0, *ends[:-1]]
    return {part: list(names[start:end]) for part, start, end in zip((first, *others), starts, ends, strict=True)}


def _linked(tasks: Sequence[RetrievalTask]) -> _Linked:
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while above.setdefault(node, node) != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    def join(one: str, other: str) -> None:
        above[top(other)] = top(one)

    for task in tasks:
        for document in task.documents:
            for text in (document.text, *(document.text[slice(*span)] for span in document.spans)):
                join(f"{_DOCUMENT}{document.id}", f"{_TEXT}{text}")
        for query in task.queries:
            own = f"{_QUERY}{query.id}"
            for other in (f"{_CLUSTER}{query.cluster or query.id}", f"{_TEXT}{query.text}"):
                join(own, other)
            for name, gain in task.relevant[query.id].items():
                if gain > 0:
                    join(own, f"{_DOCUMENT}{name}")
    names: dict[str, str] = {}
    queries = {
        query.id: names.setdefault(top(f"{_QUERY}{query.id}"), f"{_CLUSTER}{query.cluster or query.id}")
        for task in tasks
        for query in task.queries
    }
    documents = {
        document.id: names.setdefault(top(f"{_DOCUMENT}{document.id}"), f"{_DOCUMENT}{document.id}")
        for task in tasks
        for document in task.documents
    }
    return _Linked(queries, documents)
