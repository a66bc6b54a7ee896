"""Tail areas and quantiles of t, and Holm's correction. Infinite degrees of freedom: the normal."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from fairspan.stats.arrays import Floats


def t_below(statistic: ArrayLike, freedom: ArrayLike) -> Floats:
    """P(T ≤ statistic)."""
    return np.asarray(special.stdtr(freedom, statistic))


def t_quantile(probability: ArrayLike, freedom: ArrayLike) -> Floats:
    """The t with P(T ≤ t) = probability."""
    return np.asarray(special.stdtrit(freedom, probability))


def t_ratio(difference: ArrayLike, standard_error: ArrayLike) -> Floats:
    """difference / standard error; with an error of 0, 0 for no difference and ±∞ otherwise."""
    gap, error = np.broadcast_arrays(
        np.asarray(difference, np.float64), np.asarray(standard_error, np.float64)
    )
    ratio: Floats = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
    np.divide(gap, error, out=ratio, where=(error > 0) | np.isnan(error))
    return ratio


def holm(p_values: ArrayLike) -> Floats:
    """Holm's (1979) adjusted p-values; NaN stays NaN and is not counted."""
    column = np.asarray(p_values, np.float64)
    tested = np.flatnonzero(~np.isnan(column))
    order = tested[np.argsort(column[tested], kind="stable")]
    steps = column[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(column.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
