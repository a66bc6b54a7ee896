"""Clusters of queries that share a document or a text."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.task import RetrievalTask

Tasks = tuple[MeasuredTask, ...]
Node = tuple[str, str]


def link_queries(tasks: Sequence[MeasuredTask], *, texts: bool = False) -> Tasks:
    """The same tasks, with queries that share a cluster or a document that answers them in one cluster.

    With `texts`, also those of documents that share their text or that of a segment.

    Where many documents answer each query, most queries hang together. Then they are left as they are, with a note.
    """
    groups = _groups([one.task for one in tasks], texts=texts)
    names = _names(tasks, groups)
    numbers = [groups["query", query.id] for one in tasks for query in one.task.queries]
    largest, linked = max(np.bincount(numbers)), list[MeasuredTask]()
    for one in tasks:
        named = [(query, names[groups["query", query.id]]) for query in one.task.queries]
        queries = (
            q if name == (q.cluster or q.id) else replace(q, cluster=name) for q, name in named
        )
        linked.append(replace(one, task=replace(one.task, queries=tuple(queries))))
    if linked == [*tasks] or largest <= len(numbers) / 2:
        return tuple(linked)
    linked_by = (
        f"{largest:,} of {len(numbers):,} queries are linked by documents that answer several"
    )
    note = f"{linked_by}, and count as independent: intervals may be too narrow"
    first_task = replace(tasks[0].task, notes=(*tasks[0].task.notes, note))
    return replace(tasks[0], task=first_task), *tasks[1:]


def _names(tasks: Sequence[MeasuredTask], groups: Mapping[Node, int]) -> dict[int, str]:
    """What the cluster of each group is called: after its first query."""
    queries = [query for one in tasks for query in one.task.queries]
    return {groups["query", query.id]: query.cluster or query.id for query in reversed(queries)}


def _groups(tasks: Sequence[RetrievalTask], *, texts: bool) -> dict[Node, int]:
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
