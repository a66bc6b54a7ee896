"""Statistics over queries: a retrieval metric overall and by position group, and how two treatments differ in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import (
    Codes,
    Floats,
    as_values,
    group,
    require_clusters,
    require_level,
    require_same_length,
)
from fairspan.stats.bootstrap import CHUNK, TIE, Interval, PositionSums, Statistic, bca_ranks, draw_weights, left_out
from fairspan.stats.effects import spread

FEW_GROUPS = "needs queries in at least 2 position groups"
ALL_ZERO = "every group mean is 0, so shares of the largest one mean nothing"


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """How many queries and clusters there are, overall and in each position group [G]."""

    queries: int
    clusters: int
    group_queries: tuple[int, ...]
    group_clusters: tuple[int, ...]


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
    """Second treatment minus first on the same queries, each number with its paired cluster-bootstrap interval.

    The p-values are those of randomisation tests: if the treatments are interchangeable, swapping their values in
    whole clusters changes nothing. That is more than an equal PSI or spread, so that the tests of these two may also
    notice a change of another kind.

    Attributes:
        overall: difference of the means over all queries.
        groups: [G], difference in each position group.
        psi, harmonic, spread: differences of these measures of the group means; a smaller PSI or spread is fairer.
        worst: difference of the smallest group means, whichever groups these are.
        p_value: two-sided, of the overall difference.
        p_psi, p_spread: two-sided, of the differences of PSI and spread; NaN where they are not defined.
        swaps: samples drawn for the tests, or 2^clusters where all were enumerated.
    """

    overall: Interval
    groups: tuple[Interval, ...]
    psi: Interval
    harmonic: Interval
    spread: Interval
    worst: Interval
    p_value: float
    p_psi: float
    p_spread: float
    swaps: int
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
    samples = _resample(sums, len(_numbers(sums)), rng, draws, level)
    return QueryEffects(
        overall=samples.interval(_column(0)),
        groups=tuple(samples.interval(_column(number)) for number in _numbers(sums)),
        psi=samples.interval(_of_groups(shortfall)),
        harmonic=samples.interval(_of_groups(harmonic_mean)),
        counts=_counts(sums),
    )


def query_change(
    first: ArrayLike,
    second: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    swaps: int = 9999,
    level: float = 0.95,
) -> QueryChange:
    """Compare first[N] and second[N], the values of two treatments for the same queries.

    All 2^clusters swaps are enumerated when they are no more than `swaps`. Otherwise the observed sample counts as
    one more draw, which makes the tests valid at any number of them.
    """
    one, two = query_sums(first, groups, clusters, "first"), query_sums(second, groups, clusters, "second")
    both = PositionSums(np.hstack([one.sums, two.sums]), np.hstack([one.counts, two.counts]))
    samples = _resample(both, len(_numbers(one)), rng, draws, level)
    (p_value, p_psi, p_spread), tried = _swap_tests(
        both, [_change(_column(0)), _change(_of_groups(shortfall)), _change(_of_groups(spread))], rng, swaps
    )
    return QueryChange(
        overall=samples.interval(_change(_column(0))),
        groups=tuple(samples.interval(_change(_column(number))) for number in _numbers(one)),
        psi=samples.interval(_change(_of_groups(shortfall))),
        harmonic=samples.interval(_change(_of_groups(harmonic_mean))),
        spread=samples.interval(_change(_of_groups(spread))),
        worst=samples.interval(_change(_of_groups(_smallest))),
        p_value=p_value,
        p_psi=p_psi,
        p_spread=p_spread,
        swaps=tried,
        counts=_counts(one),
    )


def shortfall(means: Floats) -> Floats:
    """PSI of means[..., G] that may be 0 but not less: 1 − smallest/largest, NaN where all are 0."""
    largest = means.max(-1)
    return np.asarray(
        np.divide(largest - means.min(-1), largest, out=np.full(largest.shape, np.nan), where=largest > 0)
    )


def harmonic_mean(means: Floats) -> Floats:
    """G / Σ 1/mean of means[..., G] that are not below 0; 0 where one of them is."""
    zero = means == 0
    inverse = 1 / np.where(zero, 1.0, means)
    return np.asarray(np.where(zero.any(-1) & ~np.isnan(means).any(-1), 0.0, means.shape[-1] / inverse.sum(-1)))


def _smallest(means: Floats) -> Floats:
    return np.asarray(means.min(-1))


def holm(p_values: ArrayLike) -> Floats:
    """p-values adjusted for having looked at all of them (Holm 1979); NaN stays NaN and is not counted."""
    column = np.asarray(p_values, np.float64)
    if column.ndim != 1:
        raise StatisticsError(f"p-values are one column, got an array of shape {column.shape}.")
    tested = np.flatnonzero(~np.isnan(column))
    if ((column[tested] < 0) | (column[tested] > 1)).any():
        raise StatisticsError("p-values lie between 0 and 1.")
    order = tested[np.argsort(column[tested], kind="stable")]
    adjusted = np.full(column.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(column[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted


def query_sums(values: ArrayLike, groups: ArrayLike, clusters: ArrayLike, name: str = "values") -> PositionSums:
    """values[N] added up by cluster: over all queries in column 0, then over those of each group; [C, 1 + G]."""
    column, (numbers, count), labels = as_values(values, name), _as_groups(groups), group(clusters)
    require_same_length(**{name: len(column), "groups": len(numbers), "clusters": len(labels.codes)})
    require_clusters(labels, "cluster")
    if column.min() < 0:
        raise StatisticsError(f"{name} of a metric are never below 0, got {column.min()} in row {column.argmin()}.")
    inside = numbers > 0
    cells = labels.codes[inside] * count + numbers[inside] - 1
    shape, size = (labels.count, count), labels.count * count
    sums, counts = (
        np.column_stack([labels.sums(weights), np.bincount(cells, weights[inside], size).reshape(shape)])
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
    queries, clusters = sums.counts.sum(0).astype(int).tolist(), (sums.counts > 0).sum(0).tolist()
    return QueryCounts(queries[0], clusters[0], tuple(queries[1:]), tuple(clusters[1:]))


def _numbers(sums: PositionSums) -> range:
    return range(1, sums.sums.shape[1])


def _column(number: int) -> Statistic:
    return lambda means: np.asarray(means[..., number])


def _of_groups(measure: Statistic) -> Statistic:
    """A measure of group means, for means[..., 1 + G] that begin with the overall one; NaN below two groups."""

    def statistic(means: Floats) -> Floats:
        return measure(means[..., 1:]) if means.shape[-1] > 2 else np.full(means.shape[:-1], np.nan)

    return statistic


def _change(measure: Statistic) -> Statistic:
    """The measure of the second half of means[..., 2n] minus that of the first."""

    def statistic(means: Floats) -> Floats:
        n = means.shape[-1] // 2
        return measure(means[..., n:]) - measure(means[..., :n])

    return statistic


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Means [draws, n] of samples of whole clusters, drawn once for all statistics.

    Attributes:
        undefined: why a statistic has no value for the observed means.
    """

    sums: PositionSums
    drawn: Floats
    level: float
    undefined: str

    def interval(self, statistic: Statistic) -> Interval:
        """The BCa interval that `resample_clusters` gives."""
        estimate = float(statistic(self.sums.observed))
        if not np.isfinite(estimate):
            return Interval(np.nan, np.nan, np.nan, self.undefined)
        drawn = statistic(self.drawn)
        drawn = drawn[np.isfinite(drawn)]
        if len(drawn) < 0.9 * len(self.drawn):
            return Interval(estimate, np.nan, np.nan, "not defined in more than one in ten bootstrap samples")
        tail = (1 - self.level) / 2
        ranks = bca_ranks(np.array([tail, 1 - tail]), drawn, estimate, left_out(self.sums, statistic))
        low, high = np.quantile(drawn, ranks)
        return Interval(estimate, float(low), float(high))


def _resample(sums: PositionSums, groups: int, rng: np.random.Generator, draws: int, level: float) -> _Samples:
    require_level(level)
    _require_some(draws=draws)
    clusters = len(sums.sums)
    step = max(1, CHUNK // clusters)
    even = np.full(clusters, 1 / clusters)
    drawn = [
        sums.means(rng.multinomial(clusters, even, min(step, draws - start)).astype(np.float64))
        for start in range(0, draws, step)
    ]
    return _Samples(sums, np.concatenate(drawn), level, ALL_ZERO if groups >= 2 else FEW_GROUPS)


def _swap_tests(
    both: PositionSums, changes: list[Statistic], rng: np.random.Generator, swaps: int
) -> tuple[list[float], int]:
    """Two-sided p-values of changes of means[..., 2n] when the treatments' halves are swapped cluster by cluster."""
    _require_some(swaps=swaps)
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
    p_values = np.where(np.isnan(observed), np.nan, (hits + extra) / (total + extra))
    return p_values.tolist(), total


def _require_some(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise StatisticsError(f"{name} must be at least 1, got {count}.")
