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
    """Sums [G, n] and counts [G, n] of values by cluster and position, from which position means are resampled."""

    sums: Floats
    counts: Floats

    def means(self, multiples: Floats) -> Floats:
        """Position means [..., n] of samples that hold each cluster multiples[..., G] times; NaN without any rows."""
        return share(multiples @ self.sums, multiples @ self.counts)

    @property
    def observed(self) -> Floats:
        return self.means(np.ones(len(self.sums)))

    @property
    def left_out(self) -> Floats:
        """Position means [G, n] without each cluster in turn."""
        return share(self.sums.sum(0) - self.sums, self.counts.sum(0) - self.counts)

    def beside(self, other: PositionSums) -> PositionSums:
        """The positions of both, n and n, of the same clusters."""
        return PositionSums(
            np.hstack([self.sums, other.sums]), np.hstack([self.counts, other.counts])
        )


def position_sums(values: Floats, positions: Codes, sets: ArrayLike) -> PositionSums:
    """Add values[N] up by set and position."""
    groups, n = clusters_of(sets), int(positions.max())
    return PositionSums(groups.by_position(positions, n, values), groups.by_position(positions, n))


def share(sums: Floats, counts: Floats) -> Floats:
    """sums / counts, NaN where nothing was counted."""
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def change_of(measure: Statistic) -> Statistic:
    """The measure of the second half of means[..., 2n] minus that of the first."""

    def statistic(means: Floats) -> Floats:
        n = means.shape[-1] // 2
        return measure(means[..., n:]) - measure(means[..., :n])

    return statistic


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Position means as observed and in samples of whole clusters, drawn[draws, n] once for all statistics."""

    sums: PositionSums
    drawn: Floats

    def interval(self, statistic: Statistic) -> Interval:
        """The bias-corrected and accelerated 95 % interval (BCa; Efron 1987) of a statistic of the means.

        Samples in which it has no value are dropped; if they are more than one in ten, there is no interval.
        """
        estimate = float(statistic(self.sums.observed))
        if not np.isfinite(estimate):
            return Interval(np.nan)
        drawn, left_out = (
            values[np.isfinite(values)]
            for values in map(statistic, (self.drawn, self.sums.left_out))
        )
        if len(drawn) < 0.9 * len(self.drawn):
            return Interval(estimate)
        low, high = np.quantile(
            drawn, _bca_ranks(np.array([0.025, 0.975]), drawn, estimate, left_out)
        )
        return Interval(estimate, float(low), float(high))


def _bca_ranks(ranks: Floats, drawn: Floats, estimate: float, left_out: Floats) -> Floats:
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn == estimate) / 2) / len(
        drawn
    )
    bias = t_quantile(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)), np.inf)
    gaps = left_out.mean() - left_out
    squares = (gaps**2).sum()
    acceleration = (gaps**3).sum() / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + t_quantile(ranks, np.inf)
    return t_below(bias + shifted / np.maximum(1 - acceleration * shifted, 1e-6), np.inf)


def resample(sums: PositionSums, *, rng: np.random.Generator, draws: int = 1999) -> Resampled:
    """Draw whole clusters with replacement."""
    count = len(sums.sums)
    step, even = max(1, CHUNK // count), np.full(count, 1 / count)
    sizes = [min(step, draws - start) for start in range(0, draws, step)]
    # How often each cluster is in each sample, some samples at a time.
    drawn = [sums.means(rng.multinomial(count, even, size).astype(np.float64)) for size in sizes]
    return Resampled(sums, np.concatenate(drawn))


def jackknife(
    sums: PositionSums, statistic: Statistic, columns: Sequence[int] | None = None
) -> Interval:
    """A statistic of the means, with its jackknife error over the clusters that have rows in `columns` (CR3).

    t with one degree of freedom fewer than the clusters of the column that has fewest. Give the means of two arms,
    one `beside` the other, and `change_of` a measure for a paired change. Without one of the clusters the measure
    may have no value: then there is no error.
    """
    estimate = float(statistic(sums.observed))
    if not np.isfinite(estimate):
        return Interval(np.nan)
    there = (sums.counts if columns is None else sums.counts[:, columns]) > 0
    freedom, without = int(there.sum(0).min()) - 1, statistic(sums.left_out)[there.any(1)]
    if freedom < 1 or not np.isfinite(without).all():
        return Interval(estimate)
    clusters = len(without)
    error = np.sqrt((clusters - 1) / clusters * ((without - estimate) ** 2).sum())
    return t_interval(estimate, float(error), freedom)


def combined(estimate: float, variances: Sequence[float], freedoms: Sequence[float]) -> Interval:
    """A sum of estimates from independent samples, with Satterthwaite's degrees of freedom for their variances."""
    parts, each = np.asarray(variances, np.float64), np.asarray(freedoms, np.float64)
    total = parts.sum()
    freedom = total**2 / (parts**2 / each).sum() if total > 0 else each.sum()
    return t_interval(estimate, float(np.sqrt(total)), float(freedom))


def mean_interval(found: Sequence[Interval]) -> Interval:
    """The mean of estimates from independent samples."""
    count = len(found)
    if count == 1:
        return found[0]
    estimate = sum(one.estimate for one in found) / count
    return combined(
        estimate,
        [(one.standard_error / count) ** 2 for one in found],
        [one.degrees_of_freedom for one in found],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """K estimates from one or more independent samples of documents.

    Attributes:
        estimates: [K].
        samples: of each sample the influences [R, K] of its documents on every estimate, 0 where they are not part
            of it. The squares of a contrast of the columns sum to its variance. Estimates from the same documents
            share a sample, so that contrasts between them are paired.
    """

    estimates: Floats
    samples: tuple[Floats, ...]

    def contrast(self, weights: Floats) -> Interval:
        """Σ_k weights_k · estimate_k, with t and R − 1 degrees of freedom, or Satterthwaite's for several samples."""
        used = weights != 0
        variances = [((own[:, used] @ weights[used]) ** 2).sum() for own in self.samples]
        return combined(
            float(self.estimates @ weights), variances, [len(own) - 1 for own in self.samples]
        )


def influences(without: Floats) -> Floats:
    """Influences [R, K] from the estimates without[R, K] each of R documents.

    For measures that are means over pairs the variance is too large rather than too small (Efron and Stein 1981).
    """
    count = len(without)
    return np.asarray(((count - 1) / count) ** 0.5 * (without.mean(0) - without))
