"""Secondary measures and paired comparisons, by hand and in the long run."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.effects import gini, gini_test, psi, relative_difference, secondary_effects, spread
from fairspan.stats.paired import compare
from fairspan.stats.positions import position_effects
from tests.test_stats_rows import make_rows, uneven_rows

MEANS = np.array([0.857, 0.712, 0.700, 0.732])
EFFECTS = (0.0, -0.03, -0.05, -0.04)


def test_measures_by_hand() -> None:
    assert spread(MEANS) == pytest.approx(0.157)
    by_hand = sum(abs(a - b) for a in MEANS for b in MEANS) / (2 * 16 * MEANS.mean())
    assert gini(MEANS) == pytest.approx(by_hand)
    assert psi(MEANS) == pytest.approx(1 - 0.7 / 0.857)
    assert relative_difference(MEANS, 2) == pytest.approx((0.857 - 0.712) / 0.857)
    assert gini(np.full(4, 0.3)) == pytest.approx(0, abs=1e-15)


def test_measures_take_many_rows_of_means() -> None:
    table = np.stack([MEANS, MEANS[::-1]])
    for measure in (spread, gini, psi):
        np.testing.assert_allclose(measure(table), [measure(row) for row in table])


def test_shares_of_means_that_are_not_positive_are_nan() -> None:
    means = np.array([0.2, -0.1, 0.3])
    assert np.isnan(gini(means))
    assert np.isnan(psi(means))
    assert np.isnan(relative_difference(means, 2))
    assert spread(means) == pytest.approx(0.4)
    rows = make_rows(np.random.default_rng(0), 20, effects=(0.0, -0.7, 0.0, 0.0))
    found = secondary_effects(*rows.columns, rows.documents, rng=np.random.default_rng(0), draws=99)
    assert np.isnan(found.gini.estimate)
    assert "not positive" in found.psi.reason
    assert np.isnan(found.gini_p)
    assert np.isfinite(found.spread.low)
    with pytest.raises(StatisticsError, match="between 2 and 3, got 4"):
        relative_difference(means, 4)


def test_all_measures_together() -> None:
    rows = uneven_rows(np.random.default_rng(0), effects=EFFECTS)
    found = secondary_effects(*rows.columns, rng=np.random.default_rng(0), draws=499)
    np.testing.assert_allclose(found.means, position_effects(*rows.columns).means.estimate, rtol=1e-10)
    for name in ("spread", "gini", "psi", "first_second", "first_last"):
        interval = getattr(found, name)
        assert interval.low < interval.high
        assert interval.reason == ""
    assert found.first_last.estimate == pytest.approx(relative_difference(found.means, 4))
    assert np.isnan(found.gini_p)


@pytest.mark.slow
def test_relative_differences_are_covered() -> None:
    """300 samples of 60 sets: one share has a standard error of 0.013, and BCa is good to about 0.01 at 60 sets."""
    truth = 0.04 / 0.5
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(300):
        rows = make_rows(rng, 60, effects=EFFECTS)
        found = secondary_effects(*rows.columns, rng=rng, draws=399).first_last
        covered.append(found.low <= truth <= found.high)
    assert 0.9 < np.mean(covered) < 0.99


def test_gini_permutes_inside_documents() -> None:
    """Without position effects p-values are at least as large as uniform ones; with them it sees them."""
    rng = np.random.default_rng(1)
    fair, biased = make_rows(rng, 40, noise=0.0), make_rows(rng, 40, effects=EFFECTS)
    assert gini_test(biased.values, biased.positions, biased.documents, rng=rng) == pytest.approx(0.001)
    p_values = []
    for _ in range(100):
        fair = make_rows(rng, 10, noise=0.0)
        p_values.append(gini_test(fair.values, fair.positions, fair.documents, rng=rng, draws=99))
    assert np.mean(np.array(p_values) <= 0.1) <= 0.1
    with pytest.raises(StatisticsError, match="0 rows at position 1"):
        gini_test(biased.values[1:], biased.positions[1:], biased.documents[1:], rng=rng)


def test_a_paired_comparison_is_one_of_differences() -> None:
    rng = np.random.default_rng(5)
    rows = make_rows(rng, 30, effects=EFFECTS)
    second = rows.values + np.array([-0.03, 0.0, 0.015, 0.005])[rows.positions - 1] + rng.normal(0, 0.01, 480)
    found = compare(rows.values, second, rows.positions, rows.sets, rng=rng)
    own = position_effects(second - rows.values, rows.positions, rows.sets)
    np.testing.assert_allclose(found.means.estimate, own.means.estimate)
    np.testing.assert_allclose(found.effects.low, own.low[1:])
    assert found.joint == own.joint
    table = (second - rows.values).reshape(30, 4, 4).mean(1)
    gaps = table[:, 1:] - table[:, :1]
    np.testing.assert_allclose(found.effects.standard_error, gaps.std(0, ddof=1) / np.sqrt(30), rtol=1e-8)
    assert (found.effects.standard_error < found.first.standard_error[1:] / 2).all(), "pairing pays"
    change = spread(found.second.means.estimate) - spread(found.first.means.estimate)
    assert found.spread.estimate == pytest.approx(change)
    assert found.spread.low < change < found.spread.high < 0


def test_absolute_effects_mind_both_signs() -> None:
    """β3 turns from −0.05 to about +0.03: the absolute effect shrinks by 0.02, with the error of a sum."""
    rng = np.random.default_rng(5)
    rows = make_rows(rng, 50, effects=EFFECTS, noise=0.005)
    second = rows.values + np.array([0.0, -0.02, 0.08, 0.02])[rows.positions - 1] + rng.normal(0, 0.01, 800)
    found = compare(rows.values, second, rows.positions, rows.sets, rng=rng, draws=199)
    sizes = np.abs(found.second.estimate[1:]) - np.abs(found.first.estimate[1:])
    np.testing.assert_allclose(found.absolute.estimate, sizes, atol=1e-12)
    assert (found.absolute.low < sizes).all()
    assert (sizes < found.absolute.high).all()
    total = position_effects(second + rows.values, rows.positions, rows.sets)
    assert found.absolute.standard_error[1] == pytest.approx(total.standard_error[2])
