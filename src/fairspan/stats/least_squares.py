"""Least squares, and covariances of the coefficients if rows of one cluster are not independent.

Covariances are computed in the coordinates of X·L, where L Lᵀ = (X'X)⁻¹. There the score of cluster
g is u_g = LᵀX_g'e_g and its leverage Q_g = LᵀX_g'X_gL, and the usual adjustments of the residuals,
(I − H_gg)^{−1/2} and (I − H_gg)^{−1}, become (I − Q_g)^{−1/2} and (I − Q_g)^{−1}: K×K however many
rows a cluster has.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.errors import DesignError
from fairspan.stats.arrays import Codes, Floats, Groups, crossed, group

# A column depends on those before it if less than this share of its length is orthogonal to them.
DEPENDENT = 1e-9
# Above this leverage the cluster alone decides some combination of the coefficients.
FULL_LEVERAGE = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """An ordinary least-squares fit: coefficients [K], residuals [N], regressors [N, K].

    `root` [K, K] is L with L Lᵀ = (X'X)⁻¹, so X @ root has orthonormal columns. There are more
    `observations` than N if rows are means of several.
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
    dependent = np.abs(np.diag(r)) <= DEPENDENT * np.linalg.norm(regressors, axis=0)
    if counted <= columns or dependent.any():
        raise DesignError(
            f"{counted} rows are too few for {columns} coefficients and their errors: measure more."
        )
    root = np.linalg.inv(r)
    coefficients = root @ (q.T @ outcome)
    residuals = outcome - regressors @ coefficients
    return LeastSquares(coefficients, residuals, root, regressors, counted)


def fit_cells(
    outcome: Floats, cells: Groups, slope: Floats | None, *clusters: Groups
) -> tuple[LeastSquares, Codes]:
    """Least squares of outcome[N] on the means of cells and, if given, the slope of a column [N].

    Also, for each row of the fit, one of the rows that it replaces: rows that agree in all
    regressors and clusters enter the fit and every clustered covariance only as a sum, so replacing
    w of them by √w·(x, mean of y) changes no number.
    """
    same = cells
    for labels in clusters:
        same = crossed(same, labels)
    if slope is not None:
        same = crossed(same, group(slope))
    first = np.unique(same.codes, return_index=True)[1]
    design = np.eye(cells.count)[cells.codes[first]]
    if slope is not None:
        design = np.column_stack([design, slope[first]])
    weights = np.bincount(same.codes).astype(np.float64)
    scale = np.sqrt(weights)
    means = scale * same.sums(outcome) / weights
    return fit(means, scale[:, None] * design, observations=len(outcome)), first


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Sums of a fit by cluster: all that the covariances below need, without the rows.

    Scores [G, K] are u_g, and leverages [G, K, K] are Q_g, empty if only CR1 is wanted.
    """

    coefficients: Floats
    root: Floats
    scores: Floats
    leverages: Floats
    observations: int


def cluster(fit: LeastSquares, groups: Groups, *, leverages: bool = True) -> Clustered:
    """The sums of a fit over clusters of its rows."""
    rotated = fit.regressors @ fit.root
    scores = groups.sums(rotated * fit.residuals[:, None])
    blocks = _grams(rotated, groups) if leverages else np.empty((0, 0, 0))
    return Clustered(fit.coefficients, fit.root, scores, blocks, fit.observations)


def cr1(clustered: Clustered) -> Floats:
    """The sandwich of cluster scores times G/(G−1) · (N−1)/(N−K), as in Stata and statsmodels."""
    g = len(clustered.scores)
    k = len(clustered.coefficients)
    n = clustered.observations
    return g / (g - 1) * (n - 1) / (n - k) * _sandwich(clustered.root, clustered.scores)


def cr2(clustered: Clustered) -> Floats:
    """Bell and McCaffrey (2002): unbiased if the errors are independent and of equal variance."""
    values, vectors = np.linalg.eigh(clustered.leverages)
    # (I − Q_g)^{−1/2} u_g of every cluster.
    adjustments = _rebuilt(_power_of_rest(values, 0.5), vectors)
    return _sandwich(clustered.root, np.einsum("gkl,gl->gk", adjustments, clustered.scores))


def two_way(fit: LeastSquares, first: Groups, second: Groups) -> Floats:
    """Cameron, Gelbach and Miller (2011): V_a + V_b − V_ab, each a CR1 with its own factor.

    If this has a negative eigenvalue, V_a + V_b, which errs to the wide side. Clipping would call
    some contrast free of error.
    """
    labels = (first, second, crossed(first, second))
    covariances = [cr1(cluster(fit, groups, leverages=False)) for groups in labels]
    total = covariances[0] + covariances[1]
    difference = total - covariances[2]
    eigenvalues = np.linalg.eigvalsh(difference)
    largest = max(abs(eigenvalues[-1]), np.finfo(np.float64).tiny)
    return total if eigenvalues[0] < -1e-12 * largest else difference


def hotelling(clustered: Clustered, weights: Floats) -> float:
    """Degrees of freedom η of the CR2 covariance of contrasts weights[q, K] taken together.

    Pustejovsky and Tipton's (2018) AHZ test: q(q+1) / Σ_st Var(d_st), where d is the covariance
    scaled to the identity under an independence working model. The Wald statistic W then has
    (η−q+1)/(ηq)·W ~ F(q, η−q+1). With q = 1 it is Satterthwaite's number (Bell and McCaffrey 2002),
    with equal cluster designs Hotelling's G − 1.
    """
    # The sums below do not depend on which orthonormal basis of the contrasts is used.
    basis = np.linalg.qr((weights @ clustered.root).T)[0]
    values, vectors = np.linalg.eigh(clustered.leverages)
    # Q_g (I − Q_g)^{−1/2} and Q_g (I − Q_g)^{−1}.
    half = _rebuilt(values * _power_of_rest(values, 0.5), vectors) @ basis
    whole = _rebuilt(values * _power_of_rest(values, 1.0), vectors) @ basis
    inner = half.transpose(0, 2, 1) @ half
    outer = basis.T @ whole - inner
    across = np.einsum("gks,glt->stkl", half, half)
    traces = np.trace(outer, axis1=1, axis2=2)
    inner_traces = np.trace(inner, axis1=1, axis2=2)
    variance = (traces**2).sum() + (outer**2).sum() - (inner_traces**2).sum() - (inner**2).sum()
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
    """Z_g'Z_g [G, K, K] of the rows Z_g of every cluster in rotated[N, K]."""
    rows = rotated[np.argsort(groups.codes, kind="stable")]
    ends = np.cumsum(np.bincount(groups.codes, minlength=groups.count))
    return np.stack([part.T @ part for part in np.split(rows, ends[:-1])])
