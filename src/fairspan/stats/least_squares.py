"""Least squares, and covariances of the coefficients when rows of one cluster are not independent.

Covariances are computed in the coordinates of X·L, where L Lᵀ = (X'X)⁻¹. There the score of cluster g is
u_g = LᵀX_g'e_g and its leverage Q_g = LᵀX_g'X_gL, and the usual adjustments of the residuals, (I − H_gg)^{−1/2} and
(I − H_gg)^{−1}, become (I − Q_g)^{−1/2} and (I − Q_g)^{−1}: K×K however many rows a cluster has.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.errors import DesignError
from fairspan.stats.arrays import Codes, Floats, Groups, crossed, group

# A column is taken to depend on those before it when less than this share of its length is its own.
DEPENDENT = 1e-9
# A leverage this near to 1 means that the cluster alone decides some combination of the coefficients.
FULL_LEVERAGE = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """An ordinary least-squares fit.

    Attributes:
        coefficients: [K].
        residuals: [N].
        root: [K, K], L with L Lᵀ = (X'X)⁻¹. X @ root has orthonormal columns.
        regressors: [N, K], X as it was given.
        observations: how many there were; more than N where a row is a mean of several.
    """

    coefficients: Floats
    residuals: Floats
    root: Floats
    regressors: Floats
    observations: int


def fit(outcome: Floats, regressors: Floats, *, observations: int | None = None) -> LeastSquares:
    """Least squares of outcome[N] on regressors[N, K] by QR."""
    rows, columns = regressors.shape
    counted = observations or rows
    q, r = np.linalg.qr(regressors)
    if (
        counted <= columns
        or (np.abs(np.diag(r)) <= DEPENDENT * np.linalg.norm(regressors, axis=0)).any()
    ):
        raise DesignError(
            f"{counted} rows are too few for {columns} coefficients and their errors: measure more."
        )
    root = np.linalg.inv(r)
    coefficients = root @ (q.T @ outcome)
    return LeastSquares(
        coefficients, outcome - regressors @ coefficients, root, regressors, counted
    )


def fit_cells(
    outcome: Floats, cells: Groups, slope: Floats | None, *clusters: Groups
) -> tuple[LeastSquares, Codes]:
    """Least squares of outcome[N] on the means of cells and, where it is given, the slope of a column.

    A design with all orders has each segment at each position hundreds of times. Least squares and every clustered
    covariance see rows that agree in all regressors and clusters only through their sum, so replacing w of them by
    √w·(x, mean of y) changes no number.

    Returns:
        the fit, and for each of its rows one of the rows that became it.
    """
    same = cells
    for other in (*clusters, *([] if slope is None else [group(slope)])):
        same = crossed(same, other)
    first = np.unique(same.codes, return_index=True)[1]
    weights = np.bincount(same.codes).astype(np.float64)
    design = np.eye(cells.count)[cells.codes[first]]
    if slope is not None:
        design = np.column_stack([design, slope[first]])
    scale = np.sqrt(weights)
    fitted = fit(
        scale * same.sums(outcome) / weights, scale[:, None] * design, observations=len(outcome)
    )
    return fitted, first


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """A fit as its clusters see it: all that the covariances below need, without the rows.

    Attributes:
        coefficients: [K].
        root: [K, K], L with L Lᵀ = (X'X)⁻¹.
        scores: [G, K], u_g.
        leverages: [G, K, K], Q_g; empty where only CR1 is wanted.
        observations: N.
    """

    coefficients: Floats
    root: Floats
    scores: Floats
    leverages: Floats
    observations: int


def cluster(fit: LeastSquares, groups: Groups, *, leverages: bool = True) -> Clustered:
    """Sum a fit over clusters of its rows."""
    rotated = fit.regressors @ fit.root
    scores = groups.sums(rotated * fit.residuals[:, None])
    blocks = _grams(rotated, groups) if leverages else np.empty((0, 0, 0))
    return Clustered(fit.coefficients, fit.root, scores, blocks, fit.observations)


def cr1(clustered: Clustered) -> Floats:
    """The sandwich of cluster scores times G/(G−1) · (N−1)/(N−K), as Stata and statsmodels have it."""
    g, n, k = len(clustered.scores), clustered.observations, len(clustered.coefficients)
    return g / (g - 1) * (n - 1) / (n - k) * _sandwich(clustered.root, clustered.scores)


def cr2(clustered: Clustered) -> Floats:
    """Bell and McCaffrey (2002): unbiased when the errors are independent and of equal variance."""
    values, vectors = np.linalg.eigh(clustered.leverages)
    # (I − Q_g)^{−1/2} u_g of every cluster.
    adjusted = np.einsum(
        "gkl,gl->gk", _rebuilt(_power_of_rest(values, 0.5), vectors), clustered.scores
    )
    return _sandwich(clustered.root, adjusted)


def two_way(fit: LeastSquares, first: Groups, second: Groups) -> Floats:
    """Cameron, Gelbach and Miller (2011): V_a + V_b − V_ab, each a CR1 with its own factor.

    The difference can have a negative eigenvalue. Clipping it to zero would call some contrast free of error, so then
    V_ab is not subtracted: V_a + V_b is always positive semi-definite and errs to the wide side.
    """
    labels = (first, second, crossed(first, second))
    one, other, both = (cr1(cluster(fit, groups, leverages=False)) for groups in labels)
    difference = one + other - both
    eigenvalues = np.linalg.eigvalsh(difference)
    indefinite = eigenvalues[0] < -1e-12 * max(abs(eigenvalues[-1]), np.finfo(np.float64).tiny)
    return one + other if indefinite else difference


def hotelling(clustered: Clustered, weights: Floats) -> float:
    """Degrees of freedom η of the CR2 covariance of contrasts weights[q, K] taken together.

    Pustejovsky and Tipton's (2018) AHZ test: q(q+1) / Σ_st Var(d_st), where d is the covariance scaled to the
    identity under an independence working model. The Wald statistic W then has (η−q+1)/(ηq)·W ~ F(q, η−q+1). With
    q = 1 it is Satterthwaite's number (Bell and McCaffrey 2002), with equal cluster designs Hotelling's G − 1.
    """
    # The sums below do not depend on which orthonormal basis of the contrasts they are taken over.
    basis = np.linalg.qr((weights @ clustered.root).T)[0]
    values, vectors = np.linalg.eigh(clustered.leverages)
    # Q_g (I − Q_g)^{−1/2} and Q_g (I − Q_g)^{−1}.
    half, whole = (
        _rebuilt(values * _power_of_rest(values, power), vectors) @ basis for power in (0.5, 1.0)
    )
    inner = half.transpose(0, 2, 1) @ half
    own = basis.T @ whole - inner
    across = np.einsum("gks,glt->stkl", half, half)
    traces, inner_traces = (np.trace(one, axis1=1, axis2=2) for one in (own, inner))
    variance = (traces**2).sum() + (own**2).sum() - (inner_traces**2).sum() - (inner**2).sum()
    variance += (across**2).sum() + (across * across.transpose(0, 1, 3, 2)).sum()
    q = len(weights)
    return float(q * (q + 1) * (traces.sum() / q) ** 2 / variance)


def _power_of_rest(eigenvalues: Floats, power: float) -> Floats:
    """(1 − λ)^{−power}, with the pseudo-inverse where λ = 1."""
    free = eigenvalues <= FULL_LEVERAGE
    return np.where(free, np.where(free, 1 - eigenvalues, 1.0) ** -power, 0.0)


def _rebuilt(values: Floats, vectors: Floats) -> Floats:
    """The symmetric matrices with these eigenvalues [G, K] and eigenvectors [G, K, K]."""
    return (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)


def _sandwich(root: Floats, scores: Floats) -> Floats:
    half = scores @ root.T
    return half.T @ half


def _grams(rotated: Floats, groups: Groups) -> Floats:
    """Z_g'Z_g of every cluster. A cluster's rows are one slice after sorting, and one small product of matrices."""
    order = np.argsort(groups.codes, kind="stable")
    rows = rotated[order]
    ends = np.cumsum(np.bincount(groups.codes, minlength=groups.count))
    return np.stack([part.T @ part for part in np.split(rows, ends[:-1])])
