"""The jackknife over whole clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, clusters_of
from fairspan.stats.intervals import Interval, t_interval

Statistic = Callable[[Floats], Floats]
"""Maps means[..., n] to [...], with NaN where it is not defined."""


@dataclass(frozen=True, slots=True, eq=False)
class PositionSums:
    """Sums [G, n] and counts [G, n] of values by cluster and position."""

    sums: Floats
    counts: Floats

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
