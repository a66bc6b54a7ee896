"""`Interval`: an estimate with bootstrap limits, from samples of whole clusters drawn with replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import (
    Floats,
    Groups,
    as_positions,
    as_values,
    group,
    require_clusters,
    require_level,
    require_same_length,
    require_some,
)
from fairspan.stats.distributions import t_below, t_quantile

# Random numbers held at once.
CHUNK = 4_000_000
# Two statistics that differ by less than this share are the same sample up to rounding.
TIE = 1e-9
UNSTABLE = "not defined in more than one in ten bootstrap samples"

Statistic = Callable[[Floats], Floats]
"""Maps means[..., n] to [...], with NaN where it is not defined."""


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """An estimate with its bootstrap interval; NaN throughout, with the `reason`, where it is not defined."""

    estimate: float
    low: float
    high: float
    reason: str = ""


def multiples(count: int, rng: np.random.Generator, draws: int, chunk: int | None = None) -> Iterator[Floats]:
    """How often each of `count` clusters is in each of `draws` samples, [some, count] at a time."""
    require_some(draws=draws)
    step, even = max(1, (chunk or CHUNK) // count), np.full(count, 1 / count)
    for start in range(0, draws, step):
        yield rng.multinomial(count, even, min(step, draws - start)).astype(np.float64)


def bca_interval(estimate: float, drawn: Floats, left_out: Floats, level: float) -> Interval:
    """The bias-corrected and accelerated interval (Efron 1987) of an estimate.

    Args:
        drawn: [draws], the estimate in each sample. Samples with NaN are dropped; if they are more than one in ten,
            there is no interval.
        left_out: the estimate without each cluster in turn.
    """
    require_level(level)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < 0.9 * len(drawn):
        return Interval(estimate, np.nan, np.nan, UNSTABLE)
    tail = (1 - level) / 2
    low, high = np.quantile(defined, _bca_ranks(np.array([tail, 1 - tail]), defined, estimate, left_out))
    return Interval(estimate, float(low), float(high))


def _bca_ranks(ranks: Floats, drawn: Floats, estimate: float, left_out: Floats) -> Floats:
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn == estimate) / 2) / len(drawn)
    bias = t_quantile(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)), np.inf)
    gaps = left_out.mean() - left_out
    squares = (gaps**2).sum()
    acceleration = (gaps**3).sum() / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + t_quantile(ranks, np.inf)
    return t_below(bias + shifted / np.maximum(1 - acceleration * shifted, 1e-6), np.inf)


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

    def since(self, position: int) -> PositionSums:
        """From that position on."""
        return PositionSums(self.sums[:, position - 1 :], self.counts[:, position - 1 :])

    def beside(self, other: PositionSums) -> PositionSums:
        """The positions of both, n and n, of the same clusters."""
        return PositionSums(np.hstack([self.sums, other.sums]), np.hstack([self.counts, other.counts]))


def position_sums(values: ArrayLike, positions: ArrayLike, sets: ArrayLike | Groups) -> PositionSums:
    """Add values[N] up by set and position."""
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(sets)
    require_same_length(values=len(column), positions=len(numbers), sets=len(groups.codes))
    require_clusters(groups)
    return PositionSums(groups.by_position(numbers, count, column), groups.by_position(numbers, count))


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Position means as observed and in samples of whole clusters, drawn[draws, n] once for all statistics."""

    sums: PositionSums
    drawn: Floats
    level: float

    def interval(self, statistic: Statistic, undefined: str = "not defined for these position means") -> Interval:
        """The BCa interval of a statistic of the means; `undefined` is the reason where it has no value."""
        estimate = float(statistic(self.sums.observed))
        if not np.isfinite(estimate):
            return Interval(np.nan, np.nan, np.nan, undefined)
        sums, counts = self.sums.sums, self.sums.counts
        without = statistic(share(sums.sum(0) - sums, counts.sum(0) - counts))
        return bca_interval(estimate, statistic(self.drawn), without[np.isfinite(without)], self.level)


def resample(sums: PositionSums, *, rng: np.random.Generator, draws: int = 1999, level: float = 0.95) -> Resampled:
    """Draw whole clusters with replacement."""
    require_level(level)
    drawn = [sums.means(weights) for weights in multiples(len(sums.sums), rng, draws)]
    return Resampled(sums, np.concatenate(drawn), level)


def share(sums: Floats, counts: Floats) -> Floats:
    """sums / counts, NaN where nothing was counted."""
    means: Floats = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means
