"""PEER against the authors' package and by hand, and the measures of a grid of languages."""

from __future__ import annotations

import numpy as np
import pytest
from peer_measure import PEER, PEEREvaluator
from scipy import stats

from fairspan.errors import StatisticsError
from fairspan.stats import language_grid as grid
from fairspan.stats.peer import equal_rank_p, peer


@pytest.mark.parametrize("cutoff", [5, 12, 40])
@pytest.mark.parametrize("weights", [{0: 1.0}, {1: 1.0}, {0: 0.2, 1: 0.3, 2: 0.5}])
def test_it_is_that_of_the_package(cutoff: int, weights: dict[int, float]) -> None:
    """40 documents in 3 languages, some levels without a language, and relevant ones beyond the cutoff."""
    rng = np.random.default_rng(cutoff)
    for _ in range(20):
        languages, levels = rng.integers(0, 3, 40), rng.choice([0, 0, 0, 1, 1, 2], 40)
        ranking = rng.permutation(40)
        names = [f"d{number:02}" for number in range(40)]
        mapping = {name: f"l{language}" for name, language in zip(names, languages, strict=True)}
        qrels = {"q": {name: int(level) for name, level in zip(names, levels, strict=True)}}
        run = {"q": {names[number]: -float(place) for place, number in enumerate(ranking)}}
        measure = PEER(weights=weights, lang_mapping=mapping) @ cutoff
        # Newer releases of ir_measures lack a function with which the package finds its evaluator.
        theirs_for = PEEREvaluator([measure], qrels, {0: [(cutoff, measure)]}, {0: mapping})
        (theirs,) = (one.value for one in theirs_for.iter_calc(run))
        # Both add up to 40 numbers of at most 60 in another order.
        assert peer(ranking[:cutoff], levels, languages, weights) == pytest.approx(theirs, rel=1e-9, abs=1e-12)


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
    with pytest.raises(StatisticsError, match=r"sum to 1, got 0\.5"):
        peer([0], [1], [0], {1: 0.5})
    with pytest.raises(StatisticsError, match="a level and a language"):
        peer([0], [1, 0], [0], {1: 1.0})


def test_measures_of_a_grid_by_hand() -> None:
    """Queries in two languages down, documents in two languages across."""
    means = np.array([99.0, 0.8, 0.2, 0.5, 0.6])
    assert grid.within(means) == pytest.approx(0.7)
    assert grid.across(means) == pytest.approx(0.35)
    assert [float(grid.of_query(k)(means)) for k in (0, 1)] == pytest.approx([0.5, 0.55])
    assert [float(grid.of_document(k)(means)) for k in (0, 1)] == pytest.approx([0.65, 0.4])
    assert grid.document_gap(means) == pytest.approx(0.25)
    assert grid.weakest_document(means) == pytest.approx(0.4)
    # Documents in the second language come 0.6 sooner than those in the query's own, those in the first 0.1 sooner.
    assert [float(grid.lag_to_own(k)(means)) for k in (0, 1, None)] == pytest.approx([-0.1, -0.6, -0.35])
    assert grid.lag_to(0, 1)(means) == pytest.approx(-0.25)
    shares = np.array([0.5, 0.9, 0.1, 0.5, 0.5])
    assert [float(grid.share_distance(k)(shares)) for k in (0, 1, None)] == pytest.approx([0.4, 0.0, 0.2])
    stacked = np.stack([means, shares])
    assert grid.within(stacked) == pytest.approx([0.7, 0.7])
    assert grid.lag_to_own()(stacked).shape == (2,)
