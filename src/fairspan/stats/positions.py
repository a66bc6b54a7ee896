"""How a value differs by position: `PositionEffects`, further measures of unevenness, and paired comparisons."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, Groups, as_positions, as_values, clusters_of, group
from fairspan.stats.contrasts import JointTest, Robust, robust
from fairspan.stats.intervals import Interval, Intervals
from fairspan.stats.least_squares import merge
from fairspan.stats.resampling import Statistic, change_of, position_sums, resample

# From this many documents on, the means of permuted values are drawn from their normal limit.
ENOUGH_DOCUMENTS = 500
_VALUES_AT_A_TIME = 1 << 18
NOT_POSITIVE = "a position mean is not positive, so shares of it mean nothing"


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects(Intervals):
    """Least squares of values on position dummies, baseline position 1.

    The arrays [n] are of β0 (the mean at position 1) and then β2…βn (the difference of each position from it). Under
    "wild" p-value and interval come from the bootstrap and the standard error is CR1's.

    Attributes:
        means: the mean at each position 1…n, with its own standard error and interval.
        joint: the test of β2 = … = βn = 0.
        clusters, observations: sets and rows.
    """

    means: Intervals
    joint: JointTest
    clusters: int
    observations: int
    level: float
    robust: Robust = field(repr=False)

    @property
    def n(self) -> int:
        """The number of positions."""
        return len(self.estimate)

    @property
    def inference(self) -> str:
        """What was used, never "auto"."""
        return self.robust.inference

    def differences(self, against: int = 1) -> Intervals:
        """Later positions against one; against the first these are β2…βn."""
        return self.robust.contrasts(difference_weights(self.n, against), self.level)


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    level: float = 0.95,
    **how: Any,
) -> PositionEffects:
    """Estimate the position effects of values[N] at positions[N] (1…n) in sets[N].

    Args:
        segments: the segment of each row; where some segment occurs in more than one set, "auto" clusters by both.
        how: `inference`, `rng` and `draws` of `robust`.
    """
    column, (numbers, count) = as_values(values), as_positions(positions)
    groups = clusters_of(sets, len(column))
    others = None if segments is None else clusters_of(segments, len(column), "segment")
    merged = merge(groups, Groups(numbers - 1, count), *([] if others is None else [others]))
    fitted = merged.fit(column, dummies(numbers[merged.first], count))
    kept = None if others is None else merged.labels(others)
    judged = robust(fitted, merged.labels(groups), kept, **how)
    effects = judged.contrasts(np.eye(count), level)
    return PositionEffects(
        **{one.name: getattr(effects, one.name) for one in fields(Intervals)},
        means=judged.contrasts(mean_weights(count), level),
        joint=judged.joint(difference_weights(count)),
        clusters=groups.count,
        observations=len(column),
        level=level,
        robust=judged,
    )


def dummies(positions: Codes, count: int) -> Floats:
    """The design [N, n]: a constant, and one column for each of positions 2…n."""
    table: Floats = (positions[:, None] == np.arange(1, count + 1)).astype(np.float64)
    table[:, 0] = 1
    return table


def mean_weights(count: int) -> Floats:
    """Weights [n, n] that turn β0, β2…βn into position means."""
    weights = np.eye(count)
    weights[:, 0] = 1
    return weights


def difference_weights(count: int, against: int = 1) -> Floats:
    """Weights [n − against, n] of later positions against one; against the first they are those of β2…βn."""
    weights = np.eye(count)[against:]
    if against > 1:
        weights[:, against - 1] = -1
    return weights


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, • otherwise."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"


@dataclass(frozen=True, slots=True, eq=False)
class SecondaryEffects:
    """Unevenness between positions, each with its cluster-bootstrap interval.

    Gini, PSI and the relative differences are shares of a mean. Where a position mean is zero or negative they are
    NaN, and the interval's `reason` says so: a cosine may be negative, and that should not end a run.

    Attributes:
        spread: largest minus smallest position mean. It cannot be negative, so its interval never reaches below 0
            and says nothing about fairness; the joint test does.
        gini: Σ|σi − σj| / (2n²·mean) over position means.
        gini_p: the within-document permutation test of it.
        psi: 1 − smallest/largest.
        first_second, first_last: (m1 − mp)/m1 for p = 2 and p = n.
    """

    spread: Interval
    gini: Interval
    gini_p: float
    psi: Interval
    first_second: Interval
    first_last: Interval


def secondary_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    documents: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    level: float = 0.95,
) -> SecondaryEffects:
    """All secondary measures of values[N] at positions[N] in sets[N]; `documents`[N] for the permutation test."""
    resampled = resample(position_sums(values, positions, sets), rng=rng, draws=draws, level=level)

    def share(statistic: Statistic) -> Interval:
        return resampled.interval(statistic, NOT_POSITIVE)

    return SecondaryEffects(
        spread=resampled.interval(spread),
        gini=share(gini),
        gini_p=gini_test(values, positions, documents, rng=rng, draws=draws),
        psi=share(psi),
        first_second=share(lambda means: relative_difference(means, 2)),
        first_last=share(lambda means: relative_difference(means, means.shape[-1])),
    )


def spread(means: Floats) -> Floats:
    """Largest minus smallest of means[..., n]."""
    return np.asarray(means.max(-1) - means.min(-1))


def gini(means: Floats) -> Floats:
    """Σ_ij |m_i − m_j| / (2n²·mean) of means[..., n]; NaN unless all are positive."""
    n = means.shape[-1]
    ordered = np.sort(means, axis=-1)
    # Sorted, Σ_ij |m_i − m_j| = 2 Σ_i (2i − n − 1) m_(i) with i from 1.
    total = 2 * (ordered * (2 * np.arange(1, n + 1) - n - 1)).sum(-1)
    return _where_positive(means, total, 2 * n * means.sum(-1))


def psi(means: Floats) -> Floats:
    """1 − smallest/largest of means[..., n]; NaN unless all are positive."""
    return _where_positive(means, means.max(-1) - means.min(-1), means.max(-1))


def relative_difference(means: Floats, position: int) -> Floats:
    """(m1 − mp)/m1 of means[..., n]; NaN unless all are positive."""
    return _where_positive(means, means[..., 0] - means[..., position - 1], means[..., 0])


def gini_test(
    values: ArrayLike, positions: ArrayLike, documents: ArrayLike, *, rng: np.random.Generator, draws: int = 999
) -> float:
    """The p-value of the Gini of position means when values trade places at random inside each document.

    Every document must have each position once. In a Latin design every segment occurs once at every position, so
    that segments cancel from the means as observed but not as permuted: there the test errs to the careful side. From
    500 documents on the means are drawn from their normal limit, whose mean and covariance are the permutations' own.
    """
    column, (numbers, count) = as_values(values), as_positions(positions)
    table = group(documents).by_position(numbers, count, column)
    observed = gini(table.mean(0))
    if not np.isfinite(observed):
        return np.nan
    drawn = _limit_means if len(table) >= ENOUGH_DOCUMENTS else _permuted_means
    permuted = gini(drawn(table, rng, draws))
    return float((1 + np.count_nonzero(permuted >= observed * (1 - 1e-12))) / (1 + draws))


def _permuted_means(table: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Position means [draws, n] of table[D, n] with the values of each row at random places."""
    together = max(1, _VALUES_AT_A_TIME // table.size)
    parts = [min(together, draws - done) for done in range(0, draws, together)]
    return np.concatenate(
        [rng.permuted(np.broadcast_to(table, (count, *table.shape)), axis=2).mean(1) for count in parts]
    )


def _limit_means(table: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """What `_permuted_means` tends to: normal, with the permutations' own mean and covariance.

    A row with variance s² (divided by n) gives each position s² and each pair of positions −s²/(n−1), so a mean of D
    rows has covariance Σs²/D² · (n·I − J)/(n−1): that of independent numbers with their mean taken off.
    """
    documents, n = table.shape
    variance = table.var(axis=1).sum() / documents**2 * n / (n - 1)
    noise = rng.standard_normal((draws, n)) * np.sqrt(variance)
    return np.asarray(table.mean() + noise - noise.mean(axis=1, keepdims=True))


def _where_positive(means: Floats, numerator: Floats, denominator: Floats) -> Floats:
    good = (means > 0).all(-1)
    return np.asarray(np.where(good, numerator / np.where(good, denominator, 1.0), np.nan))


@dataclass(frozen=True, slots=True, eq=False)
class PairedComparison:
    """Second treatment minus first on the same documents and positions, clustered by set.

    Attributes:
        first, second: each treatment's own position effects.
        change: the position effects of the differences of values.
        spread: difference of the spreads over the positions that are compared, with its cluster-bootstrap interval.
        joint: the test that no difference between those positions differs between the treatments.
    """

    first: PositionEffects
    second: PositionEffects
    change: PositionEffects
    spread: Interval
    joint: JointTest


def compare(
    first: ArrayLike,
    second: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    inference: str = "auto",
    level: float = 0.95,
    draws: int = 1999,
    against: int = 1,
) -> PairedComparison:
    """Compare first[N] and second[N], the values of two treatments in the same rows.

    What the two share, such as how central a segment is to its set, cancels row by row, so that differences are known
    better than either treatment alone. Spread and joint test leave positions before `against` out.
    """
    one, two = as_values(first, "first"), as_values(second, "second")
    before, after, change = (
        position_effects(values, positions, sets, segments, inference=inference, level=level, rng=rng, draws=draws)
        for values in (one, two, two - one)
    )
    sums = [position_sums(values, positions, sets).since(against) for values in (one, two)]
    return PairedComparison(
        before,
        after,
        change,
        spread=resample(sums[0].beside(sums[1]), rng=rng, draws=draws, level=level).interval(change_of(spread)),
        joint=change.robust.joint(difference_weights(change.n, against)),
    )


def absolute_change(first: Floats, second: Floats, change: Intervals, total: Intervals) -> Intervals:
    """|b| − |a| of estimates a[J] and b[J]: ±(b − a) where the signs agree and ±(b + a) where they do not.

    The signs of both are taken as known, so the interval is too narrow where an estimate is no larger than its error.
    """
    sign = np.where(second < 0, -1.0, 1.0)
    agree = sign == np.where(first < 0, -1.0, 1.0)
    names = (one.name for one in fields(Intervals))
    estimate, low, high, error, freedom, p = (
        np.where(agree, getattr(change, name), getattr(total, name)) for name in names
    )
    ends = np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)
    return Intervals(sign * estimate, *ends, error, freedom, p)
