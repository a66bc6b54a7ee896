"""Both bootstraps against their definitions as loops, and against wildboottest and scipy."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

from fairspan.stats.arrays import group
from fairspan.stats.least_squares import Clustered, cluster, cr1, fit
from fairspan.stats.positions import spread
from fairspan.stats.resampling import position_sums, resample
from fairspan.stats.wild import WEBB, wild_samples
from tests.test_stats_rows import UNEVEN, Rows, dummies, make_rows, uneven_rows

EFFECTS = (0.0, -0.02, -0.03, -0.05)


def clustered_by_set(rows: Rows) -> Clustered:
    return cluster(fit(rows.values, dummies(rows.positions)), group(rows.sets))


def test_enumerated_samples_are_refits() -> None:
    """All 2^12 Rademacher samples, each fitted anew with the null imposed: the very same p-values."""
    rows = make_rows(np.random.default_rng(1), (*UNEVEN[:7], 1, 2, 3, 1, 2), n=3, effects=EFFECTS[:3])
    x, contrast, null, sets = dummies(rows.positions), np.array([0, 1.0, -1]), 0.01, group(rows.sets)
    m = np.linalg.inv(x.T @ x)
    free = m @ x.T @ rows.values
    restricted = free - m @ contrast * (contrast @ free - null) / (contrast @ m @ contrast)
    residuals = rows.values - x @ restricted

    def statistic(values: np.ndarray) -> float:
        clustered = cluster(fit(values, x), sets, leverages=False)
        return float((contrast @ clustered.coefficients - null) / np.sqrt(contrast @ cr1(clustered) @ contrast))

    observed = statistic(rows.values)
    drawn = np.array(
        [statistic(x @ restricted + np.array(signs)[rows.sets] * residuals) for signs in product([-1, 1], repeat=12)]
    )
    samples = wild_samples(cluster(fit(rows.values, x), sets), contrast, np.random.default_rng(0))
    below, above, both = samples.tails(null)
    # The observed sample and its mirror image are among them, exact ties up to rounding.
    assert both == np.mean(np.abs(drawn) >= abs(observed) - 1e-9)
    assert above == np.mean(drawn >= observed - 1e-9)
    assert below == np.mean(drawn <= observed + 1e-9)


@pytest.mark.parametrize(("documents", "weights"), [(UNEVEN, "webb"), (14, "rademacher")])
@pytest.mark.parametrize("position", [2, 4])
@pytest.mark.slow
def test_p_values_are_wildboottests(documents: int | tuple[int, ...], weights: str, position: int) -> None:
    """Shares of 9999 draws each: their difference has a standard error of √(2p(1−p)/9999), and four are allowed."""
    rows = make_rows(np.random.default_rng(8), documents, effects=EFFECTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wildboottest = pytest.importorskip("wildboottest.wildboottest").wildboottest
        api = pytest.importorskip("statsmodels.api")
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(dummies(rows.positions), columns=["p1", "p2", "p3", "p4"])
        theirs = wildboottest(
            api.OLS(pandas.Series(rows.values), table),
            param=f"p{position}",
            cluster=pandas.Series(rows.sets),
            B=9999,
            weights_type=weights,
            seed=12,
            parallel=False,
            show=False,
        )
    samples = wild_samples(clustered_by_set(rows), np.eye(4)[position - 1], np.random.default_rng(1))
    p = float(theirs["p-value"].iloc[0])
    assert 0.001 < p < 0.999, "a share that can tell"
    assert samples.tails(0.0)[2] == pytest.approx(p, abs=4 * np.sqrt(2 * p * (1 - p) / 9999) + 1e-4)


def test_the_interval_inverts_the_test() -> None:
    """Just inside its ends the null is not rejected, just outside it is, on the same draws."""
    clustered = clustered_by_set(uneven_rows(np.random.default_rng(8), effects=EFFECTS))
    contrast = np.eye(4)[3]
    samples = wild_samples(clustered, contrast, np.random.default_rng(1))
    low, high = samples.interval(0.9)

    def p(null: float) -> float:
        return samples.tails(null)[2]

    step = 1e-5 * (high - low)
    assert p(low - step) <= 0.1 < p(low + step)
    assert p(high + step) <= 0.1 < p(high - step)


def test_weights_have_mean_zero_and_variance_one() -> None:
    assert WEBB.mean() == pytest.approx(0)
    assert (WEBB**2).mean() == pytest.approx(1)


def test_resampled_intervals_are_scipys() -> None:
    """Both with 9999 draws of 25 sets. A 2.5 % quantile has a standard error of √(.025·.975/9999)/density, about
    0.027 standard deviations of the statistic for a normal; BCa moves its ranks by a random amount too, so 0.15.
    """
    stats = pytest.importorskip("scipy.stats")
    rows = make_rows(np.random.default_rng(6), 25, effects=EFFECTS)
    sums = position_sums(*rows.columns)
    found = resample(sums, rng=np.random.default_rng(0), draws=9999).interval(spread)
    means = sums.sums / sums.counts

    def of_sets(numbers: np.ndarray, axis: int = -1) -> np.ndarray:
        return spread(means[numbers].mean(-2))

    reference = stats.bootstrap((np.arange(25),), of_sets, n_resamples=9999, method="BCa", vectorized=True, rng=1)
    close = 0.15 * reference.standard_error
    assert found.low == pytest.approx(reference.confidence_interval.low, abs=close)
    assert found.high == pytest.approx(reference.confidence_interval.high, abs=close)
    assert found.estimate == pytest.approx(spread(means.mean(0)))


def test_positions_missing_from_most_sets_leave_no_interval() -> None:
    """Position 4 in one set of nine: about a third of the samples lack it."""
    rows = make_rows(np.random.default_rng(6), 9)
    kept = rows.keep(np.flatnonzero((rows.positions < 4) | (rows.sets == 0)))
    found = resample(position_sums(*kept.columns), rng=np.random.default_rng(0)).interval(spread)
    assert np.isfinite(found.estimate)
    assert np.isnan(found.low)
    assert "one in ten" in found.reason
