"""Choosing a candidate: differences against a jackknife by hand, the rule, the crossing, and what
the figures say.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

from fairspan.stats import choice
from fairspan.stats.choice import (
    CHOSEN,
    Choice,
    Sample,
    choose,
    gain,
    judge,
    lacking,
    make_sample,
    prefer,
)
from fairspan.stats.intervals import Interval, t_interval
from fairspan.stats.queries import of_groups, psi_interval, shortfall
from fairspan.stats.resampling import PositionSums, change_of, jackknife

PLAIN = "plain"
EXACT = 1e-12
"""Sums of some hundred values between 0 and 1, in another order."""
FINE, E = Interval(0.0, -0.0099, 0.01), 1e-9


def uneven(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """12 clusters of 2 to 6 queries, in three groups or in none."""
    rng = default_rng(seed)
    labels = np.repeat(np.arange(12), rng.integers(2, 7, 12))
    groups = rng.integers(0, 4, len(labels))
    return {name: rng.random(len(labels)) for name in (PLAIN, "a", "b")}, groups, labels


def by_means(
    means: Mapping[str, Sequence[float]], noise: float = 0.0, clusters: int = 40
) -> Sample:
    """Every cluster has a query in each group; arms have exactly these means there, and noise of
    their own.
    """
    rng, places = default_rng(1), len(next(iter(means.values())))
    drawn = {name: noise * rng.uniform(-1, 1, (clusters, places)) for name in means}
    values = {
        name: (np.array(means[name]) + own - own.mean(0)).ravel() for name, own in drawn.items()
    }
    return make_sample(
        values, np.tile(np.arange(1, places + 1), clusters), np.repeat(np.arange(clusters), places)
    )


def single(values: Mapping[str, np.ndarray]) -> Sample:
    """One query a cluster, in no group."""
    count = len(next(iter(values.values())))
    return make_sample(values, np.zeros(count, int), np.arange(count))


def both(sample: Sample) -> PositionSums:
    return sample.sums[PLAIN].beside(sample.sums["a"])


def psi_of(values: np.ndarray, groups: np.ndarray) -> float:
    means = [values[groups == number].mean() for number in range(1, groups.max() + 1)]
    return float(1 - min(means) / max(means))


def test_a_sample_adds_up_by_cluster_and_group() -> None:
    """All of it, some clusters only, and with one candidate in some clusters and another in the
    rest.
    """
    values, groups, labels = uneven()
    sample, first = make_sample(values, groups, labels), np.arange(12) % 3 == 0
    crossed, some = sample.crossed(PLAIN, ("a", "b"), first), sample.of(first)
    mixed = np.where(first[labels], values["b"], values["a"])
    parts = [groups >= 0, *(groups == number for number in (1, 2, 3))]
    for found, own, kept in (
        (sample.sums["a"], values["a"], range(12)),
        (crossed.sums[CHOSEN], mixed, range(12)),
        (some.sums["b"], values["b"], range(0, 12, 3)),
    ):
        sums = [[own[(labels == one) & where].sum() for where in parts] for one in kept]
        np.testing.assert_allclose(found.sums, sums, atol=EXACT)
    assert some.clusters == 4
    assert choice.quality([some], "a") == pytest.approx(values["a"][first[labels]].mean())
    assert choice.unfairness([crossed], CHOSEN) == pytest.approx(psi_of(mixed, groups))


@pytest.mark.parametrize("seed", range(2))
def test_differences_are_those_of_a_jackknife_by_hand(seed: int) -> None:
    """The error of PSI is larger than its jackknife's: the best and the weakest group are found in
    the same data.
    """
    values, groups, clusters = uneven(seed)
    sample, (one, two) = make_sample(values, groups, clusters), (values[PLAIN], values["a"])

    def psi_gap(kept: np.ndarray) -> float:
        return psi_of(two[kept], groups[kept]) - psi_of(one[kept], groups[kept])

    for found, gap, columns, most in (
        (
            gain([sample], PLAIN, "a"),
            lambda kept: float((two - one)[kept].mean()),
            [groups >= 0],
            1,
        ),
        (psi_interval(both(sample)), psi_gap, [groups == number for number in (1, 2, 3)], 3),
    ):
        whole, inside = gap(groups >= 0), np.unique(clusters[np.any(columns, axis=0)])
        squares = [(gap(clusters != left) - whole) ** 2 for left in inside]
        error = (sum(squares) * (1 - 1 / len(inside))) ** 0.5
        freedom = min(len(np.unique(clusters[where])) for where in columns) - 1
        assert (found.estimate, found.degrees_of_freedom) == pytest.approx(
            (whole, freedom), abs=EXACT
        )
        assert error - EXACT < found.standard_error < most * error + EXACT
        half = stats.t.ppf(0.975, freedom) * found.standard_error
        assert (found.low, found.high) == pytest.approx((whole - half, whole + half), abs=1e-9)


@pytest.mark.parametrize(
    "groups", [(1.0,) * 5, (1.0, 1.0, 0.75, 0.75, 0.75), (1.0, 0.75, 0.75, 0.75, 0.5)]
)
def test_psi_does_not_fall_because_quality_rises(groups: tuple[float, ...]) -> None:
    """Hits of .4 in the best group become .8, and PSI stays: at one-sided 5 % a fall is rarely
    shown.

    A share of 5 % over 300 runs has a standard error of 1.3 %. The jackknife of PSI itself shows
    one in 7 to 18 %.
    """
    rng, shares, shown = default_rng(0), np.tile(groups, 100), [0, 0]
    numbers, clusters = np.tile(np.arange(1, 6), 100), np.repeat(np.arange(100), 5)
    for _ in range(300):
        chance = rng.random(500)
        values = {
            name: 1.0 * (chance < share * shares) for name, share in ((PLAIN, 0.4), ("a", 0.8))
        }
        sample = make_sample(values, numbers, clusters)
        narrow = jackknife(both(sample), change_of(of_groups(shortfall)), range(1, 6))
        for place, found in enumerate((psi_interval(both(sample)), narrow)):
            shown[place] += found.upper(0.95) < 0
    print(
        f"a fall of PSI is shown in {shown[0] / 3:.1f} % of runs, "
        f"by the jackknife in {shown[1] / 3:.1f} %"
    )
    assert shown[0] <= 0.05 * 300 < shown[1]


def test_tasks_count_equally_and_have_no_psi_without_groups() -> None:
    plain, grouped = (
        single({PLAIN: np.ones(9), "a": np.ones(9)}),
        by_means({PLAIN: [0.8, 0.4], "a": [0.6, 0.6]}),
    )
    assert np.isnan(choice.unfairness([plain], "a"))
    two = (
        choice.quality([plain, grouped], PLAIN),
        choice.unfairness([plain, grouped, grouped], PLAIN),
    )
    assert two == pytest.approx((0.8, 0.5))


def test_the_best_is_preferred_and_of_equal_ones_the_first() -> None:
    sample, other = (
        by_means({"a": [0.6, 0.4], "b": [0.5, 0.5], "c": [best, best]}) for best in (0.4, 0.8)
    )
    assert prefer([sample], ["c", "b", "a"]) == "b"
    assert prefer([sample], ["c", "a", "b"]) == "a"
    assert prefer([sample, other], ["a", "b", "c"]) == "c"


def halves(seed: int, clusters: Sequence[int]) -> list[np.ndarray]:
    rng = default_rng(seed)
    return [rng.permutation(count) % 2 == 0 for count in clusters]


def difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray]
) -> tuple[float, float, float]:
    """Second minus first, by task: the mean of tasks with its error, and with its upper bound of
    97.5 %.
    """
    changes = [two - one for one, two in zip(first, second, strict=True)]
    parts = np.array([own.var(ddof=1) / len(own) for own in changes]) / len(changes) ** 2
    freedom = parts.sum() ** 2 / (parts**2 / [len(own) - 1 for own in changes]).sum()
    middle, error = float(np.mean([own.mean() for own in changes])), float(parts.sum() ** 0.5)
    return middle, error, middle + stats.t.ppf(0.975, freedom) * error


def prefer_by_hand(values: Mapping[str, Sequence[np.ndarray]], names: Sequence[str]) -> str:
    return max(names, key=lambda name: np.mean([own.mean() for own in values[name]]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(61,), (40, 25)], ids=["one task", "two tasks"])
def test_every_cluster_is_judged_by_the_half_that_did_not_choose(
    sizes: tuple[int, ...], seed: int
) -> None:
    rng, first, names = default_rng(10 + seed), halves(seed, sizes), ["b", "c", "a"]
    levels = {PLAIN: 0.0, "a": 0.02, "b": 0.04, "c": 0.06}
    values = {
        name: [rng.normal(level, 0.15, size) for size in sizes] for name, level in levels.items()
    }

    def half(side: bool) -> str:
        own = {
            name: [v[f == side] for v, f in zip(every, first, strict=True)]
            for name, every in values.items()
        }
        return prefer_by_hand(own, names)

    one, two = half(True), half(False)
    values[CHOSEN] = [np.where(*own) for own in zip(first, values[two], values[one], strict=True)]
    samples = [single({name: values[name][task] for name in levels}) for task in range(len(sizes))]
    found = choose(samples, PLAIN, names, seed)
    assert found.preferred == (one, two)
    assert found.name == (
        one if one == two else prefer_by_hand(values, [n for n in names if n in (one, two)])
    )
    for task, sample in enumerate(found.checked):
        kept = first[task] == (found.name == two) if one != two else np.full(sizes[task], True)
        for name in (PLAIN, found.name):
            np.testing.assert_array_equal(sample.sums[name].sums[:, 0], values[name][task][kept])
    assert found.named_gain == choice.gain(found.checked, PLAIN, found.name)
    for interval, name in ((found.gain, CHOSEN), (found.gains[found.name], found.name)):
        expected = difference(values[PLAIN], values[name])
        assert (interval.estimate, interval.standard_error, interval.high) == pytest.approx(
            expected, abs=1e-9
        )
    highest = {name: difference(values[PLAIN], values[name])[2] for name in names}
    assert {name: one.high for name, one in found.gains.items()} == pytest.approx(highest)


def test_what_wins_in_one_half_only_is_no_gain() -> None:
    """Each half prefers what the other one loses by.

    What is best on all clusters is preferred by neither.
    """
    (first,) = halves(3, [40])
    values = {
        PLAIN: np.full(40, 0.5),
        "a": np.where(first, 0.8, 0.4),
        "b": np.where(first, 0.4, 0.8),
    }
    sample = single({**values, "best": np.full(40, 0.7)})
    found, other = (choose([sample], PLAIN, ["best", "b", "a"], seed) for seed in (3, 4))
    assert (found.preferred, found.name) == (("a", "b"), "b")
    assert (found.gain.estimate, found.gains["b"].estimate) == pytest.approx((-0.1, 0.1))
    assert other.gain.estimate > found.gain.estimate + EXACT


def chosen(
    low: float = 0.1, mid: float = 0.2, high: float = 0.3, overall: float = 0.1, most: float = 0.3
) -> Choice:
    gains = {"a": Interval(0.2, overall, min(0.3, most)), "b": Interval(0.0, -0.1, most)}
    checked = Interval(mid, low, high)
    return Choice("a", ("a", "a"), (), checked, checked, gains)


@pytest.mark.parametrize(
    ("own", "changes", "finding"),
    [
        (chosen(E, 0.02, 0.04, overall=E), [], "use"),
        (chosen(E, 0.004, 0.008, most=0.009), [FINE, FINE], "use"),
        (chosen(0.0, 0.02, 0.04), [FINE], "probably"),
        (chosen(E, 0.02, 0.04, overall=0.0), [FINE], "probably"),
        # A loss is shown and may be the margin; is shown and is less; is not shown; is on one of
        # two.
        (chosen(), [Interval(-0.005, -0.01, -E)], "loss"),
        (chosen(), [Interval(-0.005, -0.01 + E, -E)], "use"),
        (chosen(), [Interval(-0.02, -0.04, 0.0)], "probably"),
        (chosen(), [FINE, Interval(-0.02, -0.03, -0.01)], "loss"),
        (chosen(), [FINE, Interval(0.0, -0.01, 0.01)], "probably"),
        (chosen(-0.3, -0.2, -0.1, most=0.0), [Interval(-0.02, -0.03, -0.01)], "loss"),
        # A gain beyond the margin is ruled out, of the choice and of every candidate.
        (chosen(-0.02, 0.001, 0.01, most=0.01), [FINE], "no gain"),
        (chosen(-0.02, 0.001, 0.01 + E, most=0.01), [FINE], "probably"),
        (chosen(-0.02, 0.001, 0.01, most=0.01 + E), [FINE], "probably"),
        (chosen(-0.02, 0.0, 0.01, most=0.01 + E), [FINE], "open"),
        # Without errors nothing is shown.
        (chosen(np.nan, 0.02, np.nan), [], "probably"),
        (chosen(), [Interval(0.1)], "probably"),
    ],
)
def test_what_the_figures_say(own: Choice, changes: list[Interval], finding: str) -> None:
    assert judge(own, changes, 0.01) == finding


@pytest.mark.parametrize(
    ("estimate", "error", "freedom"), [(0.02, 0.01, 9), (-0.01, 0.02, 3.7), (1, 1e-9, 5)]
)
def test_the_probability_is_that_of_t(estimate: float, error: float, freedom: float) -> None:
    """With a flat prior the truth lies around the estimate as t does."""
    gained = t_interval(estimate, error, freedom)
    stated = Choice("a", ("a", "a"), (), gained, gained, {}).probability
    assert stated == pytest.approx(stats.t.sf(0, freedom, loc=estimate, scale=error))


@pytest.mark.parametrize("gap", [0.006, 0.012, 0.02])
def test_with_what_is_lacking_four_in_five_are_decided(gap: float) -> None:
    """If the estimate is the truth. 400 samples at 80 %: a standard error of 2 %, and the number
    has two digits.
    """
    more = lacking(t_interval(gap, 0.01, 99), 100, gap) or 0
    drawn = default_rng(0).normal(gap, 0.1, (400, 100 + more))
    error = drawn.std(1, ddof=1) / (100 + more) ** 0.5
    lower = drawn.mean(1) - stats.t.ppf(0.975, 99 + more) * error
    assert (lower > 0).mean() == pytest.approx(0.8, abs=0.08)


def test_more_is_lacking_the_larger_the_error() -> None:
    """About (1.96 + 0.84)² · 100 · (error / gap)² clusters in all, and a little more for t."""
    assert [lacking(t_interval(0.02, error, 99), 100, 0.02) for error in (0.005, 0.01, 0.04)] == [
        0,
        99,
        3100,
    ]
    # Nothing to be shown, more than 100,000 to show it, or no error.
    every = [lacking(t_interval(0.02, 0.01, 99), 100, gap) for gap in (-0.01, 0.0, 1e-5)]
    assert [*every, lacking(Interval(0.02), 100, 0.02)] == [None] * 4
