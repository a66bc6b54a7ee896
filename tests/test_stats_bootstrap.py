"""Resampled intervals against scipy."""

import numpy as np
import pytest
from numpy.random import default_rng

from fairspan.stats.positions import spread
from fairspan.stats.resampling import position_sums, resample
from tests.test_stats_rows import make_rows

EFFECTS = (0.0, -0.02, -0.03, -0.05)


def test_resampled_intervals_are_scipys() -> None:
    """Both with 9999 draws of 25 sets. A 2.5 % quantile has a standard error of
    √(.025·.975/9999)/density, about 0.027 standard deviations of the statistic for a normal; BCa
    moves its ranks by a random amount too, so 0.15.
    """
    stats = pytest.importorskip("scipy.stats")
    rows = make_rows(default_rng(6), 25, effects=EFFECTS)
    sums = position_sums(*rows.columns)
    found = resample(sums, rng=default_rng(0), draws=9999).interval(spread)
    means = sums.sums / sums.counts

    def of_sets(numbers: np.ndarray, axis: int = -1) -> np.ndarray:
        return spread(means[numbers].mean(-2))

    reference = stats.bootstrap(
        (np.arange(25),), of_sets, n_resamples=9999, method="BCa", vectorized=True, rng=1
    )
    close = 0.15 * reference.standard_error
    assert found.low == pytest.approx(reference.confidence_interval.low, abs=close)
    assert found.high == pytest.approx(reference.confidence_interval.high, abs=close)
    assert found.estimate == pytest.approx(spread(means.mean(0)))


def test_positions_missing_from_most_sets_leave_no_interval() -> None:
    """Position 4 in one set of nine: about a third of the samples lack it."""
    rows = make_rows(default_rng(6), 9)
    kept = rows.keep(np.flatnonzero((rows.positions < 4) | (rows.sets == 0)))
    found = resample(position_sums(*kept.columns), rng=default_rng(0)).interval(spread)
    assert np.isfinite(found.estimate)
    assert np.isnan(found.low)
