"""Secondary measures and paired comparisons, by hand and in the long run."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.stats.positions import (
    _limit_means,
    _permuted_means,
    absolute_change,
    difference_weights,
    gini,
    gini_test,
    position_effects,
    psi,
    relative_difference,
    spread,
    spread_change,
    unevenness,
)
from tests.test_stats_rows import make_rows

MEANS = np.array([0.857, 0.712, 0.700, 0.732])
EFFECTS = (0.0, -0.03, -0.05, -0.04)


def test_measures_by_hand() -> None:
    assert spread(MEANS) == pytest.approx(0.157)
    by_hand = sum(abs(a - b) for a in MEANS for b in MEANS) / (2 * 16 * MEANS.mean())
    assert gini(MEANS) == pytest.approx(by_hand)
    assert psi(MEANS) == pytest.approx(1 - 0.7 / 0.857)
    assert relative_difference(MEANS, 2) == pytest.approx((0.857 - 0.712) / 0.857)
    assert gini(np.full(4, 0.3)) == pytest.approx(0, abs=1e-15)


def test_shares_of_means_that_are_not_positive_are_nan() -> None:
    means = np.array([0.2, -0.1, 0.3])
    assert np.isnan(gini(means))
    assert np.isnan(psi(means))
    assert np.isnan(relative_difference(means, 2))
    assert spread(means) == pytest.approx(0.4)
    rows = make_rows(np.random.default_rng(0), 20, effects=(0.0, -0.7, 0.0, 0.0))
    found = unevenness(*rows.columns, rng=np.random.default_rng(0), draws=99)
    assert np.isnan(found["gini"].estimate)
    assert "not positive" in found["psi"].reason
    assert np.isfinite(found["spread"].low)
    assert np.isnan(gini_test(rows.values, rows.positions, rows.documents, rng=np.random.default_rng(0), draws=99))


def test_all_measures_together() -> None:
    rows = make_rows(np.random.default_rng(0), effects=EFFECTS)
    found = unevenness(*rows.columns, rng=np.random.default_rng(0), draws=499)
    means = position_effects(*rows.columns).means.estimate
    for name in ("spread", "gini", "psi", "first_second", "first_last"):
        interval = found[name]
        assert interval.low < interval.high
        assert interval.reason == ""
    assert found["first_last"].estimate == pytest.approx(relative_difference(means, 4))


def test_gini_permutes_inside_documents() -> None:
    """Without position effects p-values are at least as large as uniform ones; with them it sees them."""
    rng = np.random.default_rng(1)
    fair, biased = make_rows(rng, 40, noise=0.0), make_rows(rng, 40, effects=EFFECTS)
    assert gini_test(biased.values, biased.positions, biased.documents, rng=rng, draws=999) == pytest.approx(0.001)
    p_values = []
    for _ in range(100):
        fair = make_rows(rng, 10, noise=0.0)
        p_values.append(gini_test(fair.values, fair.positions, fair.documents, rng=rng, draws=99))
    assert np.mean(np.array(p_values) <= 0.1) <= 0.1


def test_a_paired_comparison_is_one_of_differences() -> None:
    rng = np.random.default_rng(5)
    rows = make_rows(rng, 30, effects=EFFECTS)
    second = rows.values + np.array([-0.03, 0.0, 0.015, 0.005])[rows.positions - 1] + rng.normal(0, 0.01, 480)
    first, other, change = (
        position_effects(values, rows.positions, rows.sets) for values in (rows.values, second, second - rows.values)
    )
    table = (second - rows.values).reshape(30, 4, 4).mean(1)
    gaps = table[:, 1:] - table[:, :1]
    error = change.standard_error[1:]
    np.testing.assert_allclose(error, gaps.std(0, ddof=1) / np.sqrt(30), rtol=1e-8)
    assert (error < first.standard_error[1:] / 2).all(), "pairing pays"
    found = spread_change(rows.values, second, rows.positions, rows.sets, rng=rng)
    assert found.estimate == pytest.approx(spread(other.means.estimate) - spread(first.means.estimate))
    assert found.low < found.estimate < found.high < 0


def test_absolute_effects_mind_both_signs() -> None:
    """β3 turns from −0.05 to about +0.03: the absolute effect shrinks by 0.02, with the error of a sum."""
    rng = np.random.default_rng(5)
    rows = make_rows(rng, 50, effects=EFFECTS, noise=0.005)
    second = rows.values + np.array([0.0, -0.02, 0.08, 0.02])[rows.positions - 1] + rng.normal(0, 0.01, 800)
    before, after, change, total = (
        position_effects(values, rows.positions, rows.sets).robust.contrasts(difference_weights(4))
        for values in (rows.values, second, second - rows.values, second + rows.values)
    )
    found = absolute_change(before.estimate, after.estimate, change, total)
    sizes = np.abs(after.estimate) - np.abs(before.estimate)
    np.testing.assert_allclose(found.estimate, sizes, atol=1e-12)
    assert (found.low < sizes).all()
    assert (sizes < found.high).all()
    assert found.standard_error[1] == total.standard_error[1]


def test_the_normal_limit_has_the_moments_of_permutations() -> None:
    """Covariances of 20,000 draws of both, on rows of unequal variance and skew."""
    rng = np.random.default_rng(0)
    table = 0.5 + rng.exponential(0.1, (60, 4)) * rng.uniform(0.2, 2, (60, 1))
    drawn, limit = (draw(table, np.random.default_rng(1), 20_000) for draw in (_permuted_means, _limit_means))
    np.testing.assert_allclose(limit.mean(0), drawn.mean(0), atol=4 * drawn.std() / 20_000**0.5)
    # The standard error of a variance over m draws is a share √(2/m) = 1 % of it.
    np.testing.assert_allclose(np.cov(limit.T), np.cov(drawn.T), atol=0.05 * np.cov(drawn.T).max())
