"""Holm's correction for several tests at once."""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats


def holm(p_values: ArrayLike) -> Floats:
    """Holm's (1979) adjusted p-values: each may be compared with the level for the whole family.

    NaN stays NaN and is not counted.
    """
    column = np.asarray(p_values, np.float64)
    if column.ndim != 1:
        raise StatisticsError(f"p-values are one column, got an array of shape {column.shape}.")
    tested = np.flatnonzero(~np.isnan(column))
    if ((column[tested] < 0) | (column[tested] > 1)).any():
        raise StatisticsError("p-values lie between 0 and 1.")
    order = tested[np.argsort(column[tested], kind="stable")]
    adjusted = np.full(column.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(column[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted
