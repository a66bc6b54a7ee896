"""Label columns as codes, and sums over them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import DesignError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A label column as codes 0…count−1."""

    codes: Codes
    count: int


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


def share(sums: Floats, counts: Floats) -> Floats:
    """sums / counts, NaN for counts of 0."""
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def round_up(number: float) -> int:
    """Round up to two significant digits: an estimated sample size is no more precise."""
    whole = int(np.ceil(number))
    unit: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-whole // unit) * unit
