"""How values differ by position: `PositionEffects`, measures of unevenness, paired comparisons."""

from dataclasses import dataclass, field, fields
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, Groups, group
from fairspan.stats.contrasts import Robust, regress
from fairspan.stats.equivalence import Compared
from fairspan.stats.intervals import Interval, Intervals, largest_growth
from fairspan.stats.resampling import Statistic, position_sums, resample, share

# From this many documents on, permuted means are drawn from their normal limit.
ENOUGH_DOCUMENTS = 500
_VALUES_AT_A_TIME = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects(Intervals):
    """β0 (the mean at position 1), then β2…βn (each position minus position 1)."""

    means: Intervals
    sets: int
    robust: Robust = field(repr=False)

    def compared(self, first: int = 1) -> Compared:
        """Every position from the first on against every one before it, as in `position_pairs`."""
        pairs = position_pairs(len(self), first)
        names = [(f"position {later}", f"position {earlier}") for earlier, later in pairs]
        scope = f"from position {first} on" if first > 1 else ""
        weights = pair_weights(len(self), first)
        return Compared(self.robust, weights, names, self.sets, scope)


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> PositionEffects:
    """The position effects of values[N] at positions[N] (1…n) in sets[N], of segments[N]."""
    cells = group(positions)
    robust = regress(np.asarray(values, np.float64), cells, sets, segments, inference=inference)
    means = np.eye(cells.count)
    effects = robust.contrasts(np.concatenate([means[:1], difference_weights(cells.count)]))
    return PositionEffects(
        **{column.name: getattr(effects, column.name) for column in fields(Intervals)},
        means=robust.contrasts(means),
        sets=len(robust.clustered.scores),
        robust=robust,
    )


def difference_weights(count: int, against: int = 1) -> Floats:
    """Weights [n − against, n] on position means: later positions minus one."""
    weights = np.eye(count)[against:]
    weights[:, against - 1] = -1
    return weights


def position_pairs(count: int, first: int = 1) -> list[tuple[int, int]]:
    """Every two positions from the first on, the earlier one first."""
    return list(combinations(range(first, count + 1), 2))


def pair_weights(count: int, first: int = 1) -> Floats:
    """Weights [pairs, n] on position means: the later position of each pair minus the earlier."""
    pairs = np.array(position_pairs(count, first)) - 1
    return np.asarray(np.eye(count)[pairs[:, 1]] - np.eye(count)[pairs[:, 0]])


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, else •."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"


def unevenness(
    values: Floats,
    positions: Codes,
    sets: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
) -> dict[str, Interval]:
    """Measures of how much position means differ, each with its cluster-bootstrap interval.

    The spread cannot be negative, so its interval says nothing about fairness. The others are
    shares of a mean, NaN if a position mean is zero or negative, as cosines may be.
    """
    resampled = resample(position_sums(values, positions, sets), rng=rng, draws=draws)
    measures: dict[str, Statistic] = {
        "spread": spread,
        "gini": gini,
        "psi": lambda means: share(spread(means), _positive(means).max(-1)),
        "first_second": lambda means: relative_difference(means, 2),
        "first_last": lambda means: relative_difference(means, means.shape[-1]),
    }
    return {name: resampled.interval(statistic) for name, statistic in measures.items()}


def spread(means: Floats) -> Floats:
    """Largest minus smallest of means[..., n]."""
    return np.asarray(means.max(-1) - means.min(-1))


def gini(means: Floats) -> Floats:
    """Σ_ij |m_i − m_j| / (2n²·mean) of means[..., n]; NaN unless all are positive."""
    n = means.shape[-1]
    ordered = np.sort(means, axis=-1)
    # Sorted, Σ_ij |m_i − m_j| = 2 Σ_i (2i − n − 1) m_(i) with i from 1.
    total = 2 * (ordered * (2 * np.arange(1, n + 1) - n - 1)).sum(-1)
    return share(total, 2 * n * _positive(means).sum(-1))


def relative_difference(means: Floats, position: int) -> Floats:
    """(m1 − mp)/m1 of means[..., n]; NaN unless all are positive."""
    return share(means[..., 0] - means[..., position - 1], _positive(means)[..., 0])


def gini_test(
    values: Floats,
    positions: Codes,
    documents: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
) -> float:
    """The p-value of the Gini of position means if values are permuted inside each document.

    Every document must have each position once. In a Latin design, segments cancel from the
    observed means but not from permuted ones: there the test is conservative.
    """
    table = group(documents).by_position(positions, int(positions.max()), values)
    observed = gini(table.mean(0))
    if not np.isfinite(observed):
        return np.nan
    drawn = _limit_means if len(table) >= ENOUGH_DOCUMENTS else _permuted_means
    permuted = gini(drawn(table, rng, draws))
    return float((1 + np.count_nonzero(permuted >= observed * (1 - 1e-12))) / (1 + draws))


def _permuted_means(table: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Position means [draws, n] of table[D, n] with the values of each row permuted."""
    step = max(1, _VALUES_AT_A_TIME // table.size)
    means = []
    for start in range(0, draws, step):
        copies = np.broadcast_to(table, (min(step, draws - start), *table.shape))
        means.append(rng.permuted(copies, axis=2).mean(1))
    return np.concatenate(means)


def _limit_means(table: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """The limit of `_permuted_means`: normal, with the mean and covariance of the permutations.

    A row with variance s² gives each position s² and each pair of positions −s²/(n−1), so a mean
    of D rows has covariance Σs²/D² · (n·I − J)/(n−1): that of independent numbers minus their mean.
    """
    documents, n = table.shape
    variance = table.var(axis=1).sum() / documents**2 * n / (n - 1)
    noise = rng.standard_normal((draws, n)) * np.sqrt(variance)
    return np.asarray(table.mean() + noise - noise.mean(axis=1, keepdims=True))


def _positive(means: Floats) -> Floats:
    """means[..., n] if all of them are positive, and NaN otherwise."""
    return np.where((means > 0).all(-1, keepdims=True), means, np.nan)


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
    """The spread of position means of second[N] minus that of first[N], by `largest_growth`."""
    n = int(positions.max())
    cells = Groups(np.concatenate([positions - 1, positions - 1 + n]), 2 * n)
    owners = None if segments is None else np.tile(segments, 2)
    values = np.concatenate([first, second])
    fit = regress(values, cells, np.tile(sets, 2), owners, inference=inference)
    pairs = np.concatenate([pair_weights(n), -pair_weights(n)])
    inside = fit.covariance.reshape(2, n, 2, n)
    variances = [pairs @ inside[i, :, j] @ pairs.T for i, j in ((0, 0), (1, 1), (1, 0))]
    means = [pairs @ half for half in np.split(fit.clustered.coefficients, 2)]
    freedom = float(fit.degrees_of_freedom(np.pad(difference_weights(n), ((0, 0), (0, n)))).min())
    return largest_growth(means, variances, freedom, families)


def size_changes(
    before: Intervals, after: Intervals, change: Intervals, families: int = 1
) -> list[Interval]:
    """|b| − |a| of each of J differences, from a, b and b − a, by `largest_growth`."""
    signs = np.array([1.0, -1.0])
    changes = []
    for place in range(len(after)):
        a = before[place]
        b = after[place]
        sizes = [a.standard_error**2, b.standard_error**2]
        shared = (sum(sizes) - change[place].standard_error ** 2) / 2
        variances = [np.outer(signs, signs) * variance for variance in (*sizes, shared)]
        means = [signs * a.estimate, signs * b.estimate]
        changes.append(largest_growth(means, variances, b.degrees_of_freedom, families))
    return changes
