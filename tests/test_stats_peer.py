"""PEER against scipy, and the measures of a grid of languages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fairspan.stats import language_grid as grid
from fairspan.stats.language_grid import equal_rank_p, peer


def test_the_test_is_that_of_kruskal_and_wallis() -> None:
    """Of ranks 1 to n, as scipy has it."""
    rng = np.random.default_rng(0)
    ranks, languages = rng.permutation(24) + 1.0, rng.integers(0, 4, 24)
    theirs = stats.kruskal(*(ranks[languages == number] for number in range(4))).pvalue
    assert equal_rank_p(ranks, languages) == pytest.approx(theirs, rel=1e-12)


def test_its_ends() -> None:
    """One language, or nothing found, is no unfairness; one relevant document per language says nothing."""
    assert equal_rank_p(np.array([1.0, 5.0]), np.array([2, 2])) == 1.0
    assert equal_rank_p(np.full(3, np.nan), np.array([0, 1, 2])) == 1.0
    constant = stats.chi2.sf(3, 3)
    for ranks in ([1, 2, 3, 4], [1, 50, 60, 2], [np.nan, np.nan, 1, 2]):
        assert equal_rank_p(np.array(ranks, float), np.arange(4)) == pytest.approx(constant)


@pytest.mark.parametrize("cutoff", [5, 12, 40])
def test_levels_are_weighted_and_lost_documents_share_a_rank(cutoff: int) -> None:
    """40 documents in 3 languages, the definition written out."""
    rng = np.random.default_rng(cutoff)
    weights = {0: 0.2, 1: 0.3, 2: 0.5}
    for _ in range(20):
        languages, levels, order = rng.integers(0, 3, 40), rng.choice([0, 0, 0, 1, 1, 2], 40), rng.permutation(40)
        expected = 0.0
        for level, weight in weights.items():
            places = {doc: place for place, doc in enumerate(order[:cutoff].tolist(), 1) if levels[doc] == level}
            members = [doc for doc in range(40) if levels[doc] == level and (level or doc in places)]
            lost = sum(doc not in places for doc in members)
            own = [places.get(doc, (2 * len(members) + lost + 1) / 2) for doc in members]
            spoken = languages[members]
            if len(set(spoken.tolist())) < 2 or not places:
                expected += weight
                continue
            # An analysis of variance of the ranks: H = (n − 1) times the share of it between languages.
            ranks, names = np.array(own, float), np.unique(spoken)
            between = sum(np.sum(spoken == one) * (ranks[spoken == one].mean() - ranks.mean()) ** 2 for one in names)
            statistic = (len(own) - 1) * between / np.sum((ranks - ranks.mean()) ** 2)
            expected += weight * stats.chi2.sf(statistic, len(names) - 1)
        assert peer(order[:cutoff], levels, languages, weights) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_measures_of_a_grid_by_hand() -> None:
    """Queries in two languages down, documents in two languages across."""
    means = np.array([99.0, 0.8, 0.2, 0.5, 0.6])
    assert grid.within(means) == pytest.approx(0.7)
    assert grid.across(means) == pytest.approx(0.35)
    assert grid.of_documents(lambda own: own)(means) == pytest.approx([0.65, 0.4])
    # Documents in the second language come 0.6 sooner than those in the query's own, those in the first 0.1 sooner.
    assert [float(grid.lag_to_own(k)(means)) for k in (0, 1, None)] == pytest.approx([-0.1, -0.6, -0.35])
    assert grid.lag_to(0, 1)(means) == pytest.approx(-0.25)
    shares = np.array([0.5, 0.9, 0.1, 0.5, 0.5])
    assert grid.share_distance(shares) == pytest.approx(0.2)
    stacked = np.stack([means, shares])
    assert grid.within(stacked) == pytest.approx([0.7, 0.7])
    assert grid.lag_to_own()(stacked).shape == (2,)
