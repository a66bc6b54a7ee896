"""Secondary measures of unevenness between positions: spread, Gini, PSI and relative differences."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, as_positions, as_values, group, require_same_length
from fairspan.stats.bootstrap import Interval, Statistic, position_sums, resample

# From this many documents on, the means of permuted values are drawn from their normal limit.
ENOUGH_DOCUMENTS = 500
_VALUES_AT_A_TIME = 1 << 18
NOT_POSITIVE = "a position mean is not positive, so shares of it mean nothing"


@dataclass(frozen=True, slots=True, eq=False)
class SecondaryEffects:
    """Unevenness between positions, each with its cluster-bootstrap interval.

    Gini, PSI and the relative differences are shares of a mean. Where a position mean is zero or negative they are
    NaN, and the interval's `reason` says so: a cosine may be negative, and that should not end a run.

    Attributes:
        means: [n].
        spread: largest minus smallest position mean. It cannot be negative, so its interval never reaches below 0
            and says nothing about fairness; the joint test does.
        gini: Σ|σi − σj| / (2n²·mean) over position means.
        gini_p: the within-document permutation test of it; NaN without documents.
        psi: 1 − smallest/largest.
        first_second, first_last: (m1 − mp)/m1 for p = 2 and p = n.
    """

    means: Floats
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
    documents: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    level: float = 0.95,
) -> SecondaryEffects:
    """All secondary measures of values[N] at positions[N] in sets[N]; `documents`[N] for the permutation test."""
    sums = position_sums(values, positions, sets)
    resampled = resample(sums, rng=rng, draws=draws, level=level)

    def share(statistic: Statistic) -> Interval:
        return resampled.interval(statistic, NOT_POSITIVE)

    return SecondaryEffects(
        means=sums.observed,
        spread=resampled.interval(spread),
        gini=share(gini),
        gini_p=np.nan if documents is None else gini_test(values, positions, documents, rng=rng, draws=draws),
        psi=share(psi),
        first_second=share(lambda means: relative_difference(means, 2)),
        first_last=share(lambda means: relative_difference(means, means.shape[-1])),
    )


def spread(means: Floats) -> Floats:
    """Largest minus smallest of means[..., n]."""
    return np.asarray(means.max(-1) - means.min(-1))


def change_of(measure: Statistic) -> Statistic:
    """The measure of the second half of means[..., 2n] minus that of the first."""

    def statistic(means: Floats) -> Floats:
        n = means.shape[-1] // 2
        return measure(means[..., n:]) - measure(means[..., :n])

    return statistic


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
    if not 2 <= position <= means.shape[-1]:
        raise StatisticsError(f"position must be between 2 and {means.shape[-1]}, got {position}.")
    return _where_positive(means, means[..., 0] - means[..., position - 1], means[..., 0])


def gini_test(
    values: ArrayLike, positions: ArrayLike, documents: ArrayLike, *, rng: np.random.Generator, draws: int = 999
) -> float:
    """The p-value of the Gini of position means when values trade places at random inside each document.

    Every document must have each position once. In a Latin design every segment occurs once at every position, so
    that segments cancel from the means as observed but not as permuted: there the test errs to the careful side. From
    500 documents on the means are drawn from their normal limit, whose mean and covariance are the permutations' own.
    """
    table = by_document(values, positions, documents)
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


def by_document(values: ArrayLike, positions: ArrayLike, documents: ArrayLike) -> Floats:
    """values[N] as a table [documents, n]."""
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(documents)
    require_same_length(values=len(column), positions=len(numbers), documents=len(groups.codes))
    rows = groups.by_position(numbers, count)
    if (rows != 1).any():
        document, place = np.argwhere(rows != 1)[0]
        raise StatisticsError(
            f"a document has {rows[document, place]:.0f} rows at position {place + 1}: permuting inside documents "
            f"needs each of the {count} positions exactly once in every document."
        )
    return groups.by_position(numbers, count, column)


def _where_positive(means: Floats, numerator: Floats, denominator: Floats) -> Floats:
    good = (means > 0).all(-1)
    return np.asarray(np.where(good, numerator / np.where(good, denominator, 1.0), np.nan))
