"""Statistics over queries: a retrieval metric overall and by position group, and how two treatments differ in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import (
    Codes,
    Floats,
    Groups,
    as_values,
    group,
    require_clusters,
    require_same_length,
    require_some,
    two_digits,
)
from fairspan.stats.bootstrap import TIE, Interval, PositionSums, Statistic, resample, share
from fairspan.stats.difference import difference
from fairspan.stats.distributions import t_quantile
from fairspan.stats.effects import change_of, spread
from fairspan.stats.wild import draw_weights

FEW_GROUPS = "needs queries in at least 2 position groups"
ALL_ZERO = "every group mean is 0, so shares of the largest one mean nothing"
FEW_CLUSTERS = 30
"""With fewer, a sample may lack the rare queries that change most, and no interval can know of them."""
POWER = 0.8


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """How many queries and clusters there are, and how many queries in each position group [G]."""

    queries: int
    clusters: int
    group_queries: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueryEffects:
    """One metric over queries, each number with its cluster-bootstrap interval.

    Attributes:
        overall: the mean over all queries, also those in no group.
        groups: [G], the mean in each position group.
        psi: 1 − smallest/largest group mean, 1 where a group gets nothing. It cannot be negative, so its interval
            says nothing about whether the groups are equal.
        harmonic: the harmonic mean of the group means, 0 where a group gets nothing.
    """

    overall: Interval
    groups: tuple[Interval, ...]
    psi: Interval
    harmonic: Interval
    counts: QueryCounts


@dataclass(frozen=True, slots=True, eq=False)
class QueryChange:
    """Second treatment minus first on the same queries, each number with its paired interval.

    Intervals are t intervals with the jackknife error over clusters (CR3): they hold with few clusters, where those
    of a bootstrap are too short. The p-values are those of randomisation tests: if the treatments are
    interchangeable, swapping their values in whole clusters changes nothing. That is more than an equal PSI, so that
    its test may also detect a change of another kind.

    Attributes:
        overall: difference of the means over all queries.
        groups: [G], difference in each position group.
        psi, harmonic, spread: differences of these measures of the group means; a smaller PSI or spread is fairer.
        worst: difference of the smallest group means, whichever groups these are.
        p_value: two-sided, of the overall difference.
        p_psi: two-sided, of the difference of PSI; NaN where it is not defined.
    """

    overall: Interval
    groups: tuple[Interval, ...]
    psi: Interval
    harmonic: Interval
    spread: Interval
    worst: Interval
    p_value: float
    p_psi: float
    counts: QueryCounts


def query_effects(
    values: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    level: float = 0.95,
) -> QueryEffects:
    """Means of values[N], one row per query and none below 0, overall and by groups[N].

    Groups are numbered from 1 to G; a query with 0 or less is in none of them and counts overall only. Queries with
    the same label in clusters[N] are not independent, so they are drawn together.
    """
    sums = query_sums(values, groups, clusters)
    numbers, why = _numbers(sums)
    samples = resample(sums, rng=rng, draws=draws, level=level)
    return QueryEffects(
        overall=samples.interval(column(0)),
        groups=tuple(samples.interval(column(number)) for number in numbers),
        psi=samples.interval(of_groups(shortfall), why),
        harmonic=samples.interval(of_groups(harmonic_mean), why),
        counts=_counts(sums),
    )


def query_change(
    first: ArrayLike,
    second: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    swaps: int = 9999,
    level: float = 0.95,
) -> QueryChange:
    """Compare first[N] and second[N], the values of two treatments for the same queries.

    All 2^clusters swaps are enumerated when they are no more than `swaps`. Otherwise the observed sample counts as
    one more draw, which makes the tests valid at any number of them.
    """
    one, two = query_sums(first, groups, clusters, "first"), query_sums(second, groups, clusters, "second")
    numbers, why = _numbers(one)
    both = one.beside(two)
    overall, psi = change_of(column(0)), change_of(of_groups(shortfall))
    p_value, p_psi = swap_tests(both, [overall, psi], rng, swaps)

    def compared(measure: Statistic) -> Interval:
        return t_interval(both, change_of(of_groups(measure)), numbers, level, why)

    return QueryChange(
        overall=t_interval(both, overall, [0], level),
        groups=tuple(t_interval(both, change_of(column(number)), [number], level) for number in numbers),
        psi=compared(shortfall),
        harmonic=compared(harmonic_mean),
        spread=compared(spread),
        worst=compared(lambda means: np.asarray(means.min(-1))),
        p_value=p_value,
        p_psi=p_psi,
        counts=_counts(one),
    )


def clusters_to_decide(change: Interval, clusters: int, margin: float, level: float = 0.95) -> int | None:
    """About how many clusters more, like those seen, show a gain or rule out one beyond the margin in 80 % of cases.

    The easier of the two if the estimate is the truth, and up to 30 at least; None where the change has no interval.
    """
    reach = (change.high - change.low) / 2
    if not np.isfinite(reach):
        return None
    ends = (1 + level) / 2
    # The standard deviation between clusters, from the error that the interval is made of.
    deviation = reach / float(t_quantile(ends, clusters - 1)) * np.sqrt(clusters)
    gap = max(change.estimate, margin - change.estimate)
    least = ((float(t_quantile(ends, np.inf)) + float(t_quantile(POWER, np.inf))) * deviation / gap) ** 2
    more = max(0, max(int(np.ceil(least)), FEW_CLUSTERS) - clusters)
    return two_digits(more)


def shortfall(means: Floats) -> Floats:
    """PSI of means[..., G] that may be 0 but not less: 1 − smallest/largest, NaN where all are 0."""
    return share(means.max(-1) - means.min(-1), means.max(-1))


def harmonic_mean(means: Floats) -> Floats:
    """G / Σ 1/mean of means[..., G] that are not below 0; 0 where one of them is."""
    zero = means == 0
    inverse = 1 / np.where(zero, 1.0, means)
    return np.asarray(np.where(zero.any(-1) & ~np.isnan(means).any(-1), 0.0, means.shape[-1] / inverse.sum(-1)))


def query_sums(values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, name: str = "values") -> PositionSums:
    """values[N] added up by cluster: over all queries in column 0, then over those of each group; [C, 1 + G]."""
    column, (numbers, count), labels = as_values(values, name), _as_groups(groups), group(clusters)
    require_same_length(**{name: len(column), "groups": len(numbers), "clusters": len(labels.codes)})
    require_clusters(labels, "cluster")
    if column.min() < 0:
        raise StatisticsError(f"{name} of a metric are never below 0, got {column.min()} in row {column.argmin()}.")
    inside = numbers > 0
    grouped = Groups(labels.codes[inside], labels.count)
    sums, counts = (
        np.column_stack([labels.sums(weights), grouped.by_position(numbers[inside], count, weights[inside])])
        for weights in (column, np.ones(len(column)))
    )
    return PositionSums(sums, counts)


def _as_groups(groups: ArrayLike) -> tuple[Codes, int]:
    """Group numbers with 0 for none, and how many groups there are."""
    column = np.asarray(groups)
    if column.dtype.kind not in "iu" or column.ndim != 1:
        column = as_values(groups, "groups")
        if (column != np.floor(column)).any():
            raise StatisticsError("groups must be whole numbers, counted from 1, with 0 for none.")
    numbers = np.maximum(column.astype(np.int64), 0)
    count = int(numbers.max(initial=0))
    missing = np.flatnonzero(np.bincount(numbers, minlength=count + 1)[1:] == 0) + 1
    if len(missing):
        raise StatisticsError(f"group {missing[0]} of {count} has no queries: number the groups without gaps.")
    return numbers, count


def _counts(sums: PositionSums) -> QueryCounts:
    overall, *groups = sums.counts.sum(0).astype(int).tolist()
    return QueryCounts(overall, len(sums.counts), tuple(groups))


def _numbers(sums: PositionSums) -> tuple[range, str]:
    """The groups, and why a measure of their means has no value if it has none."""
    numbers = range(1, sums.sums.shape[1])
    return numbers, ALL_ZERO if len(numbers) >= 2 else FEW_GROUPS


def column(number: int) -> Statistic:
    return lambda means: np.asarray(means[..., number])


def of_groups(measure: Statistic) -> Statistic:
    """A measure of group means, for means[..., 1 + G] that begin with the overall one; NaN below two groups."""

    def statistic(means: Floats) -> Floats:
        return measure(means[..., 1:]) if means.shape[-1] > 2 else np.full(means.shape[:-1], np.nan)

    return statistic


def t_interval(
    both: PositionSums, change: Statistic, columns: Sequence[int], level: float, undefined: str = ""
) -> Interval:
    return difference(both, change, columns, undefined).interval(level)


def swap_tests(both: PositionSums, changes: list[Statistic], rng: np.random.Generator, swaps: int) -> list[float]:
    """Two-sided p-values of changes of means[..., 2n] when the treatments' halves are swapped cluster by cluster."""
    require_some(swaps=swaps)
    clusters, n = len(both.sums), both.sums.shape[1] // 2
    enumerated = clusters < 60 and 2**clusters <= swaps
    swapped = np.roll(both.sums, n, axis=1)
    counts = both.counts.sum(0)
    observed = [float(change(both.observed)) for change in changes]
    slack = TIE * max(1.0, float(both.observed.max()))
    hits, total = np.zeros(len(changes), np.int64), 0
    for signs in draw_weights(clusters, rng, swaps, "rademacher", enumerated):
        kept = signs > 0
        # Two sums of parts, not one of differences: a treatment that gets nothing must come out as exactly 0.
        means = (kept.astype(np.float64) @ both.sums + (~kept).astype(np.float64) @ swapped) / counts
        # A sample in which a change is not defined counts against it.
        hits += [
            np.count_nonzero(~(np.abs(change(means)) < abs(seen) - slack))
            for change, seen in zip(changes, observed, strict=True)
        ]
        total += len(means)
    extra = 0 if enumerated else 1
    p_values: list[float] = np.where(np.isnan(observed), np.nan, (hits + extra) / (total + extra)).tolist()
    return p_values
