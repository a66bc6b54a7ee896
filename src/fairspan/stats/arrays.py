"""Label columns as codes, and sums over them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import DesignError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A label column as codes 0…count−1."""

    codes: Codes
    count: int

    def sums(self, values: Floats) -> Floats:
        """Sums of values[N] or values[N, K] over each group."""
        if values.ndim > 1:
            return np.stack([self.sums(column) for column in values.T], axis=1)
        sums = np.bincount(self.codes, weights=values, minlength=self.count)
        return sums.astype(np.float64, copy=False)

    def by_position(self, positions: Codes, n: int, values: Floats | None = None) -> Floats:
        """Sums [count, n] of values[N] by group and position; without values, numbers of rows."""
        cells = self.codes * n + positions - 1
        return np.bincount(cells, values, self.count * n).reshape(self.count, n).astype(np.float64)

    def at(self, rows: Codes) -> "Groups":
        """The labels of some rows."""
        return Groups(self.codes[rows], self.count)


def group(labels: ArrayLike) -> Groups:
    """Codes for a column: numbers in ascending order, strings in order of first appearance."""
    column = np.asarray(labels)
    if column.dtype.kind in "OU":
        seen: dict[str, int] = {}
        column = np.array([seen.setdefault(label, len(seen)) for label in column.tolist()])
    names, codes = np.unique(column, return_inverse=True)
    return Groups(codes.astype(np.int64, copy=False), len(names))


def clusters_of(labels: ArrayLike, name: str = "set") -> Groups:
    """Clusters by their labels, at least two."""
    groups = group(labels)
    if groups.count < 2:
        needed = f"rows from at least 2 different {name}s"
        raise DesignError(f"clustered errors need {needed}, got {groups.count}.")
    return groups


def crossed(first: Groups, second: Groups) -> Groups:
    """The groups of rows that agree in both labels."""
    return group(first.codes * second.count + second.codes)


def round_up(number: int) -> int:
    """Round up to two significant digits: an estimated sample size is no more precise."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
