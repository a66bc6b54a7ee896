"""Intervals of many means at once, when rows of one cluster are not independent."""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_quantile


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
