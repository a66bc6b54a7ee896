"""Checked input: columns of one length, finite values, labels as codes, positions from 1 to n."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import StatisticsError

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
    if column.ndim != 1:
        raise StatisticsError(f"labels are one column, got an array of shape {column.shape}.")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        raise StatisticsError("a label is missing (NaN): every row needs its set.")
    if column.dtype.kind in "iubf":
        names, codes = np.unique(column, return_inverse=True)
        return Groups(codes.astype(np.int64, copy=False), len(names))
    seen: dict[Hashable, int] = {}
    listed = [seen.setdefault(label, len(seen)) for label in column.tolist()]
    if None in seen:
        raise StatisticsError("a label is missing (None): every row needs its set.")
    return Groups(np.asarray(listed, np.int64), len(seen))


def crossed(first: Groups, second: Groups) -> Groups:
    """The groups of rows that agree in both labels."""
    return group(first.codes * second.count + second.codes)


def as_values(values: ArrayLike, name: str = "values") -> Floats:
    """One column of finite numbers."""
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not len(column):
        raise StatisticsError(f"{name} must be one column of at least one number, got shape {column.shape}.")
    wrong = np.flatnonzero(~np.isfinite(column))
    if len(wrong):
        raise StatisticsError(
            f"{name} has {len(wrong)} entries that are not finite, the first in row {wrong[0]} ({column[wrong[0]]}): "
            "omit those rows or measure them again."
        )
    return column


def as_positions(positions: ArrayLike) -> tuple[Codes, int]:
    """Positions as whole numbers from 1 to n, with n; every position must occur."""
    column = np.asarray(positions)
    if column.ndim != 1 or not len(column):
        raise StatisticsError(f"positions must be one column, got shape {column.shape}.")
    if column.dtype.kind not in "iu":
        numbers = as_values(column, "positions")
        if (numbers != np.floor(numbers)).any():
            raise StatisticsError("positions must be whole numbers counted from 1.")
        column = numbers
    whole = column.astype(np.int64)
    if whole.min() < 1:
        raise StatisticsError(f"positions are counted from 1, got {whole.min()}.")
    count = int(whole.max())
    if count < 2:
        raise StatisticsError("only position 1 occurs: there is nothing to compare it with.")
    missing = np.flatnonzero(np.bincount(whole, minlength=count + 1)[1:] == 0) + 1
    if len(missing):
        raise StatisticsError(
            f"position {missing[0]} of {count} has no rows: give rows for every position from 1 to {count}."
        )
    return whole, count


def require_same_length(**columns: int) -> None:
    """Refuse columns of different lengths, naming them."""
    if len(set(columns.values())) > 1:
        raise StatisticsError(
            "columns differ in length: " + ", ".join(f"{name} {length}" for name, length in columns.items()) + "."
        )


def require_clusters(groups: Groups, name: str = "set") -> None:
    """Clustered errors compare clusters, so one is not enough."""
    if groups.count < 2:
        raise StatisticsError(f"clustered errors need rows from at least 2 different {name}s, got {groups.count}.")


def two_digits(count: float) -> int:
    """An estimate of how many are needed, which deserves no more digits."""
    whole = int(count)
    return round(whole, 2 - len(str(whole)))


def require_level(level: float) -> None:
    if not 0 < level < 1:
        raise StatisticsError(f"level must be between 0 and 1, got {level}.")


def require_some(**counts: int) -> None:
    """Refuse counts below 1, naming them."""
    for name, count in counts.items():
        if count < 1:
            raise StatisticsError(f"{name} must be at least 1, got {count}.")
