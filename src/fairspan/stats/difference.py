"""`Difference`: how two arms differ on the same queries, with its jackknife error over clusters (CR3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.stats.arrays import require_level
from fairspan.stats.bootstrap import Interval, PositionSums, Statistic, share
from fairspan.stats.distributions import t_quantile, t_ratio

ONE_CLUSTER = "not defined without one of the clusters"


@dataclass(frozen=True, slots=True)
class Difference:
    """An estimate, its standard error and its degrees of freedom; the error is NaN where it is not defined.

    `reason` says why the estimate has no value, if it has none.
    """

    estimate: float
    error: float
    freedom: float
    reason: str = ""

    @property
    def ratio(self) -> float:
        """The estimate in standard errors."""
        return float(t_ratio(self.estimate, self.error)) if np.isfinite(self.error) else float("nan")

    def interval(self, level: float = 0.95) -> Interval:
        """The two-sided t interval."""
        require_level(level)
        if not np.isfinite(self.estimate):
            return Interval(np.nan, np.nan, np.nan, self.reason)
        if not np.isfinite(self.error):
            return Interval(self.estimate, np.nan, np.nan, ONE_CLUSTER)
        reach = float(t_quantile((1 + level) / 2, self.freedom) * self.error)
        return Interval(self.estimate, self.estimate - reach, self.estimate + reach)

    def lower(self, level: float = 0.95) -> float:
        """The one-sided lower bound: the truth is below it in at most 1 − level of samples."""
        return self.interval(2 * level - 1).low

    def upper(self, level: float = 0.95) -> float:
        """The one-sided upper bound."""
        return self.interval(2 * level - 1).high


def difference(both: PositionSums, change: Statistic, columns: Sequence[int], undefined: str = "") -> Difference:
    """A change of the means of both arms, with its jackknife error over the clusters that have rows in `columns`.

    One degree of freedom fewer than the clusters of the column that has fewest.
    """
    estimate = float(change(both.observed))
    if not np.isfinite(estimate):
        return Difference(np.nan, np.nan, np.nan, undefined)
    there = both.counts[:, columns] > 0
    inside, freedom = there.any(1), int(there.sum(0).min()) - 1
    without = change(share(both.sums.sum(0) - both.sums, both.counts.sum(0) - both.counts))[inside]
    if freedom < 1 or not np.isfinite(without).all():
        return Difference(estimate, np.nan, np.nan)
    clusters = len(without)
    error = np.sqrt((clusters - 1) / clusters * ((without - estimate) ** 2).sum())
    return Difference(estimate, float(error), freedom)


def mean_difference(found: Sequence[Difference]) -> Difference:
    """The mean of differences on independent samples, with Satterthwaite's degrees of freedom."""
    if len(found) == 1:
        return found[0]
    count = len(found)
    estimate = sum(one.estimate for one in found) / count
    parts = [(one.error / count) ** 2 for one in found]
    total = sum(parts)
    below = sum(part**2 / one.freedom for part, one in zip(parts, found, strict=True))
    freedom = total**2 / below if below > 0 else sum(one.freedom for one in found)
    reason = next((one.reason for one in found if one.reason), "")
    return Difference(float(estimate), float(np.sqrt(total)), float(freedom), reason)
