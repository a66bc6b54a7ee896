"""`Estimates`: numbers with their intervals and tests, as the columns of frames name them."""

from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_below, t_quantile, t_ratio

Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True, slots=True)
class Estimates(Generic[Number]):
    """Estimates with 95 % limits and two-sided p values against 0.

    Fields are arrays [J], or numbers in one row. What is not defined is NaN.
    """

    estimate: Number
    low: Number
    high: Number
    p: Number
    standard_error: Number
    degrees_of_freedom: Number

    def __getitem__(self: "Estimates[Floats]", place: int) -> "Estimates[float]":
        """One row."""
        return Estimates(*(float(getattr(self, field.name)[place]) for field in fields(self)))

    def columns(self, prefix: str = "", *more: str) -> dict[str, Number]:
        """The estimate and its limits, and `more` fields, as columns of a frame."""
        names = ("estimate", "low", "high", *more)
        return {f"{prefix}{name}": getattr(self, name) for name in names}


def t_estimates(
    estimate: ArrayLike, standard_error: ArrayLike, degrees_of_freedom: ArrayLike
) -> Estimates[Floats]:
    """t intervals of estimates [J] with standard errors [J] and degrees of freedom [J]."""
    middle = np.asarray(estimate, np.float64)
    errors = np.asarray(standard_error, np.float64)
    freedom = np.asarray(degrees_of_freedom, np.float64)
    half = t_quantile(0.975, freedom) * errors
    p = 2 * t_below(-np.abs(t_ratio(middle, errors)), freedom)
    return Estimates(middle, middle - half, middle + half, p, errors, freedom)
