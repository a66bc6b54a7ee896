"""Statistics over queries: a retrieval metric overall and by position group, and how two treatments differ in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, clusters_of, round_up
from fairspan.stats.distributions import t_quantile
from fairspan.stats.equivalence import clusters_needed
from fairspan.stats.intervals import Interval, largest_growth, t_interval
from fairspan.stats.resampling import (
    CHUNK,
    PositionSums,
    Statistic,
    change_of,
    jackknife,
    resample,
    share,
)

FEW_CLUSTERS = 30
"""With fewer, a sample may lack the rare queries that change most, and no interval can know of them."""
# Groups at either end of an arm that may be the largest or the smallest.
_ENDS = 6
# Two statistics that differ by less than this share are the same sample up to rounding.
_TIE = 1e-9


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
        psi: difference of PSI over the group means; a smaller one is fairer.
        worst: difference of the smallest group means, whichever groups these are.
        p_value: two-sided, of the overall difference.
        p_psi: two-sided, of the difference of PSI; NaN where it is not defined.
    """

    overall: Interval
    groups: tuple[Interval, ...]
    psi: Interval
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
) -> QueryEffects:
    """Means of values[N], one row per query and none below 0, overall and by groups[N].

    Groups are numbered from 1 to G; a query with 0 is in none of them and counts overall only. Queries with the same
    label in clusters[N] are not independent, so they are drawn together.
    """
    sums = query_sums(values, groups, clusters)
    samples = resample(sums, rng=rng, draws=draws)
    return QueryEffects(
        overall=samples.interval(column(0)),
        groups=tuple(samples.interval(column(number)) for number in range(1, sums.sums.shape[1])),
        psi=samples.interval(of_groups(shortfall)),
        harmonic=samples.interval(of_groups(harmonic_mean)),
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
) -> QueryChange:
    """Compare first[N] and second[N], the values of two treatments for the same queries.

    All 2^clusters swaps are enumerated when they are no more than `swaps`. Otherwise the observed sample counts as
    one more draw, which makes the tests valid at any number of them.
    """
    one, two = query_sums(first, groups, clusters), query_sums(second, groups, clusters)
    numbers, both = range(1, one.sums.shape[1]), one.beside(two)
    p_value, p_psi = swap_tests(
        both, [change_of(column(0)), change_of(of_groups(shortfall))], rng, swaps
    )

    def change(measure: Statistic, columns: Sequence[int]) -> Interval:
        return jackknife(both, change_of(measure), columns)

    return QueryChange(
        overall=change(column(0), [0]),
        groups=tuple(change(column(number), [number]) for number in numbers),
        psi=psi_interval(both),
        worst=change(of_groups(smallest), numbers),
        p_value=p_value,
        p_psi=p_psi,
        counts=_counts(one),
    )


def psi_interval(both: PositionSums) -> Interval:
    """The change of PSI over the groups of two arms, one `beside` the other.

    PSI is the largest difference of two group means as a share of the largest one. Chance makes it larger, and the
    more so the noisier the means are, so that it falls by itself where quality rises. The standard error is therefore
    that of the wider side of `largest_growth`, with jackknife errors over clusters (CR3).
    """
    n = both.sums.shape[1] // 2
    found = jackknife(both, change_of(of_groups(shortfall)), range(1, n))
    if not np.isfinite(found.standard_error):
        return found
    observed = both.observed.reshape(2, n)[:, 1:]
    ranks = observed.argsort(1)
    # Pairs of all languages are many groups, of which those in the middle cannot be the largest or the smallest.
    kept = np.unique(np.hstack([ranks[:, :_ENDS], ranks[:, -_ENDS:]]))
    above, below = np.nonzero(~np.eye(len(kept), dtype=bool))

    def differences(means: Floats) -> Floats:
        groups = means.reshape(-1, 2, n)[..., 1:]
        gaps = groups[..., kept[above]] - groups[..., kept[below]]
        return np.asarray(gaps / groups.max(-1, keepdims=True))

    there = (both.counts[:, 1:n] > 0).any(1)
    whole, without = differences(both.observed)[0], differences(both.left_out[there])
    one, two = np.moveaxis((without - whole) * (1 - 1 / len(without)) ** 0.5, 1, 0)
    limits = largest_growth(
        whole, [one.T @ one, two.T @ two, two.T @ one], found.degrees_of_freedom
    )
    half = max(limits.high - found.estimate, found.estimate - limits.low)
    error = half / float(t_quantile(0.975, found.degrees_of_freedom))
    return t_interval(found.estimate, error, found.degrees_of_freedom)


def clusters_to_decide(change: Interval, clusters: int, margin: float) -> int | None:
    """About how many clusters more, like those seen, answer the question that is open in 80 % of cases.

    If a loss beyond the margin is not ruled out, they rule it out or show a loss. Otherwise they show a gain or rule
    out one beyond the margin. The easier of the two if the estimate is the truth, and up to 30 at least; None where
    the change has no interval.
    """
    if not np.isfinite(change.standard_error):
        return None
    wanted = change.estimate if change.low >= -margin else -change.estimate
    least = clusters_needed(change, max(wanted, margin - wanted), clusters, 0.975)
    return None if least is None else round_up(max(0, max(least, FEW_CLUSTERS) - clusters))


def smallest(means: Floats) -> Floats:
    return np.asarray(means.min(-1))


def shortfall(means: Floats) -> Floats:
    """PSI of means[..., G] that may be 0 but not less: 1 − smallest/largest, NaN where all are 0."""
    return share(means.max(-1) - means.min(-1), means.max(-1))


def harmonic_mean(means: Floats) -> Floats:
    """G / Σ 1/mean of means[..., G] that are not below 0; 0 where one of them is."""
    zero = means == 0
    inverse = 1 / np.where(zero, 1.0, means)
    return np.asarray(
        np.where(zero.any(-1) & ~np.isnan(means).any(-1), 0.0, means.shape[-1] / inverse.sum(-1))
    )


def query_sums(values: ArrayLike, groups: ArrayLike, clusters: ArrayLike) -> PositionSums:
    """values[N] added up by cluster: over all queries in column 0, then over those of each group; [C, 1 + G]."""
    column, numbers, labels = (
        np.asarray(values, np.float64),
        np.asarray(groups),
        clusters_of(clusters, "cluster"),
    )
    columns = int(numbers.max()) + 1
    sums, counts = (
        labels.by_position(numbers + 1, columns, own) for own in (column, np.ones(len(column)))
    )
    # Column 0 is of queries in no group until here.
    sums[:, 0], counts[:, 0] = labels.sums(column), counts.sum(1)
    return PositionSums(sums, counts)


def _counts(sums: PositionSums) -> QueryCounts:
    overall, *groups = sums.counts.sum(0).astype(int).tolist()
    return QueryCounts(overall, len(sums.counts), tuple(groups))


def column(number: int) -> Statistic:
    return lambda means: np.asarray(means[..., number])


def of_groups(measure: Statistic) -> Statistic:
    """A measure of group means, for means[..., 1 + G] that begin with the overall one; NaN below two groups."""

    def statistic(means: Floats) -> Floats:
        return measure(means[..., 1:]) if means.shape[-1] > 2 else np.full(means.shape[:-1], np.nan)

    return statistic


def swap_tests(
    both: PositionSums, changes: list[Statistic], rng: np.random.Generator, swaps: int
) -> list[float]:
    """Two-sided p-values of changes of means[..., 2n] when the treatments' halves are swapped cluster by cluster."""
    clusters, n = len(both.sums), both.sums.shape[1] // 2
    enumerated = clusters < 60 and 2**clusters <= swaps
    swapped = np.roll(both.sums, n, axis=1)
    counts = both.counts.sum(0)
    observed = [float(change(both.observed)) for change in changes]
    slack = _TIE * max(1.0, float(both.observed.max()))
    hits, total = np.zeros(len(changes), np.int64), 2**clusters if enumerated else swaps
    step = max(1, CHUNK // clusters)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if enumerated:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
        else:
            bits = rng.integers(0, 2, (rows, clusters))
        kept = bits == 0
        # Two sums of parts, not one of differences: a treatment that gets nothing must come out as exactly 0.
        means = (
            kept.astype(np.float64) @ both.sums + (~kept).astype(np.float64) @ swapped
        ) / counts
        # A sample in which a change is not defined counts against it.
        hits += [
            np.count_nonzero(~(np.abs(change(means)) < abs(seen) - slack))
            for change, seen in zip(changes, observed, strict=True)
        ]
    extra = 0 if enumerated else 1
    return [
        float(p) for p in np.where(np.isnan(observed), np.nan, (hits + extra) / (total + extra))
    ]
