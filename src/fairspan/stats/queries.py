"""Statistics over queries: means of a metric, overall and by group, and paired changes.

Clusters of queries are left out one at a time.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, Groups, clusters_of, share
from fairspan.stats.estimates import Estimates
from fairspan.stats.jackknife import Fit, least_squares, sums_by_cluster, without_each


def query_means(
    values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0
) -> Estimates[Floats]:
    """Means of values[N] ≥ 0: over all queries, then in each of groups[N].

    Groups are numbered from 1 to G, or to `count` if that is more; one without queries has NaN.
    Queries with 0 are in none and count overall only. Limits are not below 0, and not above 1 where
    no value is.
    """
    sums = query_sums(values, groups, clusters, count)
    means = _fit(sums).contrasts(np.eye(sums.shape[1]))
    top = np.inf if np.max(values, initial=0.0) > 1 else 1.0
    return replace(means, low=np.clip(means.low, 0, top), high=np.clip(means.high, 0, top))


def query_changes(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0
) -> Estimates[Floats]:
    """Changes from first[N] to second[N], two treatments on the same queries, likewise."""
    before = query_sums(first, groups, clusters, count)
    after = query_sums(second, groups, clusters, count)
    units = np.eye(before.shape[1])
    return _fit(np.hstack([before, after])).contrasts(np.hstack([-units, units]))


def group_counts(groups: ArrayLike, clusters: ArrayLike, count: int = 0) -> list[tuple[int, int]]:
    """How many queries and clusters there are: in all, then in each of groups[N]."""
    numbers = np.asarray(groups)
    names = np.asarray(clusters)
    last = max(count, int(numbers.max()))
    inside = [numbers >= 0, *(numbers == group for group in range(1, last + 1))]
    return [(int(part.sum()), len(np.unique(names[part]))) for part in inside]


def shortfall(means: Floats) -> Floats:
    """PSI of means[..., G] ≥ 0: 1 − smallest/largest, NaN if all are 0."""
    return share(means.max(-1) - means.min(-1), means.max(-1))


def query_sums(values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0) -> Floats:
    """Sums [C, 1 + G, 2] of 1 and of values[N] by cluster: over all queries, then by group."""
    numbers = np.asarray(groups)
    cells = Groups(numbers, max(count, int(numbers.max())) + 1)
    outcome = np.asarray(values, np.float64)
    sums = sums_by_cluster(outcome, cells, clusters_of(clusters, "cluster"))
    # Until here, column 0 has the queries without a group.
    sums[:, 0] = sums.sum(1)
    return sums


def _fit(sums: Floats) -> Fit:
    whole = least_squares(sums.sum(0))
    return Fit("jackknife", whole, (without_each(sums, whole),))
