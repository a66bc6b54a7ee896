"""Checked input: columns of finite numbers, labels as codes, positions from 1 to n."""

from collections.abc import Hashable
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
        if values.ndim == 1:
            return np.bincount(self.codes, weights=values, minlength=self.count).astype(np.float64, copy=False)
        return np.stack([self.sums(column) for column in values.T], axis=1)

    def by_position(self, positions: Codes, n: int, values: Floats | None = None) -> Floats:
        """Sums [count, n] of values[N] over each group and position; without values, the numbers of rows."""
        cells = self.codes * n + positions - 1
        return np.bincount(cells, values, self.count * n).reshape(self.count, n).astype(np.float64)


def group(labels: ArrayLike | Groups) -> Groups:
    """Codes for any label column: numbers, or strings and other hashable things."""
    if isinstance(labels, Groups):
        return labels
    column = np.asarray(labels)
    if column.dtype.kind in "iubf":
        names, codes = np.unique(as_values(column, "labels"), return_inverse=True)
        return Groups(codes.astype(np.int64, copy=False), len(names))
    seen: dict[Hashable, int] = {}
    listed = [seen.setdefault(label, len(seen)) for label in column.tolist()]
    if None in seen:
        raise DesignError("a label is missing (None): every row needs its set.")
    return Groups(np.asarray(listed, np.int64), len(seen))


def clusters_of(labels: ArrayLike | Groups, rows: int, name: str = "set") -> Groups:
    """The clusters of so many rows. Clustered errors compare clusters, so one is not enough."""
    groups = group(labels)
    if len(groups.codes) != rows:
        raise DesignError(f"columns differ in length: {rows} values and {len(groups.codes)} {name}s.")
    if groups.count < 2:
        raise DesignError(f"clustered errors need rows from at least 2 different {name}s, got {groups.count}.")
    return groups


def crossed(first: Groups, second: Groups) -> Groups:
    """The groups of rows that agree in both labels."""
    return group(first.codes * second.count + second.codes)


def as_values(values: ArrayLike, name: str = "values") -> Floats:
    """One column of finite numbers."""
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not len(column):
        raise DesignError(f"{name} must be one column of at least one number, got shape {column.shape}.")
    wrong = np.flatnonzero(~np.isfinite(column))
    if len(wrong):
        raise DesignError(
            f"{name} has {len(wrong)} entries that are not finite, the first in row {wrong[0]} ({column[wrong[0]]}): "
            "omit those rows or measure them again."
        )
    return column


def as_numbers(numbers: ArrayLike, name: str, least: int = 1) -> tuple[Codes, int]:
    """Whole numbers from `least` to n, with n; each from 1 to n must occur."""
    column = as_values(numbers, name)
    whole = column.astype(np.int64)
    if (whole != column).any() or whole.min() < least:
        raise DesignError(f"{name} must be whole numbers counted from {least}.")
    count = int(whole.max())
    missing = np.flatnonzero(np.bincount(whole, minlength=count + 1)[1:] == 0) + 1
    if len(missing):
        raise DesignError(f"{name} go up to {count}, and {missing[0]} has no rows.")
    return whole, count


def as_positions(positions: ArrayLike) -> tuple[Codes, int]:
    """Positions from 1 to n, with n."""
    numbers, count = as_numbers(positions, "positions")
    if count < 2:
        raise DesignError("only position 1 occurs: there is nothing to compare it with.")
    return numbers, count


def round_up(number: int) -> int:
    """To two significant digits, since an estimate of how many are needed deserves no more."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
