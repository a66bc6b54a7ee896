"""`LeastSquares`: coefficients, residuals and a root of (X'X)⁻¹ of an ordinary least-squares fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, as_values, require_same_length

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
        observations: how many there were; more than N where a row stands for several.
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
        observations: how many the rows stand for; by default one each.
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
            f"{columns}): leave it out."
        )
    root = np.linalg.inv(r)
    coefficients = root @ (q.T @ y)
    return LeastSquares(coefficients, y - x @ coefficients, root, x, counted)
