"""`Interval`: an estimate with its limits. `Intervals`: several of them, as arrays."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_below, t_quantile, t_ratio


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its limits. What is not defined is NaN.

    The last three are of the t distribution behind the limits, two-sided against 0.
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
