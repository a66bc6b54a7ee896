"""Clustered intervals of many means at once, against least squares on a constant."""

from __future__ import annotations

import numpy as np

from fairspan.stats.arrays import group
from fairspan.stats.contrasts import robust
from fairspan.stats.distributions import half_widths
from fairspan.stats.ols import fit


def test_each_mean_has_the_interval_of_its_own_fit() -> None:
    """Three columns in clusters of unequal size; CR1 with t(G − 1) by the regression."""
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(7), [3, 5, 2, 8, 4, 4, 6])
    table = rng.normal(0.4, 0.1, (len(clusters), 3)) + rng.normal(0, 0.2, (7, 3))[clusters]
    gaps = table - table.mean(0)
    squares = (group(clusters).sums(gaps) ** 2).sum(0)
    found = half_widths(squares, [len(table)] * 3, [7] * 3, 0.9)
    for number, values in enumerate(table.T):
        fitted = robust(fit(values, np.ones((len(values), 1))), clusters, inference="cr1").contrasts(np.eye(1), 0.9)
        np.testing.assert_allclose(found[number], fitted.high[0] - fitted.estimate[0], rtol=1e-10)


def test_one_cluster_has_no_interval() -> None:
    assert np.isnan(half_widths([0.1], [5], [1])).all()
