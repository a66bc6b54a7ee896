"""How a value differs by position: `PositionEffects`, further measures of unevenness, and paired comparisons."""

from dataclasses import dataclass, field, fields
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, Groups, group
from fairspan.stats.contrasts import Robust, regress
from fairspan.stats.distributions import t_quantile
from fairspan.stats.equivalence import LEVEL, Compared
from fairspan.stats.intervals import Interval, Intervals
from fairspan.stats.resampling import Statistic, position_sums, resample

# From this many documents on, the means of permuted values are drawn from their normal limit.
ENOUGH_DOCUMENTS = 500
_VALUES_AT_A_TIME = 1 << 18
NOT_POSITIVE = "a position mean is not positive, so shares of it mean nothing"


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects(Intervals):
    """Least squares of values on position, baseline position 1.

    The arrays [n] are of β0 (the mean at position 1) and then β2…βn (the difference of each position from it).

    Attributes:
        means: the mean at each position 1…n, with its own standard error and interval.
        sets: how many there are.
        robust: the fit, whose coefficients are the means.
    """

    means: Intervals
    sets: int
    robust: Robust = field(repr=False)

    @property
    def inference(self) -> str:
        """What was used, never "auto"."""
        return self.robust.inference

    def compared(self, against: int = 1) -> Compared:
        """Every later position against one."""
        n = len(self)
        names = [(f"position {one}", f"position {against}") for one in range(against + 1, n + 1)]
        scope = f"from position {against} on" if against > 1 else ""
        return Compared(self.robust, difference_weights(n, against), names, self.sets, scope)


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    level: float = 0.95,
    inference: str = "auto",
) -> PositionEffects:
    """Estimate the position effects of values[N] at positions[N] (1…n) in sets[N].

    Args:
        segments: the segment of each row; where some segment occurs in more than one set, "auto" clusters by both.
    """
    cells = group(positions)
    judged = regress(np.asarray(values, np.float64), cells, sets, segments, inference=inference)
    weights = np.concatenate([np.eye(cells.count)[:1], difference_weights(cells.count)])
    effects = judged.contrasts(weights, level)
    return PositionEffects(
        **{one.name: getattr(effects, one.name) for one in fields(Intervals)},
        means=judged.contrasts(np.eye(cells.count), level),
        sets=len(judged.clustered.scores),
        robust=judged,
    )


def difference_weights(count: int, against: int = 1) -> Floats:
    """Weights [n − against, n] on position means of later positions against one."""
    weights = np.eye(count)[against:]
    weights[:, against - 1] = -1
    return weights


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, • otherwise."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"


def unevenness(
    values: Floats, positions: Codes, sets: ArrayLike, *, rng: np.random.Generator, draws: int = 1999
) -> dict[str, Interval]:
    """Measures of how much position means differ, each with its cluster-bootstrap interval.

    Gini, PSI and the relative differences are shares of a mean. Where a position mean is zero or negative they are
    NaN, and the interval's `reason` says so: a cosine may be negative, and that should not end a run.

    Returns:
        spread: largest minus smallest position mean. It cannot be negative, so its interval never reaches below 0
            and says nothing about fairness; the joint test does.
        gini: Σ|σi − σj| / (2n²·mean) over position means.
        psi: 1 − smallest/largest.
        first_second, first_last: (m1 − mp)/m1 for p = 2 and p = n.
    """
    resampled = resample(position_sums(values, positions, sets), rng=rng, draws=draws)
    shares: dict[str, Statistic] = {
        "gini": gini,
        "psi": psi,
        "first_second": lambda means: relative_difference(means, 2),
        "first_last": lambda means: relative_difference(means, means.shape[-1]),
    }
    found = {name: resampled.interval(statistic, NOT_POSITIVE) for name, statistic in shares.items()}
    return {"spread": resampled.interval(spread), **found}


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
    values: Floats, positions: Codes, documents: ArrayLike, *, rng: np.random.Generator, draws: int = 1999
) -> float:
    """The p-value of the Gini of position means when values trade places at random inside each document.

    Every document must have each position once. In a Latin design every segment occurs once at every position, so
    that segments cancel from the means as observed but not as permuted: there the test errs to the careful side. From
    500 documents on the means are drawn from their normal limit, whose mean and covariance are the permutations' own.
    """
    table = group(documents).by_position(positions, int(positions.max()), values)
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


def spread_change(
    first: Floats,
    second: Floats,
    positions: Codes,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
    families: int = 1,
) -> Interval:
    """The spread of position means of second[N] minus that of first[N], as `growth_of_largest` has it."""
    n = int(positions.max())
    cells = Groups(np.concatenate([positions - 1, positions - 1 + n]), 2 * n)
    owners = None if segments is None else np.tile(segments, 2)
    fit = regress(np.concatenate([first, second]), cells, np.tile(sets, 2), owners, inference=inference)
    pairs = np.concatenate([np.roll(np.eye(n), -by, axis=0) - np.eye(n) for by in range(1, n)])
    inside = fit.covariance.reshape(2, n, 2, n)
    before, both, after = (pairs @ inside[i, :, j] @ pairs.T for i, j in ((0, 0), (1, 0), (1, 1)))
    own = np.diag(after)
    errors = np.sqrt(np.maximum(np.column_stack([own, own[:, None] + np.diag(before) - 2 * both]), 0))
    one, two = (pairs @ means for means in np.split(fit.clustered.coefficients, 2))
    freedom = float(fit.degrees_of_freedom(np.pad(difference_weights(n), ((0, 0), (0, n)))).min())
    return growth_of_largest(np.column_stack([two, two[:, None] - one]), errors, freedom, families)


def size_changes(after: Intervals, change: Intervals, total: Intervals, families: int = 1) -> list[Interval]:
    """|b| − |a| of each of J differences, from those of b, b − a and b + a, as `growth_of_largest` has it."""
    found = []
    for place in range(len(after)):
        b, less, more = (one.estimate[place] for one in (after, change, total))
        errors = [one.standard_error[place] for one in (after, change, total)]
        gaps = np.array([[b, less, more], [-b, -more, -less]])
        table = np.array([errors, [errors[0], errors[2], errors[1]]])
        found.append(growth_of_largest(gaps, table, float(after.degrees_of_freedom[place]), families))
    return found


def growth_of_largest(gaps: Floats, errors: Floats, freedom: float, families: int = 1) -> Interval:
    """max b − max a, where b[J] and a[J] are the differences of every two of n means in both directions, J = n(n−1).

    A largest difference is that of whichever means are furthest apart, which have to be found in the same data, so
    that its bootstrap is too narrow. These limits are made of t tests of single differences. It grows by less than c
    if every b_i is less than c above nothing or above some a_j. The tests of one b_i share 2.5 %, of which a_i gets
    half. It grows by more than c if some b_i is more than c above every a_j. At most n²/4 of the b_i can be the
    largest at once, which share 2.5 % (Bonferroni, the first step of Holm's correction).

    Args:
        gaps: [J, 1 + J], b_i, and then b_i − a_j for every a_j.
        errors: [J, 1 + J], their standard errors.
        families: how many are judged together by the worst of them: the lower limits hold together at 97.5 %.
    """
    count, tail = len(gaps), (1 - LEVEL) / 2
    shares = np.full(gaps.shape, tail / (2 * count))
    np.fill_diagonal(shares[:, 1:], tail / 2)
    high = (gaps - t_quantile(shares, freedom) * errors).min(1).max()
    ties = (isqrt(count) + 1) ** 2 // 4
    low = (gaps + t_quantile(tail / (ties * families), freedom) * errors)[:, 1:].min(1).max()
    return Interval(float(gaps[:, 1:].min(1).max()), float(low), float(high))
