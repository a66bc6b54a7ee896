"""Clusters of queries that share a document, and so are not independent."""

from collections import Counter
from dataclasses import replace

import numpy as np

from fairspan.retrieval.task import RetrievalTask

Node = tuple[str, str]
"""The kind of a query, a cluster or a document, and its id."""


def link_queries(task: RetrievalTask) -> RetrievalTask:
    """The same task, with queries in one cluster that share a cluster or a relevant document.

    If this links more than half of the queries, they are left as they are, with a note.
    """
    groups = _groups(task)
    # A group is called after its first query.
    names = {groups[query.id]: query.cluster or query.id for query in reversed(task.queries)}
    linked = tuple(replace(query, cluster=names[groups[query.id]]) for query in task.queries)
    largest = max(Counter(query.cluster for query in linked).values())
    if largest <= max(1, len(linked) / 2):
        return replace(task, queries=linked)
    note = (
        f"{largest:,} of {len(linked):,} queries are linked by documents that answer several, "
        "and count as independent: intervals may be too narrow"
    )
    return replace(task, notes=(*task.notes, note))


def _groups(task: RetrievalTask) -> dict[str, int]:
    """The number of the group that each query belongs to."""
    # Imported only here: options know of clusters, and a command line should start fast.
    from scipy.sparse import coo_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

    nodes: dict[Node, int] = {}
    pairs: list[list[int]] = []
    for query in task.queries:
        relevant = task.relevant[query.id].items()
        shared = [("document", name) for name, gain in relevant if gain > 0]
        for other in [("cluster", query.cluster or query.id), *shared]:
            ends = (("query", query.id), other)
            pairs.append([nodes.setdefault(node, len(nodes)) for node in ends])
    links = coo_array((np.ones(len(pairs)), np.transpose(pairs)), shape=(len(nodes), len(nodes)))
    numbers = connected_components(links, directed=False)[1].tolist()
    return {query.id: numbers[nodes["query", query.id]] for query in task.queries}
