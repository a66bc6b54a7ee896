"""PEER against scipy, and the measures of a grid of languages."""

import numpy as np
import pytest
from scipy import stats

from fairspan.stats import language_grid as grid
from fairspan.stats.language_grid import peer


def test_the_test_is_that_of_kruskal_and_wallis() -> None:
    """Of ranks 1 to n, as scipy has it."""
    rng = np.random.default_rng(0)
    ranks, languages = rng.permutation(24) + 1.0, rng.integers(0, 4, 24)
    theirs = stats.kruskal(*(ranks[languages == number] for number in range(4))).pvalue
    assert peer(ranks, languages) == pytest.approx(theirs, rel=1e-12)


def test_its_ends() -> None:
    """One language is no unfairness, and one document per language says nothing."""
    assert peer(np.array([1.0, 5.0]), np.array([2, 2])) == 1.0
    for ranks in ([1, 2, 3, 4], [1, 50, 60, 2]):
        assert peer(np.array(ranks, float), np.arange(4)) == pytest.approx(stats.chi2.sf(3, 3))


def test_ranks_with_gaps_are_not_ranked_again() -> None:
    """12 places of 40 in 3 languages, as an analysis of variance: H = (n − 1) times the share
    between languages.
    """
    rng = np.random.default_rng(0)
    for _ in range(20):
        ranks, spoken = rng.permutation(40)[:12] + 1.0, np.r_[:3, rng.integers(0, 3, 9)]
        own = [ranks[spoken == one] for one in range(3)]
        between = sum(len(one) * (one.mean() - ranks.mean()) ** 2 for one in own)
        statistic = 11 * between / np.sum((ranks - ranks.mean()) ** 2)
        assert peer(ranks, spoken) == pytest.approx(stats.chi2.sf(statistic, 2), rel=1e-9)


def test_measures_of_a_grid_by_hand() -> None:
    """Queries in two languages down, documents in two languages across."""
    means = np.array([99.0, 0.8, 0.2, 0.5, 0.6])
    assert grid.within(means) == pytest.approx(0.7)
    assert grid.across(means) == pytest.approx(0.35)
    assert grid.of_documents(lambda own: own)(means) == pytest.approx([0.65, 0.4])
    # Documents in the second language come 0.6 sooner than those in the query's own, those in the
    # first 0.1 sooner.
    assert [float(grid.lag_to_own(k)(means)) for k in (0, 1, None)] == pytest.approx(
        [-0.1, -0.6, -0.35]
    )
    assert grid.lag_to(0, 1)(means) == pytest.approx(-0.25)
    shares = np.array([0.5, 0.9, 0.1, 0.5, 0.5])
    assert grid.share_distance(shares) == pytest.approx(0.2)
    stacked = np.stack([means, shares])
    assert grid.within(stacked) == pytest.approx([0.7, 0.7])
    assert grid.lag_to_own()(stacked).shape == (2,)
