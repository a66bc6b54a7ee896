"""Rows that agree in every regressor and every cluster, as one weighted row.

A design with all orders has each segment at each position hundreds of times. Least squares and every clustered
covariance see such rows only through their sum, so one row √w·(x, mean of y) in place of w rows changes no number.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.stats.arrays import Codes, Floats, Groups, crossed


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Which rows became one.

    Attributes:
        groups: the merged row of each row.
        first: [M], a row of each.
        weights: [M], how many rows each stands for.
    """

    groups: Groups
    first: Codes
    weights: Floats

    def means(self, values: Floats) -> Floats:
        """The mean [M] of values[N] over the rows that were merged."""
        return self.groups.sums(values) / self.weights

    def labels(self, groups: Groups) -> Groups:
        """A label column of the merged rows."""
        return Groups(groups.codes[self.first], groups.count)

    @property
    def scale(self) -> Floats:
        """[M, 1], √w."""
        return np.asarray(np.sqrt(self.weights)[:, None])


def merge(*labels: Groups) -> Merged:
    """Merge the rows that agree in all labels."""
    both = labels[0]
    for other in labels[1:]:
        both = crossed(both, other)
    first = np.empty(both.count, np.int64)
    first[both.codes] = np.arange(len(both.codes))
    return Merged(both, first, np.bincount(both.codes, minlength=both.count).astype(np.float64))
