"""Clusters of queries that share a document, and parts of tasks that share nothing, not even a text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

import numpy as np
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from fairspan.errors import CorpusError
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.task import RetrievalTask

Tasks = tuple[MeasuredTask, ...]
Node = tuple[str, str]
LEAST = 2
"""Clusters in a part: of one alone, no error is known."""


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
    groups = _groups([one.task for one in tasks])
    clusters = list(dict.fromkeys(groups["query", query.id] for one in tasks for query in one.task.queries))
    asked = {*clusters}
    of_documents = dict.fromkeys(groups["document", own.id] for one in tasks for own in one.task.documents)
    others = [number for number in of_documents if number not in asked]
    parts = _divided([clusters[number] for number in rng.permutation(len(clusters))], shares)
    if min(map(len, parts.values())) < LEAST:
        raise CorpusError(
            f"{tasks[0].task.name} has {len(clusters)} clusters of queries that share no document, and "
            f"{ceil(LEAST / min(shares.values()))} are needed to divide it into {', '.join(shares)}: add documents "
            "and queries."
        )
    spread = _divided([others[number] for number in rng.permutation(len(others))], shares)
    return {part: _taken(tasks, groups, own, spread[part]) for part, own in parts.items()}


def link_queries(tasks: Sequence[MeasuredTask]) -> Tasks:
    """The same tasks, with queries that share a cluster or a document that answers them in one cluster.

    Where many documents answer each query, most queries hang together. Then they are left as they are, with a note.
    """
    groups = _groups([one.task for one in tasks], texts=False)
    names = _names(tasks, groups)
    numbers = [groups["query", query.id] for one in tasks for query in one.task.queries]
    largest, linked = max(np.bincount(numbers)), list[MeasuredTask]()
    for one in tasks:
        named = [(query, names[groups["query", query.id]]) for query in one.task.queries]
        queries = (q if name == (q.cluster or q.id) else replace(q, cluster=name) for q, name in named)
        linked.append(replace(one, task=replace(one.task, queries=tuple(queries))))
    if linked == [*tasks] or largest <= len(numbers) / 2:
        return tuple(linked)
    linked_by = f"{largest:,} of {len(numbers):,} queries are linked by documents that answer several"
    note = f"{linked_by}, and count as independent: intervals may be too narrow"
    first_task = replace(tasks[0].task, notes=(*tasks[0].task.notes, note))
    return replace(tasks[0], task=first_task), *tasks[1:]


def _taken(
    tasks: Sequence[MeasuredTask], groups: Mapping[Node, int], clusters: Sequence[int], others: Sequence[int]
) -> Tasks:
    """Tasks with the queries of these clusters, in their order, their documents, and the other documents."""
    place, kept = {number: rank for rank, number in enumerate(clusters)}, {*clusters, *others}
    names, found = _names(tasks, groups), list[MeasuredTask]()
    for one in tasks:
        task = one.task
        numbers = {query.id: groups["query", query.id] for query in task.queries}
        asked = sorted((query for query in numbers if numbers[query] in place), key=lambda own: place[numbers[own]])
        if not asked:
            continue
        by_id = {query.id: replace(query, cluster=names[numbers[query.id]]) for query in task.queries}
        documents = tuple(own for own in task.documents if groups["document", own.id] in kept)
        there = {own.id for own in documents}
        part = replace(
            task,
            queries=tuple(by_id[query] for query in asked),
            documents=documents,
            relevant={
                query: {name: gain for name, gain in task.relevant[query].items() if name in there} for query in asked
            },
            evidence={query: task.evidence[query] for query in asked if query in task.evidence},
        )
        positions = {query: own for query, own in one.positions.items() if numbers[query] in place}
        found.append(replace(one, task=part, positions=positions))
    return tuple(found)


def _names(tasks: Sequence[MeasuredTask], groups: Mapping[Node, int]) -> dict[int, str]:
    """What the cluster of each group is called: after its first query."""
    queries = [query for one in tasks for query in one.task.queries]
    return {groups["query", query.id]: query.cluster or query.id for query in reversed(queries)}


def _divided(numbers: Sequence[int], shares: Mapping[str, float]) -> dict[str, Sequence[int]]:
    """Runs of numbers, as long as the shares say; the first part gets the rest."""
    first, *others = shares
    counts = {part: int(len(numbers) * shares[part] + 1e-9) for part in others}
    ends = np.cumsum([len(numbers) - sum(counts.values()), *counts.values()])
    starts = [0, *ends[:-1]]
    return {part: numbers[start:end] for part, start, end in zip((first, *others), starts, ends, strict=True)}


def _groups(tasks: Sequence[RetrievalTask], *, texts: bool = True) -> dict[Node, int]:
    """The number of the group that each query and document belongs to, by kind and id."""
    nodes: dict[Node, int] = {}
    pairs: list[list[int]] = []

    def join(*pair: Node) -> None:
        pairs.append([nodes.setdefault(node, len(nodes)) for node in pair])

    for task in tasks:
        for document in task.documents if texts else ():
            for text in (document.text, *(document.text[slice(*span)] for span in document.spans)):
                join(("document", document.id), ("text", text))
        for query in task.queries:
            own = ("query", query.id)
            join(own, ("cluster", query.cluster or query.id))
            if texts:
                join(own, ("text", query.text))
            for name, gain in task.relevant[query.id].items():
                if gain > 0:
                    join(own, ("document", name))
    links = coo_array((np.ones(len(pairs)), np.transpose(pairs)), shape=(len(nodes), len(nodes)))
    return dict(zip(nodes, connected_components(links, directed=False)[1].tolist(), strict=True))
