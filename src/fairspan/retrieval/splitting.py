"""Clusters of queries that share a document or a text."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.task import RetrievalTask

Node = tuple[str, str]
"""The kind of a query, document, cluster or text, and its id or content."""


def link_queries(tasks: Sequence[MeasuredTask], *, texts: bool = False) -> tuple[MeasuredTask, ...]:
    """The same tasks, with queries in one cluster that share a cluster or a relevant document.

    With `texts`, also those whose documents share a text or a segment. If this links more than half
    of the queries, they are left as they are, with a note.
    """
    groups = _groups([measured.task for measured in tasks], texts=texts)
    asked = [query for measured in tasks for query in measured.task.queries]
    # A group is called after its first query.
    names = {groups["query", query.id]: query.cluster or query.id for query in reversed(asked)}
    linked = list[MeasuredTask]()
    for measured in tasks:
        queries = []
        for query in measured.task.queries:
            name = names[groups["query", query.id]]
            unchanged = name == (query.cluster or query.id)
            queries.append(query if unchanged else replace(query, cluster=name))
        linked.append(replace(measured, task=replace(measured.task, queries=tuple(queries))))
    largest = max(np.bincount([groups["query", query.id] for query in asked]))
    if linked == [*tasks] or largest <= len(asked) / 2:
        return tuple(linked)
    note = (
        f"{largest:,} of {len(asked):,} queries are linked by documents that answer several, "
        "and count as independent: intervals may be too narrow"
    )
    first_task = replace(tasks[0].task, notes=(*tasks[0].task.notes, note))
    return replace(tasks[0], task=first_task), *tasks[1:]


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
            node = ("query", query.id)
            join(node, ("cluster", query.cluster or query.id))
            if texts:
                join(node, ("text", query.text))
            for name, gain in task.relevant[query.id].items():
                if gain > 0:
                    join(node, ("document", name))
    links = coo_array((np.ones(len(pairs)), np.transpose(pairs)), shape=(len(nodes), len(nodes)))
    return dict(zip(nodes, connected_components(links, directed=False)[1].tolist(), strict=True))
