"""`Robust`: a clustered fit with the way its errors are judged, and the contrasts and tests drawn from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, Groups, group, require_clusters, require_level
from fairspan.stats.covariance import Clustered, cluster, cr1, cr2, cr3, hotelling, satterthwaite, two_way
from fairspan.stats.distributions import f_above, t_below, t_quantile, t_ratio, t_two_sided
from fairspan.stats.ols import LeastSquares
from fairspan.stats.wild import WildTest, wild_cluster

INFERENCES = ("auto", "cr1", "z", "cr2", "cr3", "wild", "two-way")
# From this many clusters on, CR1 with t(G − 1) needs no help.
ENOUGH_CLUSTERS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """Estimates of J linear combinations of coefficients; every field has shape [J]. p is two-sided, against 0."""

    estimate: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    p_value: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.estimate)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One linear combination of coefficients."""

    estimate: float
    standard_error: float
    degrees_of_freedom: float
    p_value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class JointTest:
    """An F test that several contrasts are all 0. NaN where there are too few clusters for so many contrasts."""

    statistic: float
    df1: float
    df2: float
    p_value: float


@dataclass(frozen=True, slots=True, eq=False)
class Robust:
    """A clustered fit with its covariance, and how a standard error becomes a p-value.

    | inference | covariance | single contrasts | joint test |
    |---|---|---|---|
    | cr1 | CR1 | t(G − 1) | F(q, G − 1) |
    | z | CR1 | normal | chi-square over q |
    | cr2 | CR2 | t with Satterthwaite's degrees of freedom | AHZ, Hotelling's F |
    | cr3 | CR3 (jackknife) | t(G − 1) | F(q, G − 1) |
    | wild | CR1 | wild cluster bootstrap | as cr2 |
    | two-way | sets and segments | t(min G − 1) | F(q, min G − 1) |
    """

    inference: str
    clustered: Clustered
    covariance: Floats
    clusters: int
    seed: int
    draws: int

    def contrasts(self, weights: ArrayLike, level: float = 0.95) -> Contrasts:
        """Estimate and judge each row of weights[J, K]."""
        require_level(level)
        rows = np.atleast_2d(np.asarray(weights, np.float64))
        estimate = rows @ self.clustered.coefficients
        error = self.standard_errors(rows)
        freedom = self.degrees_of_freedom(rows)
        if self.inference == "wild":
            tests = self._wild(rows, level=level)
            p, low, high = (np.array([getattr(t, name) for t in tests]) for name in ("p_value", "low", "high"))
            return Contrasts(estimate, error, freedom, p, low, high)
        half = t_quantile((1 + level) / 2, freedom) * error
        p = t_two_sided(t_ratio(estimate, error), freedom)
        return Contrasts(estimate, error, freedom, p, estimate - half, estimate + half)

    def contrast(self, weights: ArrayLike, level: float = 0.95) -> Contrast:
        """Estimate and judge one linear combination weights[K]."""
        one = self.contrasts(weights, level)
        return Contrast(*(float(getattr(one, name)[0]) for name in Contrast.__slots__))

    def tails(self, weights: ArrayLike, null: float) -> tuple[Floats, Floats]:
        """One-sided p-values [J], [J] against each contrast being less than the null, and more than it."""
        rows = np.atleast_2d(np.asarray(weights, np.float64))
        if self.inference == "wild":
            tests = self._wild(rows, null=null)
            return np.array([t.p_below for t in tests]), np.array([t.p_above for t in tests])
        ratio = t_ratio(rows @ self.clustered.coefficients - null, self.standard_errors(rows))
        freedom = self.degrees_of_freedom(rows)
        return t_below(ratio, freedom), t_below(-ratio, freedom)

    def joint(self, weights: ArrayLike) -> JointTest:
        """Test that all rows of weights[q, K] are 0."""
        rows = np.atleast_2d(np.asarray(weights, np.float64))
        q = len(rows)
        covariance = cr2(self.clustered) if self.inference == "wild" else self.covariance
        wald = _wald(rows @ self.clustered.coefficients, rows @ covariance @ rows.T)
        if self.clusters - 1 < q or np.isnan(wald):
            return JointTest(np.nan, q, np.nan, np.nan)
        if self.inference in ("cr2", "wild"):
            eta = hotelling(self.clustered, rows)
            if eta <= q - 1:
                return JointTest(np.nan, q, np.nan, np.nan)
            statistic, df2 = wald * (eta - q + 1) / (eta * q), eta - q + 1
        else:
            statistic, df2 = wald / q, np.inf if self.inference == "z" else self.clusters - 1.0
        return JointTest(statistic, q, df2, f_above(statistic, q, df2))

    def _wild(self, rows: Floats, *, null: float = 0.0, level: float = 0.95) -> list[WildTest]:
        # The same samples for every contrast.
        rng, fit, draws = np.random.default_rng, self.clustered, self.draws
        return [wild_cluster(fit, row, rng=rng(self.seed), null=null, draws=draws, level=level) for row in rows]

    def standard_errors(self, rows: Floats) -> Floats:
        """Of each row of weights[J, K]."""
        errors: Floats = np.sqrt(np.maximum(((rows @ self.covariance) * rows).sum(1), 0))
        return errors

    def degrees_of_freedom(self, rows: Floats) -> Floats:
        """Of the t distribution that each row of weights[J, K] is referred to."""
        if self.inference == "cr2":
            return satterthwaite(self.clustered, rows)
        return np.full(len(rows), np.inf if self.inference == "z" else self.clusters - 1.0)


def robust(
    fit: LeastSquares,
    sets: ArrayLike | Groups,
    segments: ArrayLike | Groups | None = None,
    *,
    inference: str = "auto",
    rng: np.random.Generator | None = None,
    draws: int = 9999,
) -> Robust:
    """Cluster a fit by set, and by segment too where "two-way" is asked for or "auto" finds it needed.

    "auto" is "two-way" where some segment occurs in more than one set, "cr1" from 40 sets on, and "cr2" below. `rng`
    is only drawn from by "wild" (a generator seeded with 0 if none is given).
    """
    if inference not in INFERENCES:
        raise StatisticsError(f"inference must be one of {', '.join(map(repr, INFERENCES))}, got {inference!r}.")
    groups = group(sets)
    require_clusters(groups)
    others = None if segments is None else group(segments)
    chosen = inference
    if inference == "auto":
        few = "cr1" if groups.count >= ENOUGH_CLUSTERS else "cr2"
        chosen = "two-way" if others is not None and shared(groups, others) else few
    clustered = cluster(fit, groups, leverages=chosen in ("cr2", "cr3", "wild"))
    clusters = groups.count
    if chosen == "two-way":
        if others is None:
            raise StatisticsError("two-way inference clusters by segment too: give segments.")
        require_clusters(others, "segment")
        covariance, clusters = two_way(fit, groups, others), min(groups.count, others.count)
    else:
        covariance = {"cr2": cr2, "cr3": cr3}.get(chosen, cr1)(clustered)
    seed = int((rng or np.random.default_rng(0)).integers(2**63)) if chosen == "wild" else 0
    return Robust(chosen, clustered, covariance, clusters, seed, draws)


def shared(sets: Groups, segments: Groups) -> bool:
    """Whether some segment occurs in more than one set."""
    first = np.empty(segments.count, np.int64)
    first[segments.codes] = sets.codes
    return bool((first[segments.codes] != sets.codes).any())


def _wald(estimate: Floats, covariance: Floats) -> float:
    """b'V⁻¹b; NaN where V has no inverse."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    if not (scale > 0).all():
        return np.nan
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] <= 1e-12 * values[-1]:
        return np.nan
    return float((((vectors.T @ (estimate / scale)) ** 2) / values).sum())
