"""Secondary measures and paired comparisons, by hand and in the long run."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats

from fairspan.stats.equivalence import judge_loss
from fairspan.stats.intervals import largest_growth
from fairspan.stats.positions import (
    _limit_means,
    _permuted_means,
    difference_weights,
    gini,
    gini_test,
    position_effects,
    relative_difference,
    size_changes,
    spread,
    spread_change,
    unevenness,
)
from fairspan.stats.resampling import change_of, position_sums, resample
from tests.test_stats_rows import make_rows

MEANS = np.array([0.857, 0.712, 0.700, 0.732])
EFFECTS = (0.0, -0.03, -0.05, -0.04)


def test_measures_by_hand() -> None:
    assert spread(MEANS) == pytest.approx(0.157)
    by_hand = sum(abs(a - b) for a in MEANS for b in MEANS) / (2 * 16 * MEANS.mean())
    assert gini(MEANS) == pytest.approx(by_hand)
    assert relative_difference(MEANS, 2) == pytest.approx((0.857 - 0.712) / 0.857)
    assert gini(np.full(4, 0.3)) == pytest.approx(0, abs=1e-15)


def test_shares_of_means_that_are_not_positive_are_nan() -> None:
    rows = make_rows(default_rng(0), 20, effects=(0.0, -0.7, 0.0, 0.0))
    found = unevenness(*rows.columns, rng=default_rng(0), draws=99)
    for name in ("gini", "psi", "first_second", "first_last"):
        assert np.isnan(found[name].estimate)
    assert np.isfinite(found["spread"].low)
    assert np.isnan(
        gini_test(rows.values, rows.positions, rows.documents, rng=default_rng(0), draws=99)
    )


def test_all_measures_together() -> None:
    rows = make_rows(default_rng(0), effects=EFFECTS)
    found = unevenness(*rows.columns, rng=default_rng(0), draws=499)
    means = position_effects(*rows.columns).means.estimate
    for name in ("spread", "gini", "psi", "first_second", "first_last"):
        interval = found[name]
        assert interval.low < interval.high
    assert found["psi"].estimate == pytest.approx(1 - means.min() / means.max())
    assert found["first_last"].estimate == pytest.approx(relative_difference(means, 4))


def test_gini_permutes_inside_documents() -> None:
    """Without position effects p-values are at least as large as uniform ones; with them it sees
    them.
    """
    rng = default_rng(1)
    fair, biased = make_rows(rng, 40, noise=0.0), make_rows(rng, 40, effects=EFFECTS)
    assert gini_test(
        biased.values, biased.positions, biased.documents, rng=rng, draws=999
    ) == pytest.approx(0.001)
    p_values = []
    for _ in range(100):
        fair = make_rows(rng, 10, noise=0.0)
        p_values.append(gini_test(fair.values, fair.positions, fair.documents, rng=rng, draws=99))
    assert np.mean(np.array(p_values) <= 0.1) <= 0.1


def test_a_paired_comparison_is_one_of_differences() -> None:
    rng = default_rng(5)
    rows = make_rows(rng, 30, effects=EFFECTS)
    second = (
        rows.values
        + np.array([-0.03, 0.0, 0.015, 0.005])[rows.positions - 1]
        + rng.normal(0, 0.01, 480)
    )
    first, other, change = (
        position_effects(values, rows.positions, rows.sets)
        for values in (rows.values, second, second - rows.values)
    )
    table = (second - rows.values).reshape(30, 4, 4).mean(1)
    gaps = table[:, 1:] - table[:, :1]
    error = change.standard_error[1:]
    assert_allclose(error, gaps.std(0, ddof=1) / np.sqrt(30), rtol=1e-8)
    assert (error < first.standard_error[1:] / 2).all(), "pairing pays"
    found = spread_change(rows.values, second, rows.positions, rows.sets, families=3)
    assert found.estimate == pytest.approx(
        spread(other.means.estimate) - spread(first.means.estimate)
    )
    # The limits by scipy's t tests: 12 differences in both directions.
    before, after = (values.reshape(30, 4, 4).mean(1) for values in (rows.values, second))
    highs, lows = [], []
    for i, j in (pairs := list(permutations(range(4), 2))):
        own = after[:, i] - after[:, j]
        tests = {
            pair: stats.ttest_1samp(own - before[:, pair[0]] + before[:, pair[1]], 0)
            for pair in pairs
        }
        ends = [tests.pop((i, j)).confidence_interval(1 - 2 * 0.025 / 2)]
        ends += [
            one.confidence_interval(1 - 2 * 0.025 / 24)
            for one in (stats.ttest_1samp(own, 0), *tests.values())
        ]
        highs.append(min(one.high for one in ends))
        gaps = [own - before[:, k] + before[:, m] for k, m in pairs]
        lows.append(
            min(
                stats.ttest_1samp(gap, 0).confidence_interval(1 - 2 * 0.025 / 12 / 3).low
                for gap in gaps
            )
        )
    assert (found.low, found.high) == pytest.approx((max(lows), max(highs)), abs=1e-10)
    assert found.high < 0


def test_sizes_mind_both_signs() -> None:
    """β3 turns from −0.05 to about +0.03: its size shrinks by 0.02.

    Of two positions, the size is the spread.
    """
    rng = default_rng(5)
    rows = make_rows(rng, 50, effects=EFFECTS, noise=0.005)
    second = (
        rows.values
        + np.array([0.0, -0.02, 0.08, 0.02])[rows.positions - 1]
        + rng.normal(0, 0.01, 800)
    )
    before, after, change = (
        position_effects(values, rows.positions, rows.sets).robust.contrasts(difference_weights(4))
        for values in (rows.values, second, second - rows.values)
    )
    found = size_changes(before, after, change)
    assert_allclose(
        [one.estimate for one in found], np.abs(after.estimate) - np.abs(before.estimate)
    )
    for place, one in enumerate(found):
        kept = np.isin(rows.positions, [1, place + 2])
        columns = (rows.values[kept], second[kept], 1 + (rows.positions[kept] > 1), rows.sets[kept])
        alone = spread_change(*columns)
        # CR1's factor (N − 1)/(N − K) is that of 800 rows and 4 means, or of twice 400 and 4.
        assert (one.low, one.estimate, one.high) == pytest.approx(
            (alone.low, alone.estimate, alone.high), abs=1e-5
        )


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_growth_is_rarely_shown_where_there_is_none(n: int) -> None:
    """Means that do not differ, known well before and badly after: the largest of several
    differences rises above 0 by chance. 2.5 % of 2,000 have a standard error of 0.35 %."""
    rng = default_rng(n)
    pairs = list(permutations(range(n), 2))
    weights = np.array([np.eye(n)[i] - np.eye(n)[j] for i, j in pairs])
    after = weights @ weights.T
    covariances = (1e-6 * after, after, 0 * after)
    shown = [
        largest_growth(
            (1e-3 * weights @ rng.normal(size=n), weights @ rng.normal(size=n)), covariances, np.inf
        ).low
        > 0
        for _ in range(2000)
    ]
    assert np.mean(shown) <= 0.025 + 3 * 0.0035


LOSSES = {
    "no spread in either": ((0, 0, 0, 0), (0, 0, 0, 0)),
    ".03 in other places": ((0, -0.015, -0.015, -0.03), (0, 0, -0.03, -0.03)),
    "a loss of .02": ((0, 0, 0, 0), (0, 0.01, 0, -0.01)),
    "a loss of .025": ((0, 0, 0, 0), (0, 0.0125, 0, -0.0125)),
    ".10 to .125": ((0, -0.05, -0.08, -0.1), (0, -0.05, -0.08, -0.125)),
    "a loss of .06": ((0, 0, 0, 0), (0, 0, 0, -0.06)),
    "a loss of .08": ((0, 0, 0, 0), (0, 0, 0, -0.08)),
    ".10 stays": ((0, -0.05, -0.08, -0.1), (0, -0.05, -0.08, -0.1)),
    ".09 to .03": ((0, 0, -0.05, -0.09), (0, 0.02, 0.01, -0.01)),
}


@pytest.mark.slow
def test_errors_of_a_gate_are_rare() -> None:
    """40 sets, 4 positions, margin .02: how often each verdict is given, and by a BCa interval of
    max − min.

    A wrong verdict has 2.5 %; a share of that size over 500 runs has a standard error of 0.7 %.
    """
    rng, runs = default_rng(0), 500
    positions, sets = np.tile(np.arange(1, 5), 40), np.repeat(np.arange(40), 4)
    asked = [("worse", 0), ("not worse", 0), ("fairer", 0), ("worse", 1), ("not worse", 1)]
    print(f"\n{'truth':22}deviation  worse  not worse  fairer | BCa: worse  not worse (%)")
    for (name, truths), (shared, own) in product(LOSSES.items(), ((0.036, 0.018), (0.0, 0.02))):
        kinds = []
        for _ in range(runs):
            common = rng.normal(0, shared, (40, 4))
            one, two = (
                (m + common + rng.normal(0, own, (40, 4))).ravel() for m in map(np.array, truths)
            )
            found = spread_change(one, two, positions, sets)
            sums = position_sums(one, positions, sets).beside(position_sums(two, positions, sets))
            bca = resample(sums, rng=rng, draws=199).interval(change_of(spread))
            kinds.append(
                [
                    judge_loss(one.low, one.high, 0.02, gain).replace("slightly", "not")
                    for one, gain in ((found, "fairer"), (bca, "not worse"))
                ]
            )
        told = [100 * np.mean([one[way] == kind for one in kinds]) for kind, way in asked]
        print(
            "{:22}{:9.2f}{:7.1f}{:11.1f}{:8.1f} |{:11.1f}{:11.1f}".format(
                name, np.hypot(shared, own), *told
            )
        )
        worse, not_worse, fairer, *_ = told
        lost = spread(np.array(truths[1])) - spread(np.array(truths[0]))
        assert lost > 0.02 or worse <= 4.6
        assert lost < 0.02 - 1e-12 or not_worse + fairer <= 4.6
        assert lost >= 0 or fairer >= 90
        assert lost < 0.07 or worse >= 80


def test_the_normal_limit_has_the_moments_of_permutations() -> None:
    """Covariances of 20,000 draws of both, on rows of unequal variance and skew."""
    rng = default_rng(0)
    table = 0.5 + rng.exponential(0.1, (60, 4)) * rng.uniform(0.2, 2, (60, 1))
    drawn, limit = (draw(table, default_rng(1), 20_000) for draw in (_permuted_means, _limit_means))
    assert_allclose(limit.mean(0), drawn.mean(0), atol=4 * drawn.std() / 20_000**0.5)
    # The standard error of a variance over m draws is a share √(2/m) = 1 % of it.
    assert_allclose(np.cov(limit.T), np.cov(drawn.T), atol=0.05 * np.cov(drawn.T).max())
