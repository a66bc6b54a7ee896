"""`LeastSquares`: coefficients, residuals and a root of (X'X)⁻¹ of an ordinary least-squares fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Codes, Floats, Groups, as_values, crossed, require_same_length

# A column is taken to depend on those before it when less than this share of its length is its own.
DEPENDENT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """An ordinary least-squares fit.

    Attributes:
        coefficients: [K].
        residuals: [N].
        root: [K, K], a square root of (X'X)⁻¹ = root @ root.T. X @ root has orthonormal columns.
        regressors: [N, K], X as it was given.
        observations: how many there were; more than N where a row is a mean of several.
    """

    coefficients: Floats
    residuals: Floats
    root: Floats
    regressors: Floats
    observations: int


def fit(
    outcome: ArrayLike, regressors: ArrayLike, names: Sequence[str] | None = None, *, observations: int | None = None
) -> LeastSquares:
    """Least squares of outcome[N] on regressors[N, K] by QR.

    Args:
        names: name the columns in errors.
        observations: their number, if some rows are means of several; by default one per row.
    """
    y = as_values(outcome, "outcome")
    x = np.asarray(regressors, np.float64)
    if x.ndim != 2 or not x.shape[1]:
        raise StatisticsError(f"regressors must be a table of at least one column, got shape {x.shape}.")
    require_same_length(outcome=len(y), regressors=len(x))
    rows, columns = x.shape
    if not np.isfinite(x).all():
        raise StatisticsError("regressors have entries that are not finite.")
    counted = rows if observations is None else observations
    if rows < columns or counted <= columns:
        raise StatisticsError(f"{counted} rows cannot fit {columns} coefficients and leave any error to estimate.")
    q, r = np.linalg.qr(x)
    own = np.abs(np.diag(r))
    dependent = np.flatnonzero(own <= DEPENDENT * np.linalg.norm(x, axis=0))
    if len(dependent):
        name = names[dependent[0]] if names is not None else f"regressor {dependent[0]}"
        raise StatisticsError(
            f"{name} is a linear combination of the regressors before it (rank {columns - len(dependent)} of "
            f"{columns}): omit it."
        )
    root = np.linalg.inv(r)
    coefficients = root @ (q.T @ y)
    return LeastSquares(coefficients, y - x @ coefficients, root, x, counted)


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Rows that agree in every regressor and every cluster, as one weighted row.

    A design with all orders has each segment at each position hundreds of times. Least squares and every clustered
    covariance see such rows only through their sum, so replacing w rows by √w·(x, mean of y) changes no number.

    Attributes:
        groups: the merged row of each row.
        first: [M], a row of each.
        weights: [M], how many rows became each.
    """

    groups: Groups
    first: Codes
    weights: Floats

    def fit(self, outcome: Floats, regressors: Floats, names: Sequence[str] | None = None) -> LeastSquares:
        """Least squares of outcome[N] on the regressors [M, K] of the merged rows."""
        scale = np.sqrt(self.weights)
        means = self.groups.sums(outcome) / self.weights
        return fit(scale * means, scale[:, None] * regressors, names, observations=len(outcome))

    def labels(self, groups: Groups) -> Groups:
        """A label column of the merged rows."""
        return Groups(groups.codes[self.first], groups.count)


def merge(*labels: Groups) -> Merged:
    """Merge the rows that agree in all labels."""
    both = labels[0]
    for other in labels[1:]:
        both = crossed(both, other)
    first = np.empty(both.count, np.int64)
    first[both.codes] = np.arange(len(both.codes))
    return Merged(both, first, np.bincount(both.codes, minlength=both.count).astype(np.float64))
