"""Statistics over queries: by hand, against scipy and statsmodels, and in the long run."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats

from fairspan.errors import DesignError
from fairspan.stats.distributions import holm
from fairspan.stats.intervals import Interval, t_interval
from fairspan.stats.queries import (
    QueryChange,
    QueryCounts,
    QueryEffects,
    clusters_to_decide,
    harmonic_mean,
    query_change,
    query_effects,
    query_sums,
    shortfall,
)

# Means of queries in no group, in group 1 and in group 2.
RATES = np.array([0.4, 0.5, 0.25])


@dataclass(frozen=True, slots=True)
class Queries:
    """What two treatments with the same RATES get from queries in clusters."""

    first: np.ndarray
    second: np.ndarray
    groups: np.ndarray
    clusters: np.ndarray


def make_queries(
    rng: np.random.Generator, clusters: int = 30, each: int = 12, *, shared: bool = True
) -> Queries:
    """Values around the rate of their group, times a factor of mean 1 that a cluster shares, or
    else each query's.
    """
    numbers, groups = np.repeat(np.arange(clusters), each), np.arange(clusters * each) % 3

    def draw() -> np.ndarray:
        factors = (
            2 * rng.beta(2, 2, clusters)[numbers] if shared else 2 * rng.beta(2, 2, len(numbers))
        )
        return RATES[groups] * factors * rng.uniform(0.5, 1.5, len(numbers))

    return Queries(draw(), draw(), groups, numbers)


def uneven_queries(rng: np.random.Generator, *, hits: bool = False) -> Queries:
    """Ten clusters of 3 to 12 queries; `hits` are 0 or 1, so that samples tie."""
    numbers = np.repeat(np.arange(10), np.arange(3, 13))
    groups = rng.permutation(np.arange(len(numbers)) % 4)
    first, second = rng.random(len(numbers)), rng.random(len(numbers)) ** 0.8
    if hits:
        first, second = np.round(first), np.round(second)
    return Queries(first, second, groups, numbers)


def effects_of(queries: Queries, rng: np.random.Generator, draws: int = 399) -> QueryEffects:
    return query_effects(queries.first, queries.groups, queries.clusters, rng=rng, draws=draws)


def change_of(
    queries: Queries, rng: np.random.Generator, swaps: int = 399, **other: np.ndarray
) -> QueryChange:
    """The change with some columns replaced."""
    used = replace(queries, **other)
    return query_change(used.first, used.second, used.groups, used.clusters, rng=rng, swaps=swaps)


def ends(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


def test_psi_and_harmonic_mean_by_hand() -> None:
    means = np.array([0.6, 0.3, 0.4])
    assert shortfall(means) == pytest.approx(0.5)
    assert harmonic_mean(means) == pytest.approx(3 / (1 / 0.6 + 1 / 0.3 + 1 / 0.4))
    some = np.array([[0.6, 0.0, 0.4], [0.0, 0.0, 0.0], [0.5, np.nan, 0.0], [0.2, 0.2, 0.2]])
    assert_allclose(shortfall(some), [1, np.nan, np.nan, 0])
    assert_allclose(harmonic_mean(some), [0, 0, np.nan, 0.2])


def test_means_and_counts_by_hand() -> None:
    """Overall is over queries: not over groups, and with those in no group."""
    values = [1.0, 0.5, 0.0, 0.25, 1.0, 0.2]
    groups, clusters = [1, 1, 2, 1, 0, 0], ["a", "a", "b", "b", "b", "c"]
    found = query_effects(values, groups, clusters, rng=default_rng(0), draws=99)
    assert found.overall.estimate == pytest.approx(2.95 / 6)
    assert [one.estimate for one in found.groups] == pytest.approx([1.75 / 3, 0])
    assert (found.psi.estimate, found.harmonic.estimate) == (1, 0)
    assert found.counts == QueryCounts(6, 3, (3, 1))


def test_changes_by_hand() -> None:
    """The worst group is another one in each treatment."""
    first = [0.8, 0.6, 0.2, 0.4, 0.5, 0.5, 0.9]
    second = [0.4, 0.4, 0.6, 0.6, 0.6, 0.4, 0.1]
    groups, clusters = [1, 1, 2, 2, 3, 3, 0], [1, 2, 1, 2, 1, 2, 2]
    found = query_change(first, second, groups, clusters, rng=default_rng(0))
    assert found.overall.estimate == pytest.approx((3.1 - 3.9) / 7)
    assert [one.estimate for one in found.groups] == pytest.approx([-0.3, 0.3, 0.0])
    assert found.worst.estimate == pytest.approx(0.4 - 0.3)
    assert found.psi.estimate == pytest.approx(1 / 3 - 4 / 7)
    # By cluster the differences add up to 0.1 and −0.9, so that the four samples are ±0.8 and ±1.0,
    # all as far.
    assert found.p_value == 1
    assert found.counts == QueryCounts(7, 2, (2, 2, 2))


def test_changes_of_means_have_the_t_intervals_of_their_clusters() -> None:
    """Of clusters of one size the jackknife error is that of their means, so that scipy's t
    interval is the same.
    """
    queries = make_queries(default_rng(1), 9)
    found = change_of(queries, default_rng(0))
    gaps = (queries.second - queries.first).reshape(9, 12)
    inside = queries.groups.reshape(9, 12)
    for ours, table in (
        (found.overall, gaps),
        *((found.groups[n], gaps[inside == n + 1].reshape(9, 4)) for n in (0, 1)),
    ):
        theirs = stats.ttest_1samp(table.mean(1), 0).confidence_interval(0.95)
        assert ends(ours) == pytest.approx((table.mean(), theirs.low, theirs.high), rel=1e-9)


def test_changes_of_uneven_clusters_have_the_error_of_cr3() -> None:
    """A mean of unlike clusters and a measure of group means: the statistic without each cluster,
    by hand.
    """
    queries = uneven_queries(default_rng(1))
    found = change_of(queries, default_rng(0))

    def means(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return np.array([values[kept & (queries.groups == group)].mean() for group in (1, 2, 3)])

    def overall(kept: np.ndarray) -> float:
        return float((queries.second - queries.first)[kept].mean())

    def of_worst(kept: np.ndarray) -> float:
        return float(means(queries.second, kept).min() - means(queries.first, kept).min())

    fewest = min(len(np.unique(queries.clusters[queries.groups == group])) for group in (1, 2, 3))
    for ours, statistic, clusters in (
        (found.overall, overall, 10),
        (found.worst, of_worst, fewest),
    ):
        estimate = statistic(queries.clusters >= 0)
        without = np.array([statistic(queries.clusters != number) for number in range(10)])
        reach = stats.t.ppf(0.975, clusters - 1) * np.sqrt(0.9 * ((without - estimate) ** 2).sum())
        assert ends(ours) == pytest.approx((estimate, estimate - reach, estimate + reach), rel=1e-9)


def test_a_change_counts_the_clusters_that_have_its_queries() -> None:
    """Three of thirty clusters have queries of the second group: two degrees of freedom; with one,
    no interval.
    """
    queries = make_queries(default_rng(7))
    for clusters in (3, 1):
        groups = np.where((queries.groups == 2) & (queries.clusters >= clusters), 0, queries.groups)
        rng = default_rng(0)
        found = change_of(queries, rng, 9, groups=groups)
        if clusters == 1:
            assert np.isnan(found.groups[1].low)
            continue
        gaps = (queries.second - queries.first)[groups == 2].reshape(3, 4).mean(1)
        theirs = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
        assert ends(found.groups[1])[1:] == pytest.approx((theirs.low, theirs.high), rel=1e-9)


@pytest.mark.parametrize("hits", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_enumerated_tests_are_scipys(seed: int, hits: bool) -> None:
    """All 2^10 swaps of ten uneven clusters, which scipy swaps by their numbers."""
    queries = uneven_queries(default_rng(seed), hits=hits)
    one, two = (
        query_sums(values, queries.groups, queries.clusters)
        for values in (queries.first, queries.second)
    )
    table, counts = np.vstack([one.sums, two.sums]), one.counts.sum(0)

    def theirs(measure: Callable[[np.ndarray], np.ndarray]) -> float:
        def statistic(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
            means = [
                table[np.moveaxis(numbers, axis, -1)].sum(-2) / counts
                for numbers in (first, second)
            ]
            # What scipy takes for a tie is finer than the rounding of these sums.
            return np.round(measure(means[1]) - measure(means[0]), 12)

        return stats.permutation_test(
            (np.arange(10), np.arange(10, 20)),
            statistic,
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        ).pvalue

    found = change_of(queries, default_rng(0), swaps=1024)
    assert found.p_value == pytest.approx(theirs(lambda means: means[..., 0]), abs=1e-12)
    assert found.p_psi == pytest.approx(theirs(lambda means: shortfall(means[..., 1:])), abs=1e-12)
    assert found.p_value != found.p_psi


def simulate(
    make: Callable[[np.random.Generator], Queries], *, runs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """How often intervals hold the truth, and how often equal treatments are told apart at 5 %."""
    rng = default_rng(11)
    held: list[dict[str, bool]] = []
    told: list[dict[str, bool]] = []
    for _ in range(runs):
        queries = make(rng)
        effects, change = effects_of(queries, rng, 299), change_of(queries, rng, 199)
        truths = {
            "overall": (effects.overall, RATES.mean()),
            "second group": (effects.groups[1], 0.25),
            "psi": (effects.psi, 0.5),
            "harmonic": (effects.harmonic, 1 / 3),
            "change": (change.overall, 0.0),
            "change of psi": (change.psi, 0.0),
            "change of worst": (change.worst, 0.0),
        }
        held.append({name: one.low <= truth <= one.high for name, (one, truth) in truths.items()})
        told.append({name: getattr(change, name) <= 0.05 for name in ("p_value", "p_psi")})
    return _shares(held), _shares(told)


def _shares(rows: list[dict[str, bool]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [lambda rng: make_queries(rng, 60, 1, shared=False), make_queries],
    ids=["60 queries", "30 clusters"],
)
def test_intervals_hold_the_truth_and_tests_keep_their_level(
    make: Callable[[np.random.Generator], Queries],
) -> None:
    """200 runs: a share of 0.95 or 0.05 has a standard error of 0.015. A bootstrap knows no t, so
    that with 30 clusters it falls short: 2000 runs with another seed found 0.92 (PSI) to 0.94. The
    interval of a change of PSI is too wide: 1000 runs found 0.99.
    """
    held, told = simulate(make, runs=200)
    assert held.pop("change of psi") >= 0.95
    assert all(0.88 <= share <= 0.99 for share in held.values()), held
    assert all(share <= 0.095 for share in told.values()), told


def test_as_many_clusters_more_decide() -> None:
    """Clusters like those seen, as many as it says: four in five samples show the gain, by a t
    test.

    2000 samples: a share of 0.8 has a standard error of 0.009, and the promise uses the normal for
    t.
    """
    more = clusters_to_decide(t_interval(0.02, 0.06 / np.sqrt(20), 19), 20, margin=0.01)
    assert more is not None
    assert more > 30
    samples = default_rng(4).normal(0.02, 0.06, (2000, 20 + more))
    ratios = samples.mean(1) / samples.std(1, ddof=1) * np.sqrt(20 + more)
    assert np.mean(ratios > 1.98) == pytest.approx(0.8, abs=0.04)
    assert clusters_to_decide(Interval(0.1), 20, 0.01) is None
    assert clusters_to_decide(t_interval(0.1, 0.005, 11), 12, 0.01) == 18, "up to 30"
    assert clusters_to_decide(t_interval(0.1, 0.005, 29), 30, 0.01) == 0
    assert clusters_to_decide(t_interval(-0.1, 0.005, 39), 40, 0.01) == 0, "a loss is shown"


def test_as_many_clusters_more_rule_out_a_loss() -> None:
    """−.005 [−.020, +.010] on 100 clusters, margin .01: the error is .015/1.984 = .0076, and what
    is between estimate and margin, .005, has to be 1.96 + .84 errors. That takes 100 · (2.80 ·
    .0076/.005)² ≈ 1,800 clusters.
    """
    change = t_interval(-0.005, 0.015 / stats.t.ppf(0.975, 99), 99)
    assert (change.low, change.high) == pytest.approx((-0.02, 0.01))
    by_hand = (
        100 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * change.standard_error / 0.005) ** 2
        - 100
    )
    more = clusters_to_decide(change, 100, margin=0.01)
    # Rounded up to two digits, of t instead of the normal.
    assert more == pytest.approx(by_hand, abs=100)
    samples = default_rng(4).normal(-0.005, change.standard_error * 10, (1000, 100 + more))
    lows = samples.mean(1) - 1.96 * samples.std(1, ddof=1) / np.sqrt(100 + more)
    # A share of .8 over 1000 samples has a standard error of .013.
    assert np.mean(lows > -0.01) == pytest.approx(0.8, abs=0.05)


def test_differences_are_seen() -> None:
    """The second treatment evens the groups out and leaves the overall mean as it was."""
    queries = make_queries(default_rng(6), 60)
    second = queries.first * np.array([1.0, 0.75, 1.5])[queries.groups]
    found = change_of(queries, default_rng(0), 9999, second=second)
    assert found.psi.high < 0
    assert found.worst.low > 0
    assert found.groups[0].high < 0 < found.groups[1].low
    assert found.p_psi < 0.001 < 0.05 < found.p_value


def test_a_group_that_gets_nothing() -> None:
    """PSI is 1 and the harmonic mean 0, also in bootstrap samples: none of them is left out."""
    queries = make_queries(default_rng(7))
    values = np.where(queries.groups == 2, 0.0, queries.first)
    rng = default_rng(0)
    found = query_effects(values, queries.groups, queries.clusters, rng=rng, draws=99)
    assert ends(found.psi) == (1, 1, 1)
    assert ends(found.harmonic) == ends(found.groups[1]) == (0, 0, 0)
    change = change_of(queries, rng, 999, first=values, second=queries.first)
    assert change.psi.estimate == pytest.approx(shortfall(query_mean(queries)) - 1)
    assert change.psi.high < 0
    assert change.p_psi == 1 / 1000


def test_swaps_that_leave_a_treatment_nothing_count_against_a_change() -> None:
    """In each cluster only one treatment gets anything: two of the 2^7 swaps give all of it to one
    of them.
    """
    rng = default_rng(0)
    clusters, groups = np.repeat(np.arange(7), 3), np.tile([1, 2, 3], 7)
    given, to_first = rng.random(21), np.repeat(rng.permutation([1, 0, 0, 0, 0, 0, 0]), 3)

    def change(to_first: np.ndarray) -> float:
        treatments = [
            np.where(to_first == side, given, 0.0).reshape(7, 3).sum(0) for side in (1, 0)
        ]
        return float(shortfall(treatments[1]) - shortfall(treatments[0]))

    observed = change(to_first)
    samples = np.array([change(np.repeat(sides, 3)) for sides in product([0, 1], repeat=7)])
    assert np.isnan(samples).sum() == 2
    found = query_change(
        given * to_first, given * (1 - to_first), groups, clusters, rng=rng, swaps=128
    )
    assert found.p_psi == np.mean(np.isnan(samples) | (np.abs(samples) >= abs(observed) - 1e-9))


def query_mean(queries: Queries) -> np.ndarray:
    return np.array([queries.first[queries.groups == number].mean() for number in (1, 2)])


def test_what_is_not_defined_is_nan() -> None:
    queries = make_queries(default_rng(7))
    rng = default_rng(0)
    for groups in (np.zeros(360, int), (queries.groups > 0).astype(int)):
        one = query_effects(queries.first, groups, queries.clusters, rng=rng, draws=99)
        assert np.isfinite(ends(one.overall)).all()
        assert len(one.groups) == groups.max()
        assert np.isnan([one.psi.estimate, one.harmonic.estimate]).all()
        change = change_of(queries, rng, 99, groups=groups)
        assert np.isnan([change.p_psi, change.worst.estimate]).all()
        assert 0 < change.p_value <= 1
    nothing = query_effects(np.zeros(360), queries.groups, queries.clusters, rng=rng, draws=99)
    assert np.isnan(nothing.psi.estimate)
    assert ends(nothing.harmonic) == (0, 0, 0)
    change = change_of(queries, rng, 99, first=np.zeros(360), second=queries.first)
    assert np.isnan([change.psi.estimate, change.p_psi]).all()


def test_holm_by_hand() -> None:
    assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    assert_allclose(holm([np.nan, 0.3, 0.4, np.nan]), [np.nan, 0.6, 0.6, np.nan])
    assert holm([]).shape == (0,)


def test_holm_is_statsmodels() -> None:
    with warnings.catch_warnings():
        # What statsmodels imports is not ours to mend.
        warnings.simplefilter("ignore")
        multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = default_rng(0)
    for size in (1, 2, 7, 30):
        p_values = np.round(rng.random(size) ** 4, 2)
        assert_allclose(
            holm(p_values), multitest.multipletests(p_values, method="holm")[1], rtol=1e-12
        )


def test_one_cluster_is_refused() -> None:
    with pytest.raises(DesignError, match="at least 2 different clusters, got 1"):
        query_effects([0.5, 0.2, 0.1, 0.9], [1, 2, 1, 2], [0, 0, 0, 0], rng=default_rng(0))
