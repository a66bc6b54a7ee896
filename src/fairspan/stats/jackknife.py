"""Means and slopes with clustered errors: `Fit`, by leaving out one cluster at a time.

Rows enter as sums by cluster and cell. What is left without a cluster is the sums of all minus its
own, so that everything is estimated again for every cluster without going over the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Flags, Floats, Groups, clusters_of, crossed, share
from fairspan.stats.estimates import Estimates, t_estimates

NOISE = 16 * float(np.finfo(np.float32).eps)
"""Cosines of float32 vectors differ by less from rounding alone: then a difference is 0."""
Statistic = Callable[[Floats], Floats]
"""Maps coefficients [..., K] to [...], with NaN where it is not defined."""


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Coefficients [G, K] without each cluster, and which clusters have rows for them [G, K]."""

    coefficients: Floats
    present: Flags

    def variance(self, statistic: Statistic, estimate: float, columns: Sequence[int]) -> float:
        """The jackknife variance (CR3) of a statistic of some columns.

        NaN if it has no value without one of the clusters.
        """
        present = self.present[:, columns].any(1)
        without = statistic(self.coefficients[present][:, columns])
        squares = (without - estimate) ** 2
        return float((len(without) - 1) / max(1, len(without)) * squares.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Coefficients [K], and what they are without each cluster.

    Inferences, where G counts the clusters that have rows for a coefficient:

    - jackknife: sets are left out. The variance is CR3, the distribution t(G − 1).
    - two-way: sets, segments, and the rows that share both. The variance is the largest of V_a, V_b
      and V_a + V_b − V_ab, which alone may be negative (MacKinnon, Nielsen and Webb 2024), the
      distribution t(min G − 1).
    - z: sets are left out to first order. The variance is CR1, the distribution normal.
    """

    inference: str
    coefficients: Floats
    ways: tuple[LeftOut, ...]

    @property
    def sets(self) -> int:
        return len(self.ways[0].present)

    def contrasts(self, weights: Floats) -> Estimates[Floats]:
        """Each row of weights[J, K] on the coefficients; 0 if it is within rounding error."""
        used = [np.flatnonzero(row).tolist() for row in weights]
        statistics = [
            partial(_weighted, weights=row[columns])
            for row, columns in zip(weights, used, strict=True)
        ]
        return self.measures(statistics, used)

    def measures(
        self, statistics: Sequence[Statistic], columns: Sequence[Sequence[int]]
    ) -> Estimates[Floats]:
        """J statistics, each of some of the coefficients."""
        pairs = list(zip(statistics, columns, strict=True))
        values = np.array([float(measure(self.coefficients[used])) for measure, used in pairs])
        estimates = np.where(np.abs(values) <= NOISE, 0.0, values)
        freedom = np.array([self._freedom(used) for used in columns])
        variances = [
            self._variance(*pair, estimate) for pair, estimate in zip(pairs, values, strict=True)
        ]
        errors = np.where(freedom > 0, np.sqrt(variances), np.nan)
        return t_estimates(estimates, errors, np.where(freedom > 0, freedom, np.nan))

    def _variance(self, statistic: Statistic, columns: Sequence[int], estimate: float) -> float:
        variances = [way.variance(statistic, estimate, columns) for way in self.ways]
        if len(variances) == 1:
            return variances[0]
        first, second, both = variances
        return float(np.max([first, second, first + second - both]))

    def _freedom(self, columns: Sequence[int]) -> float:
        """One less than the clusters of the column that has fewest."""
        if self.inference == "z":
            return np.inf
        return min(float(way.present[:, columns].sum(0).min()) for way in self.ways) - 1


def fit(
    values: ArrayLike,
    cells: Groups,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    slope: Floats | None = None,
    *,
    inference: str = "auto",
) -> Fit:
    """The means of cells of values[N], and the slope of a column [N] inside them, if it is passed.

    Inference is "jackknife", "two-way", "z" (see `Fit`), or "auto": "two-way" if some segment [N]
    occurs in more than one set, and "jackknife" otherwise.
    """
    clusters = clusters_of(sets)
    others = clusters if segments is None else clusters_of(segments, "segment")
    both = crossed(clusters, others)
    if inference == "auto":
        inference = "two-way" if both.count > others.count else "jackknife"
    labels = (clusters, others, both) if inference == "two-way" else (clusters,)
    outcome = np.asarray(values, np.float64)
    tables = [sums_by_cluster(outcome, cells, groups, slope) for groups in labels]
    whole = least_squares(tables[0].sum(0))
    leave_out = first_order if inference == "z" else without_each
    return Fit(inference, whole, tuple(leave_out(sums, whole) for sums in tables))


def sums_by_cluster(
    values: Floats, cells: Groups, clusters: Groups, slope: Floats | None = None
) -> Floats:
    """Sums [G, C, 2] of 1 and y over the rows of each cluster and cell.

    With a column x for a slope also of x, x² and xy: [G, C, 5].
    """
    columns = [np.ones(len(values)), values]
    if slope is not None:
        columns += [slope, slope * slope, slope * values]
    places = clusters.codes * cells.count + cells.codes
    shape = (clusters.count, cells.count)
    sums = [np.bincount(places, column, clusters.count * cells.count) for column in columns]
    return np.stack([column.reshape(shape) for column in sums], axis=-1)


def least_squares(sums: Floats) -> Floats:
    """Coefficients [..., C] from sums [..., C, 2]: the means of cells, NaN for an empty one.

    From sums [..., C, 5] each cell's value at x = 0, and last the slope inside cells: [..., C + 1].
    """
    counts, y, *others = np.moveaxis(sums, -1, 0)
    means = share(y, counts)
    if not others:
        return means
    x, xx, xy = others
    centers = np.nan_to_num(share(x, counts))
    slope = share((xy - centers * y).sum(-1), (xx - centers * x).sum(-1))[..., None]
    return np.concatenate([means - slope * centers, slope], axis=-1)


def without_each(sums: Floats, whole: Floats) -> LeftOut:
    """What is left of sums [G, C, 2 or 5] without each cluster."""
    coefficients = least_squares(sums.sum(0) - sums)
    present = np.ones(coefficients.shape, np.bool_)
    # Beside a slope, every cluster counts for every cell.
    if len(whole) == sums.shape[1]:
        present = sums[..., 0] > 0
    return LeftOut(coefficients, present)


def first_order(sums: Floats, whole: Floats) -> LeftOut:
    """The same to first order, scaled so that its jackknife variance is CR1.

    CR1 is the sandwich of cluster scores times G/(G − 1) · (N − 1)/(N − K), as in Stata and
    statsmodels.
    """
    total = sums.sum(0)
    counts = total[:, 0]
    cells = len(counts)
    residuals = sums[..., 1] - whole[:cells] * sums[..., 0]
    changes = residuals / counts
    if len(whole) > cells:
        x, xx, xy = np.moveaxis(sums[..., 2:], -1, 0)
        centers = total[:, 2] / counts
        residuals -= whole[-1] * x
        scores = xy - whole[:cells] * x - whole[-1] * xx - centers * residuals
        slopes = scores.sum(1, keepdims=True) / (total[:, 3] - centers * total[:, 2]).sum()
        changes = np.hstack([residuals / counts - centers * slopes, slopes])
    clusters = len(sums)
    rows = counts.sum()
    scale = clusters / (clusters - 1) * np.sqrt((rows - 1) / (rows - len(whole)))
    coefficients = whole - scale * changes
    return LeftOut(coefficients, np.ones(coefficients.shape, np.bool_))


def _weighted(coefficients: Floats, weights: Floats) -> Floats:
    return np.asarray(coefficients @ weights)
