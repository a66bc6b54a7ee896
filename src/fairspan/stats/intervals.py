"""`Interval`: an estimate with its limits. `Intervals`: several of them, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_below, t_quantile, t_ratio


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its limits. What is not defined is NaN.

    The last three are of the t distribution behind the limits, two-sided against 0; NaN if these
    come from a bootstrap.
    """

    estimate: float
    low: float = np.nan
    high: float = np.nan
    standard_error: float = np.nan
    degrees_of_freedom: float = np.nan
    p_value: float = np.nan

    def upper(self, level: float = 0.95) -> float:
        """The one-sided upper bound: the truth is above it in at most 1 − level of samples."""
        quantile = float(t_quantile(level, self.degrees_of_freedom))
        return self.estimate + quantile * self.standard_error

    def lower(self, level: float = 0.95) -> float:
        return self.upper(1 - level)

    def below(self, limit: float) -> float:
        """The one-sided p-value against the truth being the limit or more."""
        ratio = t_ratio(self.estimate - limit, self.standard_error)
        return float(t_below(ratio, self.degrees_of_freedom))


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """J intervals; every field has shape [J]."""

    estimate: Floats
    low: Floats
    high: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    p_value: Floats

    def __len__(self) -> int:
        return len(self.estimate)

    def __getitem__(self, place: int) -> Interval:
        return Interval(*(float(getattr(self, column.name)[place]) for column in fields(Intervals)))


def t_intervals(estimate: ArrayLike, error: ArrayLike, freedom: ArrayLike) -> Intervals:
    """Two-sided 95 % t intervals of estimates[J] with standard errors[J] and freedom[J]."""
    middle = np.asarray(estimate, np.float64)
    errors = np.asarray(error, np.float64)
    free = np.asarray(freedom, np.float64)
    half = t_quantile(0.975, free) * errors
    p_value = 2 * t_below(-np.abs(t_ratio(middle, errors)), free)
    return Intervals(middle, middle - half, middle + half, errors, free, p_value)


def t_interval(estimate: float, error: float, freedom: float) -> Interval:
    """The interval of one estimate."""
    return t_intervals([estimate], [error], [freedom])[0]


def largest_growth(
    means: Sequence[Floats], covariances: Sequence[Floats], freedom: float, families: int = 1
) -> Interval:
    """max b − max a, where a[J] and b[J] are the differences of every two of n means.

    Both directions count, J = n(n−1). The means that are furthest apart are found in the same data,
    so bootstrap and jackknife are too narrow. These 95 % limits are made of t tests of single
    differences. It grows by less than c if every b_i is less than c above 0 or some a_j: tests that
    share 2.5 %, of which a_i gets half. It grows by more than c if some b_i is more than c above
    every a_j: the J of them share 2.5 %, since all are the largest where no two means differ.

    Args:
        covariances: [J, J], of a, of b, and of b with a.
        families: how many are judged by the worst: their lower limits hold together at 97.5 %.
    """
    before, after = means
    covariance_before, covariance_after, covariance_both = covariances
    tail = 0.025
    count = len(after)
    # Column 0 compares b_i with 0, column 1 + j with a_j.
    variances_after = np.diag(covariance_after)[:, None]
    variances = variances_after + np.diag(covariance_before) - 2 * covariance_both
    errors = np.sqrt(np.maximum(np.column_stack([variances_after, variances]), 0))
    gaps = np.column_stack([after, after[:, None] - before])
    shares = np.full(gaps.shape, tail / (2 * count))
    np.fill_diagonal(shares[:, 1:], tail / 2)
    high = (gaps - t_quantile(shares, freedom) * errors).min(1).max()
    low = (gaps + t_quantile(tail / (count * families), freedom) * errors)[:, 1:].min(1).max()
    return Interval(float(gaps[:, 1:].min(1).max()), float(low), float(high))
