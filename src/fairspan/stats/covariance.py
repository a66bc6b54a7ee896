"""Covariances of least-squares coefficients when rows of one cluster are not independent.

Everything is computed in the coordinates of X·L, where L Lᵀ = (X'X)⁻¹. There the score of cluster g is
u_g = LᵀX_g'e_g and its leverage Q_g = LᵀX_g'X_gL, and the usual adjustments of the residuals, (I − H_gg)^{−1/2} and
(I − H_gg)^{−1}, become (I − Q_g)^{−1/2} and (I − Q_g)^{−1}: K×K however many rows a cluster has.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, Groups, crossed, group, require_clusters, require_same_length
from fairspan.stats.ols import LeastSquares

# A leverage this near to 1 means that the cluster alone decides some combination of the coefficients.
FULL_LEVERAGE = 1 - 1e-9
# Numbers held at once for contrasts × clusters × coefficients.
CHUNK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """A fit as its clusters see it: all that the covariances below need, without the rows.

    Attributes:
        coefficients: [K].
        root: [K, K], L with L Lᵀ = (X'X)⁻¹.
        scores: [G, K], u_g.
        leverages: [G, K, K], Q_g; None where only CR1 is wanted.
        observations: N.
    """

    coefficients: Floats
    root: Floats
    scores: Floats
    leverages: Floats | None
    observations: int

    @property
    def clusters(self) -> int:
        return len(self.scores)

    @property
    def factor(self) -> float:
        """The small-sample factor of CR1, G/(G−1) · (N−1)/(N−K)."""
        g, n, k = len(self.scores), self.observations, len(self.coefficients)
        return g / (g - 1) * (n - 1) / (n - k)


def cluster(fit: LeastSquares, labels: ArrayLike | Groups, *, leverages: bool = True) -> Clustered:
    """Sum a fit over the clusters named by labels[N]."""
    groups = group(labels)
    require_same_length(rows=len(fit.residuals), clusters=len(groups.codes))
    require_clusters(groups)
    rotated = fit.regressors @ fit.root
    scores = groups.sums(rotated * fit.residuals[:, None])
    blocks = _grams(rotated, groups) if leverages else None
    return Clustered(fit.coefficients, fit.root, scores, blocks, fit.observations)


def cr1(clustered: Clustered) -> Floats:
    """The sandwich of cluster scores times G/(G−1) · (N−1)/(N−K), as Stata and statsmodels have it."""
    return clustered.factor * _sandwich(clustered.root, clustered.scores)


def cr2(clustered: Clustered) -> Floats:
    """Bell and McCaffrey (2002): unbiased when the errors are independent and of equal variance."""
    return _sandwich(clustered.root, _adjusted_scores(clustered, 0.5))


def cr3(clustered: Clustered) -> Floats:
    """The cluster jackknife around the full estimate: (G−1)/G · Σ_g (β₍₋g₎ − β)(β₍₋g₎ − β)ᵀ.

    This is CV3 of MacKinnon, Nielsen and Webb (2023). Bell and McCaffrey's CR3 leaves out the factor (G−1)/G.
    """
    if np.linalg.eigvalsh(leverages_of(clustered)).max() > FULL_LEVERAGE:
        raise StatisticsError(
            "CR3 leaves out one cluster at a time, and without one of them the coefficients cannot be estimated: "
            "use CR2 or CR1."
        )
    g = clustered.clusters
    return (g - 1) / g * _sandwich(clustered.root, _adjusted_scores(clustered, 1.0))


def two_way(fit: LeastSquares, first: ArrayLike | Groups, second: ArrayLike | Groups) -> Floats:
    """Cameron, Gelbach and Miller (2011): V_a + V_b − V_ab, each a CR1 with its own factor.

    The difference can have a negative eigenvalue. Clipping it to zero would call some contrast free of error, so then
    V_ab is not subtracted: V_a + V_b is always positive semi-definite and errs to the wide side.
    """
    a, b = group(first), group(second)
    one, other, both = (cr1(cluster(fit, labels, leverages=False)) for labels in (a, b, crossed(a, b)))
    difference = one + other - both
    eigenvalues = np.linalg.eigvalsh(difference)
    indefinite = eigenvalues[0] < -1e-12 * max(abs(eigenvalues[-1]), np.finfo(np.float64).tiny)
    return one + other if indefinite else difference


def satterthwaite(clustered: Clustered, weights: Floats) -> Floats:
    """Degrees of freedom of the CR2 variance of each contrast weights[J, K], as [J].

    Bell and McCaffrey's approximation with an independence working model (Pustejovsky and Tipton 2018); G − 1
    exactly when all clusters have the same design.
    """
    directions = weights @ clustered.root
    half, whole = _adjustments(clustered)
    freedom = np.empty(len(directions))
    step = max(1, CHUNK // clustered.scores.size)
    for start in range(0, len(directions), step):
        some = directions[start : start + step]
        w = np.einsum("gkl,jl->jgk", half, some)
        inner = (w**2).sum(-1)
        own = (np.einsum("gkl,jl->jgk", whole, some) * some[:, None, :]).sum(-1) - inner
        across = w.transpose(0, 2, 1) @ w
        variance = (own**2).sum(-1) - (inner**2).sum(-1) + (across**2).sum((-1, -2))
        freedom[start : start + step] = own.sum(-1) ** 2 / variance
    return freedom


def hotelling(clustered: Clustered, weights: Floats) -> float:
    """Degrees of freedom η of the CR2 covariance of several contrasts weights[q, K] taken together.

    Pustejovsky and Tipton's (2018) AHZ test: q(q+1) / Σ_st Var(d_st), where d is the covariance scaled to the
    identity under an independence working model. The Wald statistic W then has (η−q+1)/(ηq)·W ~ F(q, η−q+1). With
    q = 1 it is Satterthwaite's number, with equal cluster designs Hotelling's G − 1.
    """
    q = len(weights)
    directions = weights @ clustered.root
    scale = directions @ directions.T
    values, vectors = np.linalg.eigh(scale)
    if values[0] <= 1e-14 * values[-1]:
        raise StatisticsError("the contrasts tested together depend on each other.")
    directions = (vectors / np.sqrt(values)) @ vectors.T @ directions
    half, whole = _adjustments(clustered)
    w = np.einsum("gkl,sl->sgk", half, directions)
    inner = np.einsum("sgk,tgk->stg", w, w)
    own = np.einsum("sk,tgk->stg", directions, np.einsum("gkl,tl->tgk", whole, directions)) - inner
    diagonal = np.einsum("ssg->sg", own)
    diagonal_inner = np.einsum("ssg->sg", inner)
    across = np.einsum("sgk,tgl->stkl", w, w)
    variance = (
        np.einsum("sg,tg->", diagonal, diagonal)
        + (own**2).sum()
        - np.einsum("sg,tg->", diagonal_inner, diagonal_inner)
        - (inner**2).sum()
        + (across**2).sum()
        + np.einsum("stkl,stlk->", across, across)
    )
    trace = diagonal.sum() / q
    return float(q * (q + 1) * trace**2 / variance)


def _adjustments(clustered: Clustered) -> tuple[Floats, Floats]:
    """Q_g (I − Q_g)^{−1/2} and Q_g (I − Q_g)^{−1} of every cluster, [G, K, K]."""
    values, vectors = np.linalg.eigh(leverages_of(clustered))
    half, whole = (_rebuilt(values * _power_of_rest(values, power), vectors) for power in (0.5, 1.0))
    return half, whole


def _adjusted_scores(clustered: Clustered, power: float) -> Floats:
    """(I − Q_g)^{−power} u_g of every cluster, [G, K]."""
    values, vectors = np.linalg.eigh(leverages_of(clustered))
    scores: Floats = np.einsum("gkl,gl->gk", _rebuilt(_power_of_rest(values, power), vectors), clustered.scores)
    return scores


def _power_of_rest(eigenvalues: Floats, power: float) -> Floats:
    """(1 − λ)^{−power}, with the pseudo-inverse where λ = 1."""
    free = eigenvalues <= FULL_LEVERAGE
    return np.where(free, np.where(free, 1 - eigenvalues, 1.0) ** -power, 0.0)


def _rebuilt(values: Floats, vectors: Floats) -> Floats:
    """The symmetric matrices with these eigenvalues [G, K] and eigenvectors [G, K, K]."""
    return (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)


def leverages_of(clustered: Clustered) -> Floats:
    """Q_g; an error where only CR1 was wanted."""
    if clustered.leverages is None:
        raise StatisticsError("this needs cluster(..., leverages=True).")
    return clustered.leverages


def _sandwich(root: Floats, scores: Floats) -> Floats:
    half = scores @ root.T
    return half.T @ half


def _grams(rotated: Floats, groups: Groups) -> Floats:
    """Z_g'Z_g of every cluster. A cluster's rows are one slice after sorting, and one small product of matrices."""
    order = np.argsort(groups.codes, kind="stable")
    rows = rotated[order]
    ends = np.cumsum(np.bincount(groups.codes, minlength=groups.count))
    return np.stack([part.T @ part for part in np.split(rows, ends[:-1])])
