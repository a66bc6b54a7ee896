"""`Robust`: a clustered fit, its covariance, and the contrasts and tests drawn from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, Groups, clusters_of, crossed
from fairspan.stats.distributions import f_above, t_below, t_ratio
from fairspan.stats.intervals import Intervals, t_intervals
from fairspan.stats.least_squares import (
    Clustered,
    LeastSquares,
    cluster,
    cr1,
    cr2,
    fit_cells,
    hotelling,
    two_way,
)

INFERENCES = ("auto", "cr1", "z", "cr2", "two-way")
NOISE = 16 * float(np.finfo(np.float32).eps)
"""Cosines of float32 vectors differ by less from rounding alone: then a difference is 0."""
# From this many clusters on, CR1 with t(G − 1) is accurate.
ENOUGH_CLUSTERS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Robust:
    """A clustered fit with its covariance, and how a standard error becomes a p-value.

    | inference | covariance | single contrasts | joint test |
    |---|---|---|---|
    | cr1 | CR1 | t(G − 1) | F(q, G − 1) |
    | z | CR1 | normal | chi-square over q |
    | cr2 | CR2 | t with Satterthwaite's degrees of freedom | AHZ, Hotelling's F |
    | two-way | sets and segments | t(min G − 1) | F(q, min G − 1) |
    """

    inference: str
    clustered: Clustered
    covariance: Floats
    clusters: int

    def contrasts(self, weights: Floats) -> Intervals:
        """The interval of each row of weights[J, K] on the coefficients."""
        freedom = self.degrees_of_freedom(weights)
        return t_intervals(self.estimates(weights), self._errors(weights), freedom)

    def estimates(self, weights: Floats) -> Floats:
        """Each row of weights[J, K] on the coefficients; 0 if it is within rounding error."""
        values = weights @ self.clustered.coefficients
        return np.where(np.abs(values) <= NOISE, 0.0, values)

    def tails(self, weights: Floats, null: float) -> tuple[Floats, Floats]:
        """One-sided p-values [J], [J]: each contrast is below the null, and above it."""
        ratio = t_ratio(self.estimates(weights) - null, self._errors(weights))
        freedom = self.degrees_of_freedom(weights)
        return t_below(ratio, freedom), t_below(-ratio, freedom)

    def joint(self, weights: Floats) -> float:
        """The p-value of the F test that all rows of weights[q, K] are 0; NaN if not testable."""
        q = len(weights)
        wald = _wald(self.estimates(weights), weights @ self.covariance @ weights.T)
        freedom = self._freedom
        if self.inference == "cr2":
            freedom = hotelling(self.clustered, weights) - q + 1
        if q >= self.clusters or np.isnan(wald) or freedom <= 0:
            return np.nan
        scale = freedom / (freedom + q - 1) if self.inference == "cr2" else 1
        return f_above(wald / q * scale, q, freedom)

    def degrees_of_freedom(self, rows: Floats) -> Floats:
        """[J], of the t distribution of each row of weights[J, K]."""
        if self.inference == "cr2":
            return np.array([hotelling(self.clustered, row[None]) for row in rows])
        return np.full(len(rows), self._freedom)

    @property
    def _freedom(self) -> float:
        """Degrees of freedom of every contrast, except with CR2."""
        return np.inf if self.inference == "z" else self.clusters - 1.0

    def _errors(self, rows: Floats) -> Floats:
        return np.asarray(np.sqrt(np.maximum(((rows @ self.covariance) * rows).sum(1), 0)))


def robust(fit: LeastSquares, sets: Groups, segments: Groups, *, inference: str = "auto") -> Robust:
    """A fit clustered by set, and with "two-way" also by segment.

    "auto" is "two-way" if some segment occurs in more than one set, "cr1" from 40 sets on, and
    "cr2" below.
    """
    if inference == "auto":
        inference = "cr1" if sets.count >= ENOUGH_CLUSTERS else "cr2"
        if crossed(sets, segments).count > segments.count:
            inference = "two-way"
    clustered = cluster(fit, sets, leverages=inference == "cr2")
    if inference == "two-way":
        covariance = two_way(fit, sets, segments)
        return Robust(inference, clustered, covariance, min(sets.count, segments.count))
    covariance = cr2(clustered) if inference == "cr2" else cr1(clustered)
    return Robust(inference, clustered, covariance, sets.count)


def regress(
    values: Floats,
    cells: Groups,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    slope: Floats | None = None,
    *,
    inference: str = "auto",
) -> Robust:
    """A clustered fit of the means of cells of values[N] and, if given, the slope of a column [N].

    Segments [N] are needed only if they may occur in several sets.
    """
    groups = clusters_of(sets)
    others = groups if segments is None else clusters_of(segments, "segment")
    fitted, first = fit_cells(values, cells, slope, groups, others)
    return robust(fitted, groups.at(first), others.at(first), inference=inference)


def _wald(estimate: Floats, covariance: Floats) -> float:
    """b'V⁻¹b; NaN if V has no inverse."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    if not (scale > 0).all():
        return np.nan
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] <= 1e-12 * values[-1]:
        return np.nan
    return float((((vectors.T @ (estimate / scale)) ** 2) / values).sum())
