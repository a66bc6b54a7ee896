"""Two bootstraps over clusters: the wild one tests a contrast, the resampling one gives any statistic an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import (
    Floats,
    Groups,
    as_positions,
    as_values,
    group,
    require_clusters,
    require_level,
    require_same_length,
)
from fairspan.stats.covariance import Clustered, cr1
from fairspan.stats.distributions import normal_below, normal_quantile, t_ratio

WEIGHTS = ("auto", "rademacher", "webb")
WEBB = np.sqrt(np.array([1.5, 1.0, 0.5, 0.5, 1.0, 1.5])) * np.array([-1, -1, -1, 1, 1, 1])
# From this many clusters on, two-point weights give enough different samples.
RADEMACHER_FROM = 12
# Random numbers held at once.
CHUNK = 4_000_000
# Two statistics that differ by less than this share are the same sample up to rounding.
TIE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class WildTest:
    """What a wild cluster bootstrap says of one contrast.

    Attributes:
        statistic: (estimate − null) / CR1 standard error.
        p_value: two-sided, symmetric: the share of samples with |t*| ≥ |t|.
        p_below, p_above: one-sided, against the contrast being less, or more, than the null.
        low, high: the nulls that the two-sided test does not reject; infinite where it rejects none on that side.
        draws: samples drawn, or 2^G where all were enumerated.
        weights: "rademacher" or "webb".
    """

    statistic: float
    p_value: float
    p_below: float
    p_above: float
    low: float
    high: float
    draws: int
    weights: str


def wild_cluster(
    clustered: Clustered,
    contrast: ArrayLike,
    *,
    rng: np.random.Generator,
    null: float = 0.0,
    draws: int = 9999,
    weights: str = "auto",
    level: float = 0.95,
) -> WildTest:
    """Test contrast'β = null by the restricted wild cluster bootstrap (WCR; Cameron, Gelbach and Miller 2008).

    The null is imposed on the samples and every sample has its own CR1 standard error. "auto" takes Rademacher
    weights from 12 clusters on and Webb's six-point weights below (Webb 2023). All 2^G Rademacher samples are
    enumerated when they are fewer than `draws`. Otherwise the observed sample counts as one more draw, which makes
    the test valid at any number of them.
    """
    samples = _samples(clustered, np.asarray(contrast, np.float64), rng, draws, weights)
    low, high = _invert(samples, level)
    below, above, both = samples.tails(null)
    return WildTest(samples.statistic(null), both, below, above, low, high, len(samples.quadratic), samples.weights)


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """All samples of a wild bootstrap, for every null at once.

    The restricted scores are linear in the null: u_g + δ Q_g h with h = Lᵀc and δ = (estimate − null)/h'h. So the
    numerator of each sample is linear in δ and its variance quadratic.
    """

    linear: Floats
    quadratic: Floats
    estimate: float
    error: float
    length: float
    enumerated: bool
    weights: str

    def statistic(self, null: float) -> float:
        return float(t_ratio(self.estimate - null, self.error))

    def tails(self, null: float) -> tuple[float, float, float]:
        """The shares of samples at or below, at or above, and at least as far from 0 as the observed statistic."""
        delta = (self.estimate - null) / self.length
        numerator = self.linear[:, 0] + delta * self.linear[:, 1]
        variance = self.quadratic[:, 0] + delta * self.quadratic[:, 1] + delta**2 * self.quadratic[:, 2]
        drawn = t_ratio(numerator, np.sqrt(np.maximum(variance, 0)))
        observed = self.statistic(null)
        slack = TIE * abs(observed) if np.isfinite(observed) else 0.0
        extra = 0 if self.enumerated else 1
        shares = [drawn <= observed + slack, drawn >= observed - slack, np.abs(drawn) >= abs(observed) - slack]
        below, above, both = ((int(share.sum()) + extra) / (len(drawn) + extra) for share in shares)
        return below, above, both


def _samples(clustered: Clustered, contrast: Floats, rng: np.random.Generator, draws: int, weights: str) -> _Samples:
    if weights not in WEIGHTS:
        raise StatisticsError(f"weights must be one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}.")
    if draws < 1:
        raise StatisticsError(f"draws must be at least 1, got {draws}.")
    if clustered.leverages is None:
        raise StatisticsError("the wild bootstrap needs cluster(..., leverages=True).")
    h = clustered.root.T @ contrast
    pulls = clustered.leverages @ h
    kind = weights if weights != "auto" else "rademacher" if clustered.clusters >= RADEMACHER_FROM else "webb"
    enumerated = kind == "rademacher" and clustered.clusters < 60 and 2**clustered.clusters < draws
    linear, quadratic = [], []
    for drawn in draw_weights(clustered.clusters, rng, draws, kind, enumerated):
        sums = [drawn @ clustered.scores, drawn @ pulls]
        parts = [
            drawn * (scores @ h) - total @ pulls.T
            for scores, total in zip((clustered.scores, pulls), sums, strict=True)
        ]
        linear.append(np.stack([total @ h for total in sums], axis=1))
        quadratic.append(
            clustered.factor
            * np.stack([(parts[0] ** 2).sum(1), 2 * (parts[0] * parts[1]).sum(1), (parts[1] ** 2).sum(1)], axis=1)
        )
    error = max(0.0, float(contrast @ cr1(clustered) @ contrast)) ** 0.5
    estimate = float(contrast @ clustered.coefficients)
    return _Samples(
        np.concatenate(linear), np.concatenate(quadratic), estimate, error, float(h @ h), enumerated, kind
    )


def draw_weights(
    clusters: int, rng: np.random.Generator, draws: int, kind: str, enumerated: bool
) -> Iterator[Floats]:
    """Weights [some, G], a chunk at a time."""
    total = 2**clusters if enumerated else draws
    step = max(1, CHUNK // clusters)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if enumerated:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
            yield (1 - 2 * bits).astype(np.float64)
        elif kind == "rademacher":
            yield (1 - 2 * rng.integers(0, 2, (rows, clusters))).astype(np.float64)
        else:
            yield WEBB[rng.integers(0, 6, (rows, clusters))]


def _invert(samples: _Samples, level: float) -> tuple[float, float]:
    """The outermost nulls that the two-sided test does not reject, found by doubling and halving."""
    require_level(level)
    rejects = 1 - level + 1e-12
    if samples.error == 0:
        return samples.estimate, samples.estimate
    ends = []
    for side in (-1.0, 1.0):
        inside, step = 0.0, 1.0
        while step < 2**20 and samples.tails(samples.estimate + side * step * samples.error)[2] > rejects:
            inside, step = step, 2 * step
        outside = step
        if outside >= 2**20:
            ends.append(side * np.inf)
            continue
        while outside - inside > 1e-7 * outside:
            middle = (inside + outside) / 2
            rejected = samples.tails(samples.estimate + side * middle * samples.error)[2] <= rejects
            inside, outside = (inside, middle) if rejected else (middle, outside)
        ends.append(samples.estimate + side * (inside + outside) / 2 * samples.error)
    return float(ends[0]), float(ends[1])


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """An estimate with its bootstrap interval; NaN throughout, with the `reason`, where it is not defined."""

    estimate: float
    low: float
    high: float
    reason: str = ""


METHODS = ("bca", "percentile")
Statistic = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PositionSums:
    """Sums [G, n] and counts [G, n] of values by cluster and position, from which position means are resampled."""

    sums: Floats
    counts: Floats

    def means(self, multiples: Floats) -> Floats:
        """Position means [..., n] of samples that hold each cluster multiples[..., G] times; NaN without any rows."""
        counts = multiples @ self.counts
        return _share(multiples @ self.sums, counts)

    @property
    def observed(self) -> Floats:
        return self.means(np.ones(len(self.sums)))


def position_sums(values: ArrayLike, positions: ArrayLike, sets: ArrayLike | Groups) -> PositionSums:
    """Add values[N] up by set and position."""
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(sets)
    require_same_length(values=len(column), positions=len(numbers), sets=len(groups.codes))
    require_clusters(groups)
    cells = groups.codes * count + numbers - 1
    shape = (groups.count, count)
    sums = np.bincount(cells, weights=column, minlength=groups.count * count).astype(np.float64)
    counts = np.bincount(cells, minlength=groups.count * count).astype(np.float64)
    return PositionSums(sums.reshape(shape), counts.reshape(shape))


def resample_clusters(
    sums: PositionSums,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    level: float = 0.95,
    method: str = "bca",
) -> Interval:
    """An interval for a statistic of position means, by drawing whole clusters with replacement.

    `statistic` maps means[..., n] to [...] and gives NaN where it is not defined. Samples that leave it undefined, or
    a position without rows, are left out; if they are more than one in ten, so is the interval.
    """
    return interval_of(statistic, sums, resampled_means(sums, rng=rng, draws=draws), level=level, method=method)


def resampled_means(sums: PositionSums, *, rng: np.random.Generator, draws: int = 1999) -> Floats:
    """Position means [draws, n] of samples of whole clusters, drawn with replacement."""
    clusters = len(sums.sums)
    step = max(1, CHUNK // clusters)
    even = np.full(clusters, 1 / clusters)
    return np.concatenate(
        [
            sums.means(rng.multinomial(clusters, even, min(step, draws - start)).astype(np.float64))
            for start in range(0, draws, step)
        ]
    )


def interval_of(
    statistic: Statistic, sums: PositionSums, means: Floats, *, level: float = 0.95, method: str = "bca"
) -> Interval:
    """The interval of one statistic, given the means[draws, n] that `resampled_means` drew."""
    require_level(level)
    if method not in METHODS:
        raise StatisticsError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}.")
    estimate = float(statistic(sums.observed))
    if not np.isfinite(estimate):
        return Interval(np.nan, np.nan, np.nan, "not defined for these position means")
    drawn = statistic(means)
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < 0.9 * len(means):
        return Interval(estimate, np.nan, np.nan, "not defined in more than one in ten bootstrap samples")
    tail = (1 - level) / 2
    ranks = np.array([tail, 1 - tail])
    if method == "bca":
        ranks = bca_ranks(ranks, drawn, estimate, left_out(sums, statistic))
    low, high = np.quantile(drawn, ranks)
    return Interval(estimate, float(low), float(high))


def left_out(sums: PositionSums, statistic: Statistic) -> Floats:
    """The statistic without each cluster in turn, [G]."""
    counts = sums.counts.sum(0) - sums.counts
    rest = sums.sums.sum(0) - sums.sums
    values = statistic(_share(rest, counts))
    return values[np.isfinite(values)]


def _share(sums: Floats, counts: Floats) -> Floats:
    means: Floats = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return means


def bca_ranks(ranks: Floats, drawn: Floats, estimate: float, left_out: Floats) -> Floats:
    """Efron's (1987) bias-corrected and accelerated percentiles in place of the plain ones."""
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn == estimate) / 2) / len(drawn)
    bias = normal_quantile(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)))
    gaps = left_out.mean() - left_out
    squares = (gaps**2).sum()
    acceleration = (gaps**3).sum() / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + normal_quantile(ranks)
    return normal_below(bias + shifted / np.maximum(1 - acceleration * shifted, 1e-6))
