"""Statistics over queries: means of a metric, overall and by group, and paired changes.

All intervals are t intervals with the jackknife error over clusters of queries (CR3).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, clusters_of
from fairspan.stats.intervals import Interval
from fairspan.stats.resampling import PositionSums, Statistic, change_of, jackknife, share


def query_means(
    values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0
) -> list[Interval]:
    """Means of values[N] ≥ 0: over all queries, then in each of groups[N].

    Groups are numbered from 1 to G, or to `count` if that is more; one without queries has NaN.
    Queries with 0 are in none and count overall only. Limits are not below 0, and not above 1 where
    no value is.
    """
    sums = query_sums(values, groups, clusters, count)
    top = np.inf if np.max(values, initial=0.0) > 1 else 1.0
    means = [jackknife(sums, column(place), [place]) for place in range(sums.sums.shape[1])]
    return [
        replace(mean, low=float(np.clip(mean.low, 0, top)), high=float(np.clip(mean.high, 0, top)))
        for mean in means
    ]


def query_changes(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0
) -> list[Interval]:
    """Changes from first[N] to second[N], two treatments on the same queries, likewise."""
    before = query_sums(first, groups, clusters, count)
    both = before.beside(query_sums(second, groups, clusters, count))
    places = range(before.sums.shape[1])
    return [jackknife(both, change_of(column(place)), [place]) for place in places]


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


def query_sums(
    values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, count: int = 0
) -> PositionSums:
    """Sums [C, 1 + G] of values[N] by cluster: over all queries, then over each group."""
    numbers = np.asarray(groups)
    labels = clusters_of(clusters, "cluster")
    columns = max(count, int(numbers.max())) + 1
    weights = np.asarray(values, np.float64)
    sums = labels.by_position(numbers + 1, columns, weights)
    counts = labels.by_position(numbers + 1, columns)
    # Column 0 has the queries in no group until here.
    sums[:, 0] = labels.sums(weights)
    counts[:, 0] = counts.sum(1)
    return PositionSums(sums, counts)


def column(number: int) -> Statistic:
    return lambda means: np.asarray(means[..., number])
