"""Parts of tasks that share nothing: documents with their queries, and everything that shares a text with them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairspan.errors import TaskError
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.task import RetrievalTask

Tasks = tuple[MeasuredTask, ...]

# Clusters in a part: of one alone no error can be estimated.
_LEAST = 2


def split_tasks(tasks: Sequence[MeasuredTask], shares: Mapping[str, float], seed: int) -> dict[str, Tasks]:
    """Divide tasks that are searched together, such as the editions of pages.

    Queries that share a cluster, a document that answers them, or its text or that of one of its segments, stay
    together and become one cluster. Documents that no query asks for are divided as well.

    Args:
        shares: of the clusters by part, adding up to 1; the first part gets what rounding leaves over.

    Raises:
        TaskError: if a part would have fewer clusters than the two that can be compared.
    """
    rng = np.random.default_rng(seed)
    linked = _linked([one.task for one in tasks])
    names = list(dict.fromkeys(linked[f"q {query.id}"] for one in tasks for query in one.task.queries))
    asked = {document for one in tasks for gains in one.task.relevant.values() for document in _positive(gains)}
    others = list(dict.fromkeys(own.id for one in tasks for own in one.task.documents if own.id not in asked))
    parts = _divided([names[number] for number in rng.permutation(len(names))], shares)
    if min(map(len, parts.values())) < _LEAST:
        raise TaskError(
            f"{tasks[0].task.name} has {len(names)} clusters of queries that share no document, and "
            f"{math.ceil(_LEAST / min(shares.values()))} are needed to divide it into {', '.join(shares)}: add "
            "documents and queries."
        )
    spread = _divided([others[number] for number in rng.permutation(len(others))], shares)
    return {part: _taken(tasks, linked, own, spread[part]) for part, own in parts.items()}


def first_clusters(tasks: Tasks, count: int) -> Tasks:
    """The part of divided tasks that belongs to their first clusters, with as large a share of other documents."""
    names = list(dict.fromkeys(query.cluster for one in tasks for query in one.task.queries))
    asked = {document for one in tasks for gains in one.task.relevant.values() for document in _positive(gains)}
    others = list(dict.fromkeys(own.id for one in tasks for own in one.task.documents if own.id not in asked))
    linked = {f"q {query.id}": query.cluster for one in tasks for query in one.task.queries}
    return _taken(tasks, linked, names[:count], others[: len(others) * count // len(names)])


def _taken(
    tasks: Sequence[MeasuredTask], linked: Mapping[str, str], clusters: Sequence[str], others: Sequence[str]
) -> Tasks:
    """Tasks with the queries of these clusters, in their order, what answers them, and the other documents."""
    place = {name: number for number, name in enumerate(clusters)}
    found = []
    for one in tasks:
        task = one.task
        queries = [query for query in task.queries if linked[f"q {query.id}"] in place]
        queries.sort(key=lambda query: place[linked[f"q {query.id}"]])
        relevant = {query.id: task.relevant[query.id] for query in queries}
        kept = {*others, *(document for gains in relevant.values() for document in _positive(gains))}
        part = replace(
            task,
            queries=tuple(replace(query, cluster=linked[f"q {query.id}"]) for query in queries),
            documents=tuple(document for document in task.documents if document.id in kept),
            relevant={
                query: {document: gain for document, gain in gains.items() if document in kept}
                for query, gains in relevant.items()
            },
            evidence={query: task.evidence[query] for query in relevant if query in task.evidence},
        )
        places = {query: own for query, own in one.places.items() if query in relevant}
        found.append(replace(one, task=part, places=places))
    return tuple(found)


def _divided(names: Sequence[str], shares: Mapping[str, float]) -> dict[str, list[str]]:
    """Runs of names, as long as the shares say; the first part gets the rest."""
    first, *others = shares
    counts = {part: int(len(names) * shares[part] + 1e-9) for part in others}
    ends = np.cumsum([len(names) - sum(counts.values()), *counts.values()])
    starts = [0, *ends[:-1]]
    return {part: list(names[start:end]) for part, start, end in zip((first, *others), starts, ends, strict=True)}


def _linked(tasks: Sequence[RetrievalTask]) -> dict[str, str]:
    """For every query, as "q ID", the name of what it belongs to: the first cluster or query of its company."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while above.setdefault(node, node) != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    def join(one: str, other: str) -> None:
        first, second = top(one), top(other)
        if first != second:
            above[second] = first

    for task in tasks:
        texts = {document.id: document for document in task.documents}
        for query in task.queries:
            own = f"q {query.id}"
            join(f"c {query.cluster or query.id}", own)
            join(own, f"t {query.text}")
            for name in _positive(task.relevant[query.id]):
                document = texts[name]
                join(own, f"d {name}")
                for text in (document.text, *(document.text[slice(*span)] for span in document.spans)):
                    join(own, f"t {text}")
    return {node: top(node).removeprefix("c ") for node in list(above) if node.startswith("q ")}


def _positive(gains: Mapping[str, float]) -> list[str]:
    return [document for document, gain in gains.items() if gain > 0]
