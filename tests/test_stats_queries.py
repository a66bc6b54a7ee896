"""Statistics over queries: by hand, against scipy and statsmodels, and in the long run."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.bootstrap import Interval, PositionSums, bca_interval, resample
from fairspan.stats.distributions import holm, t_ratio
from fairspan.stats.effects import psi
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


def make_queries(rng: np.random.Generator, clusters: int = 30, each: int = 12, *, shared: bool = True) -> Queries:
    """Values around the rate of their group, times a factor of mean 1 that a cluster shares, or else each query's."""
    numbers, groups = np.repeat(np.arange(clusters), each), np.arange(clusters * each) % 3

    def draw() -> np.ndarray:
        factors = 2 * rng.beta(2, 2, clusters)[numbers] if shared else 2 * rng.beta(2, 2, len(numbers))
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


def change_of(queries: Queries, rng: np.random.Generator, swaps: int = 399) -> QueryChange:
    return query_change(queries.first, queries.second, queries.groups, queries.clusters, rng=rng, swaps=swaps)


def ends(interval: Interval) -> tuple[float, float, float]:
    return interval.estimate, interval.low, interval.high


def test_psi_and_harmonic_mean_by_hand() -> None:
    means = np.array([0.6, 0.3, 0.4])
    assert shortfall(means) == pytest.approx(0.5)
    assert shortfall(means) == psi(means)
    assert harmonic_mean(means) == pytest.approx(3 / (1 / 0.6 + 1 / 0.3 + 1 / 0.4))
    some = np.array([[0.6, 0.0, 0.4], [0.0, 0.0, 0.0], [0.5, np.nan, 0.0], [0.2, 0.2, 0.2]])
    np.testing.assert_allclose(shortfall(some), [1, np.nan, np.nan, 0])
    np.testing.assert_allclose(harmonic_mean(some), [0, 0, np.nan, 0.2])


def test_means_and_counts_by_hand() -> None:
    """Overall is over queries: not over groups, and with those in no group."""
    values = [1.0, 0.5, 0.0, 0.25, 1.0, 0.2]
    groups, clusters = [1, 1, 2, 1, 0, -3], ["a", "a", "b", "b", "b", "c"]
    found = query_effects(values, groups, clusters, rng=np.random.default_rng(0), draws=99)
    assert found.overall.estimate == pytest.approx(2.95 / 6)
    assert [one.estimate for one in found.groups] == pytest.approx([1.75 / 3, 0])
    assert (found.psi.estimate, found.harmonic.estimate) == (1, 0)
    assert found.counts == QueryCounts(6, 3, (3, 1))


def test_changes_by_hand() -> None:
    """The worst group is another one in each treatment."""
    first = [0.8, 0.6, 0.2, 0.4, 0.5, 0.5, 0.9]
    second = [0.4, 0.4, 0.6, 0.6, 0.6, 0.4, 0.1]
    groups, clusters = [1, 1, 2, 2, 3, 3, 0], [1, 2, 1, 2, 1, 2, 2]
    found = query_change(first, second, groups, clusters, rng=np.random.default_rng(0))
    assert found.overall.estimate == pytest.approx((3.1 - 3.9) / 7)
    assert [one.estimate for one in found.groups] == pytest.approx([-0.3, 0.3, 0.0])
    assert found.worst.estimate == pytest.approx(0.4 - 0.3)
    assert found.spread.estimate == pytest.approx(0.2 - 0.4)
    assert found.psi.estimate == pytest.approx(1 / 3 - 4 / 7)
    assert found.harmonic.estimate == pytest.approx(3 / (2.5 + 1 / 0.6 + 2) - 3 / (1 / 0.7 + 1 / 0.3 + 2))
    # By cluster the differences add up to 0.1 and −0.9, so that the four samples are ±0.8 and ±1.0, all as far.
    assert found.p_value == 1
    assert found.counts == QueryCounts(7, 2, (2, 2, 2))


def test_one_draw_for_all_intervals_gives_those_of_one_each() -> None:
    """The same generator, the same clusters drawn: exactly what `resample` says of one statistic."""
    queries = uneven_queries(np.random.default_rng(1))
    found = effects_of(queries, np.random.default_rng(3))
    sums = query_sums(queries.first, queries.groups, queries.clusters)

    def alone(sums: PositionSums, statistic: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float, float]:
        return ends(resample(sums, rng=np.random.default_rng(3), draws=399).interval(statistic))

    assert ends(found.overall) == alone(sums, lambda means: means[..., 0])
    assert ends(found.groups[2]) == alone(sums, lambda means: means[..., 3])
    assert ends(found.psi) == alone(sums, lambda means: psi(means[..., 1:]))
    assert ends(found.harmonic) == alone(sums, lambda means: 3 / (1 / means[..., 1:]).sum(-1))


def test_changes_of_means_have_the_t_intervals_of_their_clusters() -> None:
    """Of clusters of one size the jackknife error is that of their means, so that scipy's t interval is the same."""
    stats = pytest.importorskip("scipy.stats")
    queries = make_queries(np.random.default_rng(1), 9)
    found = change_of(queries, np.random.default_rng(0))
    gaps = (queries.second - queries.first).reshape(9, 12)
    inside = queries.groups.reshape(9, 12)
    for ours, table in (
        (found.overall, gaps),
        *((found.groups[n], gaps[inside == n + 1].reshape(9, 4)) for n in (0, 1)),
    ):
        theirs = stats.ttest_1samp(table.mean(1), 0).confidence_interval(0.95)
        assert ends(ours) == pytest.approx((table.mean(), theirs.low, theirs.high), rel=1e-9)


def test_changes_of_uneven_clusters_have_the_error_of_cr3() -> None:
    """A mean of unlike clusters and a measure of group means: the statistic without each cluster, by hand."""
    stats = pytest.importorskip("scipy.stats")
    queries = uneven_queries(np.random.default_rng(1))
    found = change_of(queries, np.random.default_rng(0))

    def means(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
        return np.array([values[kept & (queries.groups == group)].mean() for group in (1, 2, 3)])

    def overall(kept: np.ndarray) -> float:
        return float((queries.second - queries.first)[kept].mean())

    def of_psi(kept: np.ndarray) -> float:
        return float(psi(means(queries.second, kept)) - psi(means(queries.first, kept)))

    fewest = min(len(np.unique(queries.clusters[queries.groups == group])) for group in (1, 2, 3))
    for ours, statistic, clusters in ((found.overall, overall, 10), (found.psi, of_psi, fewest)):
        estimate = statistic(queries.clusters >= 0)
        without = np.array([statistic(queries.clusters != number) for number in range(10)])
        reach = stats.t.ppf(0.975, clusters - 1) * np.sqrt(0.9 * ((without - estimate) ** 2).sum())
        assert ends(ours) == pytest.approx((estimate, estimate - reach, estimate + reach), rel=1e-9)


def test_a_change_counts_the_clusters_that_have_its_queries() -> None:
    """Three of thirty clusters have queries of the second group: two degrees of freedom; with one, no interval."""
    stats = pytest.importorskip("scipy.stats")
    queries = make_queries(np.random.default_rng(7))
    for clusters in (3, 1):
        groups = np.where((queries.groups == 2) & (queries.clusters >= clusters), 0, queries.groups)
        rng = np.random.default_rng(0)
        found = query_change(queries.first, queries.second, groups, queries.clusters, rng=rng, swaps=9)
        if clusters == 1:
            assert np.isnan(found.groups[1].low)
            assert "without one of the clusters" in found.groups[1].reason
            continue
        gaps = (queries.second - queries.first)[groups == 2].reshape(3, 4).mean(1)
        theirs = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
        assert ends(found.groups[1])[1:] == pytest.approx((theirs.low, theirs.high), rel=1e-9)


def test_plain_intervals_are_scipys() -> None:
    """Both with 9999 draws of 40 queries, and with the tolerance of test_stats_bootstrap: 0.15 standard errors."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    values, each = rng.random(40) ** 3, np.arange(40)
    ours = query_effects(values, each % 2, each, rng=np.random.default_rng(0), draws=9999).overall
    theirs = stats.bootstrap((values,), np.mean, n_resamples=9999, method="BCa", rng=1)
    close = 0.15 * theirs.standard_error
    assert ours.estimate == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=close)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=close)


@pytest.mark.parametrize("hits", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_enumerated_tests_are_scipys(seed: int, hits: bool) -> None:
    """All 2^10 swaps of ten uneven clusters, which scipy swaps by their numbers."""
    stats = pytest.importorskip("scipy.stats")
    queries = uneven_queries(np.random.default_rng(seed), hits=hits)
    one, two = (query_sums(values, queries.groups, queries.clusters) for values in (queries.first, queries.second))
    table, counts = np.vstack([one.sums, two.sums]), one.counts.sum(0)

    def theirs(measure: Callable[[np.ndarray], np.ndarray]) -> float:
        def statistic(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
            means = [table[np.moveaxis(numbers, axis, -1)].sum(-2) / counts for numbers in (first, second)]
            # What scipy takes for a tie is finer than the rounding of these sums.
            return np.round(measure(means[1]) - measure(means[0]), 12)

        return stats.permutation_test(
            (np.arange(10), np.arange(10, 20)),
            statistic,
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        ).pvalue

    found = change_of(queries, np.random.default_rng(0), swaps=1024)
    assert found.p_value == pytest.approx(theirs(lambda means: means[..., 0]), abs=1e-12)
    assert found.p_psi == pytest.approx(theirs(lambda means: psi(means[..., 1:])), abs=1e-12)
    assert found.p_value != found.p_psi


def test_drawn_tests_come_near_enumerated_ones() -> None:
    """9999 draws against all 2^14: a share has a standard error of √(p(1−p)/9999), and four are allowed."""
    queries = make_queries(np.random.default_rng(4), 14)
    exact = change_of(queries, np.random.default_rng(0), swaps=2**14)
    drawn = change_of(queries, np.random.default_rng(0), swaps=9999)
    assert exact.p_value * 2**14 == round(exact.p_value * 2**14), "all were enumerated"
    for name in ("p_value", "p_psi"):
        p = getattr(exact, name)
        assert 0.01 < p < 0.99, "a share that can tell"
        assert getattr(drawn, name) == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 9999) + 1e-4)


def test_no_p_value_of_draws_is_0() -> None:
    """Thirty clusters that all say the same: no draw is as far, and the observed sample counts as one."""
    queries = make_queries(np.random.default_rng(5))
    found = query_change(
        queries.first, queries.first + 0.5, queries.groups, queries.clusters, rng=np.random.default_rng(0)
    )
    assert found.p_value == 1 / 10_000


def test_equal_treatments_do_not_differ() -> None:
    queries = make_queries(np.random.default_rng(5))
    found = query_change(queries.first, queries.first, queries.groups, queries.clusters, rng=np.random.default_rng(0))
    assert ends(found.overall) == ends(found.psi) == (0, 0, 0)
    assert found.p_value == found.p_psi == 1


def simulate(
    make: Callable[[np.random.Generator], Queries], *, heeded: bool, runs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """How often intervals hold the truth, and how often equal treatments are told apart at 5 %."""
    rng = np.random.default_rng(11)
    held: list[dict[str, bool]] = []
    told: list[dict[str, bool]] = []
    for _ in range(runs):
        drawn = make(rng)
        clusters = drawn.clusters if heeded else np.arange(len(drawn.groups))
        queries = Queries(drawn.first, drawn.second, drawn.groups, clusters)
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
def test_intervals_hold_the_truth_and_tests_keep_their_level(make: Callable[[np.random.Generator], Queries]) -> None:
    """500 runs: a share of 0.95 or 0.05 has a standard error of 0.01. A bootstrap knows no t, so that with 30
    clusters it falls short: 2000 runs with another seed found 0.92 (PSI) to 0.94, of which 0.9 is two errors away. It
    draws how many queries each group has, which is fixed here, so that it is a little long for the overall mean.
    """
    held, told = simulate(make, heeded=True, runs=500)
    assert all(0.9 <= share <= 0.98 for share in held.values()), held
    assert all(0.02 <= share <= 0.08 for share in told.values()), told


def changes_of_searches(rng: np.random.Generator, count: int, each: int) -> np.ndarray:
    """Mean changes of nDCG@10 in `count` clusters of so many queries, each with one relevant document.

    Ranks are log-normal and a cluster shares a part of its difficulty and of its gain, so that about two in three
    queries do not change at all, and the rest by steps of very different size.
    """

    def ndcg(logs: np.ndarray) -> np.ndarray:
        ranks = np.ceil(np.exp(logs))
        return np.where(ranks <= 10, 1 / np.log2(1 + np.maximum(ranks, 1)), 0.0)

    before = 1.2 * (rng.normal(0, 1, (count, 1)) + rng.normal(0, 1, (count, each)))
    after = before - rng.normal(0.15, 0.3, (count, 1)) + rng.normal(0, 0.35, (count, each))
    return (ndcg(after) - ndcg(before)).mean(1)


def intervals_of(samples: np.ndarray, rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """95 % intervals of the mean of each row [runs, clusters], by every method that was considered."""
    stats = pytest.importorskip("scipy.stats")
    runs, clusters = samples.shape
    mean, error = samples.mean(1), samples.std(1, ddof=1) / np.sqrt(clusters)
    reach = stats.t.ppf(0.975, clusters - 1) * error
    found = {"t": (mean - reach, mean + reach)}
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), 1999).T / clusters
    means = samples @ drawn
    found["percentile"] = tuple(np.quantile(means, [0.025, 0.975], axis=1))
    found["BCa"] = (np.empty(runs), np.empty(runs))
    for row in range(runs):
        one = bca_interval(mean[row], means[row], -samples[row], 0.95)
        found["BCa"][0][row], found["BCa"][1][row] = one.low, one.high
    errors = np.sqrt(np.maximum(samples**2 @ drawn - means**2, 0) / (clusters - 1))
    ratios = t_ratio(means - mean[:, None], errors)
    low, high = np.quantile(ratios, [0.025, 0.975], axis=1, method="nearest")
    found["bootstrap-t"] = (mean - high * error, mean - low * error)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("each", [4, 1], ids=["pages", "queries"])
def test_changes_with_few_clusters_are_covered(each: int) -> None:
    """2000 runs: a share of 0.95 has a standard error of 0.005, and four are allowed. See docs/evaluate.md.

    Single queries need 20 clusters: with fewer, a sample may have hardly any query that changes at all.
    """
    rng = np.random.default_rng(5)
    truth = changes_of_searches(rng, 2_000_000, each).mean()
    print(f"\nclusters of {each}: {np.mean(changes_of_searches(rng, 9999, each) == 0):.0%} do not change")
    for clusters in (8, 12, 20, 30, 50):
        samples = changes_of_searches(rng, 2000 * clusters, each).reshape(2000, clusters)
        blocks = [intervals_of(block, rng) for block in np.split(samples, 10)]
        held = {
            name: np.mean([(block[name][0] <= truth) & (truth <= block[name][1]) for block in blocks])
            for name in blocks[0]
        }
        signs = 1 - 2 * rng.integers(0, 2, (clusters, 1999))
        swapped = np.abs((samples - truth) @ signs)
        p_values = (1 + (swapped >= np.abs((samples - truth).sum(1))[:, None] - 1e-12).sum(1)) / 2000
        held["test"] = np.mean(p_values > 0.05)
        print(clusters, {name: f"{share:.1%}" for name, share in held.items()})
        # The first row through the door that everybody uses.
        first = np.repeat(0.5, clusters)
        numbers = np.arange(clusters)
        one = query_change(first, first + samples[0] / 2, numbers * 0, numbers, rng=rng, swaps=9).overall
        assert (2 * one.low, 2 * one.high) == pytest.approx((blocks[0]["t"][0][0], blocks[0]["t"][1][0]), abs=1e-12)
        if each == 4 or clusters >= 20:
            assert abs(held["t"] - 0.95) < 0.02
            assert held["BCa"] < held["t"]


@pytest.mark.slow
def test_clusters_that_are_not_heeded_make_intervals_too_short() -> None:
    held, told = simulate(lambda rng: make_queries(rng, 30, 9), heeded=False, runs=100)
    assert held["overall"] < 0.8
    assert held["change"] < 0.8
    assert told["p_value"] > 0.2


def test_as_many_clusters_more_decide() -> None:
    """Clusters like those seen, as many as it says: four in five samples show the gain, by a t test.

    2000 samples: a share of 0.8 has a standard error of 0.009, and the promise uses the normal for t.
    """
    seen = np.random.default_rng(3).normal(0.02, 0.06, 20)
    reach = 2.093 * seen.std(ddof=1) / np.sqrt(20)  # t with 19 degrees of freedom
    gap = seen.mean()
    more = clusters_to_decide(Interval(gap, gap - reach, gap + reach), 20, margin=0.01)
    assert more is not None
    assert more > 30
    samples = np.random.default_rng(4).normal(gap, seen.std(ddof=1), (2000, 20 + more))
    ratios = samples.mean(1) / samples.std(1, ddof=1) * np.sqrt(20 + more)
    assert np.mean(ratios > 1.98) == pytest.approx(0.8, abs=0.04)
    assert clusters_to_decide(Interval(0.1, np.nan, np.nan), 20, 0.01) is None
    assert clusters_to_decide(Interval(0.1, 0.09, 0.11), 12, 0.01) == 18, "up to 30"
    assert clusters_to_decide(Interval(0.1, 0.09, 0.11), 30, 0.01) == 0
    assert clusters_to_decide(Interval(-0.1, -0.11, -0.09), 40, 0.01) == 0, "no gain beyond the margin"


def test_differences_are_seen() -> None:
    """The second treatment evens the groups out and leaves the overall mean as it was."""
    queries = make_queries(np.random.default_rng(6), 60)
    second = queries.first * np.array([1.0, 0.75, 1.5])[queries.groups]
    found = query_change(queries.first, second, queries.groups, queries.clusters, rng=np.random.default_rng(0))
    assert found.psi.high < 0
    assert found.spread.high < 0
    assert found.worst.low > 0
    assert found.harmonic.low > 0
    assert found.groups[0].high < 0 < found.groups[1].low
    assert found.p_psi < 0.001 < 0.05 < found.p_value


def test_a_group_that_gets_nothing() -> None:
    """PSI is 1 and the harmonic mean 0, also in bootstrap samples: none of them is left out."""
    queries = make_queries(np.random.default_rng(7))
    values = np.where(queries.groups == 2, 0.0, queries.first)
    rng = np.random.default_rng(0)
    found = query_effects(values, queries.groups, queries.clusters, rng=rng, draws=99)
    assert ends(found.psi) == (1, 1, 1)
    assert ends(found.harmonic) == ends(found.groups[1]) == (0, 0, 0)
    change = query_change(values, queries.first, queries.groups, queries.clusters, rng=rng, swaps=999)
    assert change.psi.estimate == pytest.approx(shortfall(query_mean(queries)) - 1)
    assert change.psi.high < 0
    assert change.p_psi == 1 / 1000


def test_swaps_that_leave_a_treatment_nothing_count_against_a_change() -> None:
    """In each cluster only one treatment gets anything: two of the 2^7 swaps give all of it to one of them."""
    rng = np.random.default_rng(0)
    clusters, groups = np.repeat(np.arange(7), 3), np.tile([1, 2, 3], 7)
    given, to_first = rng.random(21), np.repeat(rng.permutation([1, 0, 0, 0, 0, 0, 0]), 3)

    def change(to_first: np.ndarray) -> float:
        treatments = [np.where(to_first == side, given, 0.0).reshape(7, 3).sum(0) for side in (1, 0)]
        return float(shortfall(treatments[1]) - shortfall(treatments[0]))

    observed = change(to_first)
    samples = np.array([change(np.repeat(sides, 3)) for sides in product([0, 1], repeat=7)])
    assert np.isnan(samples).sum() == 2
    found = query_change(given * to_first, given * (1 - to_first), groups, clusters, rng=rng, swaps=128)
    assert found.p_psi == np.mean(np.isnan(samples) | (np.abs(samples) >= abs(observed) - 1e-9))


def query_mean(queries: Queries) -> np.ndarray:
    return np.array([queries.first[queries.groups == number].mean() for number in (1, 2)])


def test_what_is_not_defined_says_why() -> None:
    queries = make_queries(np.random.default_rng(7))
    rng = np.random.default_rng(0)
    for groups in (np.zeros(360, int), (queries.groups > 0).astype(int)):
        one = query_effects(queries.first, groups, queries.clusters, rng=rng, draws=99)
        assert np.isfinite(ends(one.overall)).all()
        assert len(one.groups) == groups.max()
        assert np.isnan(one.psi.estimate)
        assert "at least 2 position groups" in one.harmonic.reason
        change = query_change(queries.first, queries.second, groups, queries.clusters, rng=rng, swaps=99)
        assert np.isnan([change.p_psi, change.worst.estimate]).all()
        assert 0 < change.p_value <= 1
    nothing = query_effects(np.zeros(360), queries.groups, queries.clusters, rng=rng, draws=99)
    assert "every group mean is 0" in nothing.psi.reason
    assert ends(nothing.harmonic) == (0, 0, 0)
    change = query_change(np.zeros(360), queries.first, queries.groups, queries.clusters, rng=rng, swaps=99)
    assert "every group mean is 0" in change.psi.reason
    assert np.isnan(change.p_psi)


def test_a_group_in_one_cluster_has_no_interval() -> None:
    """About a third of the samples lack it."""
    queries = make_queries(np.random.default_rng(7))
    groups = np.where((queries.groups == 2) & (queries.clusters > 0), 0, queries.groups)
    found = query_effects(queries.first, groups, queries.clusters, rng=np.random.default_rng(0), draws=199)
    for interval in (found.groups[1], found.psi, found.harmonic):
        assert np.isfinite(interval.estimate)
        assert np.isnan(interval.low)
        assert "one in ten" in interval.reason
    assert np.isfinite(found.groups[0].low)


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm([np.nan, 0.3, 0.4, np.nan]), [np.nan, 0.6, 0.6, np.nan])
    assert holm([]).shape == (0,)
    for wrong, message in (
        ([0.5, 1.5], "between 0 and 1"),
        ([-0.1], "between 0 and 1"),
        ([[0.1]], r"shape \(1, 1\)"),
    ):
        with pytest.raises(StatisticsError, match=message):
            holm(wrong)


def test_holm_is_statsmodels() -> None:
    with warnings.catch_warnings():
        # What statsmodels imports is not ours to mend.
        warnings.simplefilter("ignore")
        multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        p_values = np.round(rng.random(size) ** 4, 2)
        np.testing.assert_allclose(holm(p_values), multitest.multipletests(p_values, method="holm")[1], rtol=1e-12)


def test_the_same_generator_gives_the_same_answer() -> None:
    queries = make_queries(np.random.default_rng(8))
    one, same, other = (change_of(queries, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert (one.p_value, one.p_psi) == (same.p_value, same.p_psi) != (other.p_value, other.p_psi)


def test_draws_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer as in one piece, which would hold 3000 × 499 numbers, 12 MB, more than once."""
    queries = make_queries(np.random.default_rng(8), 3000, 3)
    whole = change_of(queries, np.random.default_rng(3), 499)
    for module in ("wild", "bootstrap"):
        monkeypatch.setattr(f"fairspan.stats.{module}.CHUNK", 30_000)
    tracemalloc.start()
    try:
        parts = change_of(queries, np.random.default_rng(3), 499)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6e6
    assert ends(parts.psi) == pytest.approx(ends(whole.psi), rel=1e-9)
    assert ends(parts.overall) == pytest.approx(ends(whole.overall), rel=1e-9)
    assert (parts.p_value, parts.p_psi) == (whole.p_value, whole.p_psi)


def test_refusals() -> None:
    good = {"values": [0.5, 0.2, 0.1, 0.9], "groups": [1, 2, 1, 2], "clusters": [0, 0, 1, 1]}
    rng = np.random.default_rng(0)
    assert query_effects(**good, rng=rng, draws=9).counts.queries == 4
    wrong = [
        ({"values": [0.5, np.nan, 0.1, 0.9]}, r"values has 1 entries that are not finite, the first in row 1"),
        ({"values": [0.5, 0.2, -0.1, 0.9]}, r"values of a metric are never below 0, got -0.1 in row 2"),
        ({"values": [0.5, 0.2, 0.1]}, r"columns differ in length: values 3, groups 4, clusters 4"),
        ({"values": []}, r"at least one number"),
        ({"clusters": [0, 0, 0, 0]}, r"at least 2 different clusters, got 1"),
        ({"clusters": ["a", None, "b", "b"]}, r"a label is missing"),
        ({"groups": [1, 3, 1, 3]}, r"group 2 of 3 has no queries"),
        ({"groups": [1, 1.5, 1, 2]}, r"groups must be whole numbers"),
        ({"groups": [1, np.nan, 1, 2]}, r"groups has 1 entries that are not finite"),
        ({"groups": [[1, 2], [1, 2]]}, r"groups must be one column"),
        ({"draws": 0}, r"draws must be at least 1, got 0"),
        ({"level": 1.0}, r"level must be between 0 and 1"),
    ]
    for change, message in wrong:
        with pytest.raises(StatisticsError, match=message):
            query_effects(**({"draws": 9} | good | change), rng=rng)
    both = {"first": good["values"], "second": good["values"], "groups": good["groups"], "clusters": good["clusters"]}
    with pytest.raises(StatisticsError, match="columns differ in length: second 3"):
        query_change(**(both | {"second": [0.5, 0.2, 0.1]}), rng=rng)
    with pytest.raises(StatisticsError, match="second has 1 entries that are not finite"):
        query_change(**(both | {"second": [0.5, 0.2, 0.1, np.inf]}), rng=rng)
    with pytest.raises(StatisticsError, match="swaps must be at least 1, got 0"):
        query_change(**both, rng=rng, swaps=0)
