"""Resampling of whole clusters: the bootstrap with BCa intervals, and the jackknife."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, clusters_of
from fairspan.stats.distributions import t_below, t_quantile
from fairspan.stats.intervals import Interval, t_interval

# Random numbers held at once.
CHUNK = 4_000_000

Statistic = Callable[[Floats], Floats]
"""Maps means[..., n] to [...], with NaN where it is not defined."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionSums:
    """Sums [G, n] and counts [G, n] of values by cluster and position."""

    sums: Floats
    counts: Floats

    def means(self, multiples: Floats) -> Floats:
        """Position means [..., n] of samples with each cluster multiples[..., G] times."""
        return share(multiples @ self.sums, multiples @ self.counts)

    @property
    def observed(self) -> Floats:
        # Column by column in one order, so that equal columns have equal means to the last bit.
        return share(self.sums.sum(0), self.counts.sum(0))

    @property
    def left_out(self) -> Floats:
        """Position means [G, n] without each cluster in turn."""
        return share(self.sums.sum(0) - self.sums, self.counts.sum(0) - self.counts)

    def beside(self, other: PositionSums) -> PositionSums:
        """The positions of both, n and n, of the same clusters."""
        sums = np.hstack([self.sums, other.sums])
        return PositionSums(sums, np.hstack([self.counts, other.counts]))


def position_sums(values: Floats, positions: Codes, sets: ArrayLike) -> PositionSums:
    """The sums of values[N] by set and position."""
    groups = clusters_of(sets)
    n = int(positions.max())
    return PositionSums(groups.by_position(positions, n, values), groups.by_position(positions, n))


def share(sums: Floats, counts: Floats) -> Floats:
    """sums / counts, NaN for counts of 0."""
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def change_of(measure: Statistic) -> Statistic:
    """The measure of the second half of means[..., 2n] minus that of the first."""

    def statistic(means: Floats) -> Floats:
        n = means.shape[-1] // 2
        return measure(means[..., n:]) - measure(means[..., :n])

    return statistic


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Position means as observed, and drawn[draws, n] from samples of whole clusters."""

    sums: PositionSums
    drawn: Floats

    def interval(self, statistic: Statistic) -> Interval:
        """The bias-corrected and accelerated 95 % interval (BCa; Efron 1987) of a statistic.

        There is none if it has no value in more than one sample in ten.
        """
        estimate = float(statistic(self.sums.observed))
        if not np.isfinite(estimate):
            return Interval(np.nan)
        drawn = _finite(statistic(self.drawn))
        if len(drawn) < 0.9 * len(self.drawn):
            return Interval(estimate)
        ranks = _bca_ranks(drawn, estimate, _finite(statistic(self.sums.left_out)))
        low, high = np.quantile(drawn, ranks)
        return Interval(estimate, float(low), float(high))


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _bca_ranks(drawn: Floats, estimate: float, left_out: Floats) -> Floats:
    """The ranks [2] of the limits among drawn[...], corrected for bias and acceleration."""
    count = len(drawn)
    below = np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn == estimate) / 2
    bias = t_quantile(np.clip(below / count, 0.5 / count, 1 - 0.5 / count), np.inf)
    gaps = left_out.mean() - left_out
    squares = (gaps**2).sum()
    acceleration = (gaps**3).sum() / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + t_quantile([0.025, 0.975], np.inf)
    return t_below(bias + shifted / np.maximum(1 - acceleration * shifted, 1e-6), np.inf)


def resample(sums: PositionSums, *, rng: np.random.Generator, draws: int = 1999) -> Resampled:
    """Draw whole clusters with replacement."""
    count = len(sums.sums)
    step = max(1, CHUNK // count)
    drawn = []
    for start in range(0, draws, step):
        size = min(step, draws - start)
        multiples = rng.multinomial(count, np.full(count, 1 / count), size)
        drawn.append(sums.means(multiples.astype(np.float64)))
    return Resampled(sums, np.concatenate(drawn))


def jackknife(
    sums: PositionSums, statistic: Statistic, columns: Sequence[int] | None = None
) -> Interval:
    """A statistic of the means, with its jackknife error (CR3) over clusters in `columns`.

    t with one degree of freedom fewer than the clusters of the column that has fewest. For a paired
    change, pass the means of two arms, one `beside` the other, and `change_of` a measure. There is
    no error if the measure has no value without one of the clusters.
    """
    estimate = float(statistic(sums.observed))
    if not np.isfinite(estimate):
        return Interval(np.nan)
    present = (sums.counts if columns is None else sums.counts[:, columns]) > 0
    freedom = int(present.sum(0).min()) - 1
    without = statistic(sums.left_out)[present.any(1)]
    if freedom < 1 or not np.isfinite(without).all():
        return Interval(estimate)
    clusters = len(without)
    error = np.sqrt((clusters - 1) / clusters * ((without - estimate) ** 2).sum())
    return t_interval(estimate, float(error), freedom)


def combined(estimate: float, variances: Sequence[float], freedoms: Sequence[float]) -> Interval:
    """A sum of estimates from independent samples, with Satterthwaite's degrees of freedom."""
    parts = np.asarray(variances, np.float64)
    freedom = np.asarray(freedoms, np.float64)
    total = parts.sum()
    pooled = total**2 / (parts**2 / freedom).sum() if total > 0 else freedom.sum()
    return t_interval(estimate, float(np.sqrt(total)), float(pooled))


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """Estimates [K] from one or more independent samples of documents.

    A sample has the influences [R, K] of its documents on every estimate, 0 if they are not part of
    it. The squares of a contrast of the columns sum to its variance.
    """

    estimates: Floats
    samples: tuple[Floats, ...]

    def contrast(self, weights: Floats) -> Interval:
        """Σ_k weights_k · estimate_k, with t and R − 1 degrees of freedom for each sample."""
        used = weights != 0
        variances = [((sample[:, used] @ weights[used]) ** 2).sum() for sample in self.samples]
        freedoms = [len(sample) - 1 for sample in self.samples]
        return combined(float(self.estimates @ weights), variances, freedoms)


def influences(without: Floats) -> Floats:
    """Influences [R, K] from the estimates without[R, K] each of R documents.

    The variance of means over pairs errs to the large side (Efron and Stein 1981).
    """
    count = len(without)
    return np.asarray(((count - 1) / count) ** 0.5 * (without.mean(0) - without))
