"""Tail areas and quantiles of t, F and the normal, intervals of means, and Holm's correction.

Infinite degrees of freedom mean the normal and chi-square.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats


def t_below(statistic: ArrayLike, freedom: ArrayLike) -> Floats:
    """P(T ≤ statistic)."""
    t, df = np.broadcast_arrays(np.asarray(statistic, np.float64), np.asarray(freedom, np.float64))
    finite = np.where(np.isfinite(df), df, 1.0)
    below: Floats = np.where(np.isfinite(df), special.stdtr(finite, t), special.ndtr(t))
    return below


def t_two_sided(statistic: ArrayLike, freedom: ArrayLike) -> Floats:
    """P(|T| ≥ |statistic|)."""
    return 2 * t_below(-np.abs(np.asarray(statistic, np.float64)), freedom)


def t_quantile(probability: ArrayLike, freedom: ArrayLike) -> Floats:
    """The t with P(T ≤ t) = probability."""
    p, df = np.broadcast_arrays(np.asarray(probability, np.float64), np.asarray(freedom, np.float64))
    finite = np.where(np.isfinite(df), df, 1.0)
    quantile: Floats = np.where(np.isfinite(df), special.stdtrit(finite, p), special.ndtri(p))
    return quantile


def f_above(statistic: float, numerator: float, denominator: float) -> float:
    """P(F ≥ statistic); with an infinite denominator, chi-square over its degrees of freedom."""
    if np.isfinite(denominator):
        return float(special.fdtrc(numerator, denominator, statistic))
    return float(special.chdtrc(numerator, numerator * statistic))


def t_ratio(difference: ArrayLike, standard_error: ArrayLike) -> Floats:
    """difference / standard error; where the error is 0, no difference gives 0 and any other is infinite."""
    gap, error = np.broadcast_arrays(np.asarray(difference, np.float64), np.asarray(standard_error, np.float64))
    ratio: Floats = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
    np.divide(gap, error, out=ratio, where=error > 0)
    return ratio


def half_widths(squares: ArrayLike, counts: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Floats:
    """Half the width of the interval of each mean, as [M]; NaN for one cluster.

    CR1 for a mean, G/(G−1) · Σ_g (Σ_i (x_i − mean))² / N², and t with G − 1 degrees of freedom.

    Args:
        squares: [M], Σ_g of the squared sums of each cluster's distances from the mean.
        counts, clusters: [M], N and G.
    """
    several = np.asarray(clusters, np.float64)
    free = np.maximum(several - 1, 1)
    error = np.sqrt(several / free * np.asarray(squares, np.float64)) / np.asarray(counts, np.float64)
    return np.asarray(np.where(several > 1, t_quantile((1 + level) / 2, free) * error, np.nan))


def holm(p_values: ArrayLike) -> Floats:
    """Holm's (1979) adjusted p-values: each may be compared with the level for the whole family.

    NaN stays NaN and is not counted.
    """
    column = np.asarray(p_values, np.float64)
    if column.ndim != 1:
        raise StatisticsError(f"p-values are one column, got an array of shape {column.shape}.")
    tested = np.flatnonzero(~np.isnan(column))
    if ((column[tested] < 0) | (column[tested] > 1)).any():
        raise StatisticsError("p-values must be between 0 and 1.")
    order = tested[np.argsort(column[tested], kind="stable")]
    adjusted = np.full(column.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(column[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted
