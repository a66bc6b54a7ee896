"""Statistics over queries: a metric overall and by position group, and its change by treatment."""

from collections.abc import Iterator, Sequence
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
"""With fewer, a sample may lack the rare queries that change most, and intervals are too short."""
# Groups at either end of an arm that may be the largest or the smallest.
_ENDS = 6
# Two statistics that differ by less than this share are the same sample up to rounding.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Numbers of queries, of clusters, and of queries in each position group [G]."""

    queries: int
    clusters: int
    group_queries: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QueryEffects:
    """The mean of a metric overall and in each position group [G], with bootstrap intervals.

    `psi` is 1 − smallest/largest group mean: it cannot be negative, so its interval says nothing
    about whether the groups are equal. `harmonic` is the harmonic mean of the group means.
    """

    overall: Interval
    groups: tuple[Interval, ...]
    psi: Interval
    harmonic: Interval
    counts: QueryCounts


@dataclass(frozen=True, slots=True, eq=False)
class QueryChange:
    """Second treatment minus first on the same queries, each number with its paired interval.

    t intervals with the jackknife error over clusters (CR3) hold with few clusters, where those of
    a bootstrap are too short. The p-values, of `overall` and `psi`, are of `swap_tests`: that the
    treatments are interchangeable, which is more than an equal PSI. `worst` is the difference of
    the smallest group means, whichever groups these are.
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
    """Means of values[N] ≥ 0, one row per query, overall and by groups[N], drawn by clusters[N].

    Groups are numbered from 1 to G; queries with 0 are in none and count overall only.
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
    """The change from first[N] to second[N], the values of two treatments for the same queries."""
    before = query_sums(first, groups, clusters)
    both = before.beside(query_sums(second, groups, clusters))
    numbers = range(1, before.sums.shape[1])
    tested = [change_of(column(0)), change_of(of_groups(shortfall))]
    p_value, p_psi = swap_tests(both, tested, rng, swaps)

    def change(measure: Statistic, columns: Sequence[int]) -> Interval:
        return jackknife(both, change_of(measure), columns)

    return QueryChange(
        overall=change(column(0), [0]),
        groups=tuple(change(column(number), [number]) for number in numbers),
        psi=psi_interval(both),
        worst=change(of_groups(smallest), numbers),
        p_value=p_value,
        p_psi=p_psi,
        counts=_counts(before),
    )


def psi_interval(both: PositionSums) -> Interval:
    """The change of PSI over the groups of two arms, one `beside` the other.

    Noise in the means makes PSI larger, so it falls by itself if quality rises. The standard error
    is therefore that of the wider side of `largest_growth`, with jackknife errors (CR3).
    """
    n = both.sums.shape[1] // 2
    change = jackknife(both, change_of(of_groups(shortfall)), range(1, n))
    freedom = change.degrees_of_freedom
    if not np.isfinite(change.standard_error):
        return change
    ranks = both.observed.reshape(2, n)[:, 1:].argsort(1)
    # With pairs of many languages, groups in the middle cannot be the largest or the smallest.
    kept = np.unique(np.hstack([ranks[:, :_ENDS], ranks[:, -_ENDS:]]))
    above, below = np.nonzero(~np.eye(len(kept), dtype=bool))

    def differences(means: Floats) -> Floats:
        """[..., 2, J] of means[..., 2n], as shares of the largest mean of each arm."""
        groups = means.reshape(-1, 2, n)[..., 1:]
        gaps = groups[..., kept[above]] - groups[..., kept[below]]
        return np.asarray(gaps / groups.max(-1, keepdims=True))

    whole = differences(both.observed)[0]
    without = differences(both.left_out[(both.counts[:, 1:n] > 0).any(1)])
    first, second = np.moveaxis((without - whole) * (1 - 1 / len(without)) ** 0.5, 1, 0)
    covariances = [first.T @ first, second.T @ second, second.T @ first]
    limits = largest_growth(whole, covariances, freedom)
    half = max(limits.high - change.estimate, change.estimate - limits.low)
    return t_interval(change.estimate, half / float(t_quantile(0.975, freedom)), freedom)


def clusters_to_decide(change: Interval, clusters: int, margin: float) -> int | None:
    """About how many more clusters answer the open question in 80 % of cases.

    If a loss beyond the margin is not ruled out, they rule it out or show one. Otherwise they show
    a gain or rule out one beyond the margin. None if the change has no interval, or is at the
    margin.
    """
    gap = abs(change.estimate + margin)
    if change.low >= -margin:
        gap = max(change.estimate, margin - change.estimate)
    least = clusters_needed(change, [gap], clusters, 0.975)
    return None if least is None else round_up(max(0, max(least, FEW_CLUSTERS) - clusters))


def smallest(means: Floats) -> Floats:
    return np.asarray(means.min(-1))


def shortfall(means: Floats) -> Floats:
    """PSI of means[..., G] ≥ 0: 1 − smallest/largest, NaN if all are 0."""
    return share(means.max(-1) - means.min(-1), means.max(-1))


def harmonic_mean(means: Floats) -> Floats:
    """G / Σ 1/mean of means[..., G] ≥ 0; 0 if one of them is."""
    with np.errstate(divide="ignore"):
        return np.asarray(means.shape[-1] / (1 / means).sum(-1))


def query_sums(values: ArrayLike, groups: ArrayLike, clusters: ArrayLike) -> PositionSums:
    """Sums [C, 1 + G] of values[N] by cluster: over all queries, then over each group."""
    numbers = np.asarray(groups)
    labels = clusters_of(clusters, "cluster")
    columns = int(numbers.max()) + 1
    weights = np.asarray(values, np.float64)
    sums = labels.by_position(numbers + 1, columns, weights)
    counts = labels.by_position(numbers + 1, columns)
    # Column 0 has the queries in no group until here.
    sums[:, 0] = labels.sums(weights)
    counts[:, 0] = counts.sum(1)
    return PositionSums(sums, counts)


def _counts(sums: PositionSums) -> QueryCounts:
    overall, *groups = sums.counts.sum(0).astype(int).tolist()
    return QueryCounts(overall, len(sums.counts), tuple(groups))


def column(number: int) -> Statistic:
    return lambda means: np.asarray(means[..., number])


def of_groups(measure: Statistic) -> Statistic:
    """A measure of the group means of means[..., 1 + G]; NaN below two groups."""

    def statistic(means: Floats) -> Floats:
        if means.shape[-1] <= 2:
            return np.full(means.shape[:-1], np.nan)
        return measure(means[..., 1:])

    return statistic


def swap_tests(
    both: PositionSums, changes: list[Statistic], rng: np.random.Generator, swaps: int
) -> list[float]:
    """Two-sided p-values of changes of means[..., 2n] if the two halves are swapped by cluster.

    All 2^clusters swaps are enumerated if they are no more than `swaps`. Otherwise the observed
    sample counts as one more draw, so the tests are valid at any number of them.
    """
    clusters, columns = both.sums.shape
    enumerated = clusters < 60 and 2**clusters <= swaps
    total = 2**clusters if enumerated else swaps
    swapped = np.roll(both.sums, columns // 2, axis=1)
    counts = both.counts.sum(0)
    observed = [float(change(both.observed)) for change in changes]
    slack = _TIE * max(1.0, float(both.observed.max()))
    hits = np.zeros(len(changes), np.int64)
    for kept in _kept_arms(clusters, total, None if enumerated else rng):
        # Two sums, not one of differences: a treatment that gets nothing must be exactly 0.
        means = (kept @ both.sums + (1 - kept) @ swapped) / counts
        # A sample in which a change is not defined counts against it.
        for number, change in enumerate(changes):
            smaller = np.abs(change(means)) < abs(observed[number]) - slack
            hits[number] += np.count_nonzero(~smaller)
    extra = 0 if enumerated else 1
    p_values = np.where(np.isnan(observed), np.nan, (hits + extra) / (total + extra))
    return [*map(float, p_values)]


def _kept_arms(clusters: int, total: int, rng: np.random.Generator | None) -> Iterator[Floats]:
    """`total` rows [rows, C] in parts: 1 for clusters that are not swapped; all without an rng."""
    step = max(1, CHUNK // clusters)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if rng is None:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
        else:
            bits = rng.integers(0, 2, (rows, clusters))
        yield (bits == 0).astype(np.float64)
