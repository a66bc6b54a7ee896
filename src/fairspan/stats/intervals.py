"""`Interval`: an estimate with its limits. `Intervals`: several of them, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_below, t_quantile, t_ratio


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its limits. What is not defined is NaN.

    Attributes:
        standard_error, degrees_of_freedom, p_value: of the t distribution behind the limits, two-sided against 0; NaN
            where the limits come from a bootstrap.
    """

    estimate: float
    low: float = np.nan
    high: float = np.nan
    standard_error: float = np.nan
    degrees_of_freedom: float = np.nan
    p_value: float = np.nan

    @property
    def ratio(self) -> float:
        """The estimate in standard errors."""
        return float(t_ratio(self.estimate, self.standard_error))

    def lower(self, level: float = 0.95) -> float:
        """The one-sided lower bound: the truth is below it in at most 1 − level of samples."""
        return (
            self.estimate
            + float(t_quantile(1 - level, self.degrees_of_freedom)) * self.standard_error
        )

    def upper(self, level: float = 0.95) -> float:
        """The one-sided upper bound."""
        return (
            self.estimate + float(t_quantile(level, self.degrees_of_freedom)) * self.standard_error
        )

    def below(self, limit: float) -> float:
        """The one-sided p-value against the limit or more."""
        return float(
            t_below(t_ratio(self.estimate - limit, self.standard_error), self.degrees_of_freedom)
        )


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
        numbers = (float(getattr(self, one.name)[place]) for one in fields(Intervals))
        return Interval(*numbers)  # type: ignore[arg-type, unused-ignore]


def t_intervals(estimate: ArrayLike, error: ArrayLike, freedom: ArrayLike) -> Intervals:
    """Two-sided 95 % t intervals of estimates[J] with their standard errors and degrees of freedom."""
    middle, errors, free = (np.asarray(one, np.float64) for one in (estimate, error, freedom))
    half = t_quantile(0.975, free) * errors
    p_value = 2 * t_below(-np.abs(t_ratio(middle, errors)), free)
    return Intervals(middle, middle - half, middle + half, errors, free, p_value)


def t_interval(estimate: float, error: float, freedom: float) -> Interval:
    """The same of one estimate."""
    return t_intervals([estimate], [error], [freedom])[0]


def largest_growth(
    means: Sequence[Floats], covariances: Sequence[Floats], freedom: float, families: int = 1
) -> Interval:
    """max b − max a, where a[J] and b[J] are the differences of every two of n means in both directions, J = n(n−1).

    A largest difference is that of whichever means are furthest apart, which have to be found in the same data, so
    that its bootstrap and its jackknife are too narrow. These 95 % limits are made of t tests of single differences.
    It grows by less than c if every b_i is less than c above 0 or some a_j: tests that share 2.5 %, of which a_i gets
    half. It grows by more than c if some b_i is more than c above every a_j: at most n²/4 of the b_i can be the
    largest at once, and these share 2.5 % (Bonferroni, the first step of Holm's correction).

    Args:
        means: a and b.
        covariances: [J, J], of a, of b, and of b with a.
        families: how many are judged together by the worst of them: the lower limits hold together at 97.5 %.
    """
    (before, after), (one, two, both) = means, covariances
    count, tail, own = len(after), 0.025, np.diag(two)
    gaps = np.column_stack([after, after[:, None] - before])
    errors = np.sqrt(np.maximum(np.column_stack([own, own[:, None] + np.diag(one) - 2 * both]), 0))
    shares = np.full(gaps.shape, tail / (2 * count))
    np.fill_diagonal(shares[:, 1:], tail / 2)
    high = (gaps - t_quantile(shares, freedom) * errors).min(1).max()
    ties = (isqrt(count) + 1) ** 2 // 4
    low = (gaps + t_quantile(tail / (ties * families), freedom) * errors)[:, 1:].min(1).max()
    return Interval(float(gaps[:, 1:].min(1).max()), float(low), float(high))
