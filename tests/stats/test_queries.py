"""Means and changes over queries: by hand, against scipy, against a jackknife in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fairspan.errors import DesignError
from fairspan.stats.estimates import Estimates
from fairspan.stats.queries import group_counts, query_changes, query_means, shortfall

Statistic = Callable[[np.ndarray], float]


def limits(interval: Estimates[float]) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


def by_jackknife(
    statistic: Statistic, clusters: np.ndarray, inside: np.ndarray
) -> tuple[float, float, float]:
    """The t interval of a statistic of queries (a mask), by leaving out each cluster that has one
    `inside`."""
    estimate = statistic(inside)
    names = np.unique(clusters[inside])
    without = np.array([statistic(inside & (clusters != name)) for name in names])
    error = np.sqrt((len(names) - 1) / len(names) * ((without - estimate) ** 2).sum())
    half = stats.t.ppf(0.975, len(names) - 1) * error
    return estimate, estimate - half, estimate + half


def test_means_changes_and_counts_by_hand() -> None:
    """Overall is over queries: not over groups, and with those in no group."""
    values = [1.0, 0.5, 0.0, 0.25, 1.0, 0.2]
    after = [0.5, 0.5, 0.5, 0.75, 1.0, 0.2]
    groups, clusters = [1, 1, 2, 1, 0, 0], ["a", "a", "b", "b", "b", "c"]
    means = query_means(values, groups, clusters)
    assert means.estimate == pytest.approx([2.95 / 6, 1.75 / 3, 0])
    changes = query_changes(values, after, groups, clusters)
    assert changes.estimate == pytest.approx([0.5 / 6, 0, 0.5])
    assert group_counts(groups, clusters) == [(6, 3), (3, 2), (1, 1)]


def test_one_query_a_cluster_has_scipys_interval() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.random(25), rng.random(25)
    groups = np.arange(25) % 3
    names = np.arange(25)
    means = query_means(before, groups, names)
    changes = query_changes(before, after, groups, names)
    for place in range(3):
        inside = groups == place if place else groups >= 0
        for found, values in ((means[place], before), (changes[place], after - before)):
            theirs = stats.ttest_1samp(values[inside], 0)
            low, high = theirs.confidence_interval()
            # The same sums in another order.
            assert limits(found) == pytest.approx((values[inside].mean(), low, high), rel=1e-9)
            assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)


def test_uneven_clusters_have_the_jackknife_error_of_those_that_have_the_group() -> None:
    """Ten clusters of 3 to 12 queries; the third group is in four of them."""
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(10), np.arange(3, 13))
    groups = rng.integers(0, 3, len(clusters))
    groups[(clusters % 3 == 0) & (rng.random(len(clusters)) < 0.6)] = 3
    # Far from 0 and 1, where limits of means end.
    before, after = rng.uniform(0.4, 0.6, (2, len(clusters)))
    means = query_means(before, groups, clusters)
    changes = query_changes(before, after, groups, clusters)
    assert len(means.estimate) == len(changes.estimate) == 4
    for place in range(4):
        inside = groups == place if place else groups >= 0
        expected = by_jackknife(lambda kept: before[kept].mean(), clusters, inside)
        assert limits(means[place]) == pytest.approx(expected, rel=1e-9)
        expected = by_jackknife(lambda kept: (after - before)[kept].mean(), clusters, inside)
        assert limits(changes[place]) == pytest.approx(expected, rel=1e-9)
    assert len(np.unique(clusters[groups == 3])) == 4, "the premise"
    assert changes[3].degrees_of_freedom == 3


@pytest.mark.parametrize("seed", range(8))
def test_equal_values_have_a_change_of_exactly_0(seed: int) -> None:
    """In every group, so that "the same" can be told from what only looks so."""
    rng = np.random.default_rng(seed)
    values, groups, clusters = rng.random(97), rng.integers(0, 5, 97), rng.integers(0, 31, 97)
    changes = query_changes(values, values, groups, clusters)
    assert not changes.estimate.any()
    assert not changes.standard_error.any()


def test_limits_of_means_stay_inside_what_is_possible() -> None:
    """Shares between 0 and 1; ranks, which exceed 1, only above 0."""
    clusters = np.arange(4)
    share = query_means([1, 1, 1, 0.2], [0] * 4, clusters)[0]
    assert (share.low, share.high) == (pytest.approx(share.low), 1.0)
    assert share.low > 0
    rank = query_means([1, 1, 1, 90], [0] * 4, clusters)[0]
    assert rank.low == 0
    assert rank.high > 90
    change = query_changes([0, 0, 0, 0], [1, 1, 1, 0.2], [0] * 4, clusters)[0]
    assert change.high > 1, "changes are not cut off"


def test_what_has_no_error_has_no_limits() -> None:
    """A group in one cluster, and one that no query has; one cluster in all is refused."""
    means = query_means([0.5, 0.1, 0.2, 0.3], [1, 1, 3, 0], ["a", "a", "b", "b"])
    assert means.estimate[1] == pytest.approx(0.3)
    assert np.isnan([means.low[1], means.high[1], means.estimate[2]]).all()
    with pytest.raises(DesignError, match="at least 2 different clusters, got 1"):
        query_means([0.5, 0.2], [1, 2], [0, 0])


def test_psi() -> None:
    means = np.array([[0.6, 0.3, 0.4], [0.6, 0.0, 0.4], [0.2, 0.2, 0.2]])
    np.testing.assert_allclose(shortfall(means), [0.5, 1, 0])
    assert np.isnan(shortfall(np.zeros(3)))
