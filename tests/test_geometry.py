"""Spread of vectors against loops over all pairs, the jackknife by hand, and simulated coverage."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from fairspan.stats.geometry import (
    cosine_without,
    cosines,
    distance_without,
    distances,
    slope_weights,
)
from fairspan.stats.intervals import Interval
from fairspan.stats.resampling import Jackknife, influences
from tests.test_audit import cosine

MEASURES = ("cosine", "distance")


def measured(measure: str, vectors: Any) -> float:
    """As observed."""
    return float({"cosine": cosines, "distance": distances}[measure](vectors).mean())


def without(measure: str, vectors: Any) -> np.ndarray:
    """The same without each document."""
    return cosine_without(cosines(vectors)) if measure == "cosine" else distance_without(vectors)


def jackknife(measure: str, *clouds: np.ndarray, paired: bool = True) -> Jackknife:
    estimates = np.array([measured(measure, one) for one in clouds])
    tables = [without(measure, one)[:, None] for one in clouds]
    if paired:
        return Jackknife(estimates, (influences(np.hstack(tables)),))
    own = [influences(table) for table in tables]
    return Jackknife(
        estimates, tuple(one * row for one, row in zip(own, np.eye(len(own)), strict=True))
    )


def interval(measure: str, vectors: np.ndarray) -> Interval:
    return jackknife(measure, vectors).contrast(np.array([1.0]))


def cloud(count: int, dimensions: int = 8, seed: int = 0, common: float = 0.7) -> np.ndarray:
    """Vectors around a common direction, of very different norms."""
    rng = default_rng(seed)
    return (rng.normal(size=(count, dimensions)) + common) * rng.lognormal(size=(count, 1))


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def pairs_mean(vectors: Sequence[np.ndarray]) -> float:
    """Every pair of different texts, one by one."""
    return float(np.mean([cosine(a, b) for a, b in combinations(vectors, 2)]))


def distance_by_hand(vectors: Sequence[np.ndarray]) -> float:
    """√(1 − 2 u·m + c) of each row, m and c over the other rows and their pairs."""
    found = []
    for i, row in enumerate(rows := unit(np.asarray(vectors, np.float64))):
        others = np.delete(rows, i, axis=0)
        among = np.mean([a @ b for a, b in combinations(others, 2)])
        found.append(np.sqrt(max(0.0, 1 - 2 * (others @ row).mean() + among)))
    return float(np.mean(found))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_mean_cosine_is_that_of_all_pairs(count: int, dimensions: int, seed: int) -> None:
    vectors = cloud(count, dimensions, seed)
    assert measured("cosine", vectors) == pytest.approx(pairs_mean(vectors), abs=1e-12)


@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_distances_are_to_the_other_documents(count: int, dimensions: int, seed: int) -> None:
    vectors = cloud(count, dimensions, seed)
    assert measured("distance", vectors) == pytest.approx(distance_by_hand(vectors), abs=1e-7)


def test_distances_are_the_plain_ones_but_for_the_number_of_documents() -> None:
    """With 2000 documents the plain means are at hand; with 20 they lie lower, and ours where 2000
    put them.

    Twenty vectors a cloud, 100 clouds: the means of both have standard errors of about 0.003.
    """
    many = unit(cloud(2000, 50, common=0.4))
    centre = many.mean(0)
    euclidean = np.linalg.norm(many - centre, axis=1).mean()
    assert measured("distance", many) == pytest.approx(euclidean, rel=1e-3)
    rng = default_rng(1)
    few = [many[rng.choice(2000, 20, replace=False)] for _ in range(100)]
    plain = np.mean([np.linalg.norm(rows - rows.mean(0), axis=1).mean() for rows in few])
    assert plain < euclidean - 0.02, "the premise: a document's share of its own centroid"
    assert np.mean([measured("distance", rows) for rows in few]) == pytest.approx(
        euclidean, abs=0.01
    )


def test_norms_do_not_matter() -> None:
    """Of any vector that float32 holds."""
    vectors = cloud(7)
    huge = vectors * np.array([1e-30, 1e30, 1, 1e-20, 3, 1e25, 1e-25])[:, None]
    for measure in MEASURES:
        assert measured(measure, huge) == pytest.approx(measured(measure, vectors), rel=1e-9)


def test_identical_vectors() -> None:
    same = np.tile(np.array([[0.3, -0.2, 0.7]], np.float32), (9, 1))
    expected = {"cosine": 1.0, "distance": 0.0}
    for measure in MEASURES:
        # A distance is the root of a squared one that is 0 up to rounding.
        assert measured(measure, same) == pytest.approx(expected[measure], abs=1e-7)
        found = interval(measure, same)
        assert [found.low, found.high] == pytest.approx([expected[measure]] * 2, abs=1e-7)


@pytest.mark.parametrize("measure", MEASURES)
def test_values_without_each_document(measure: str) -> None:
    """Each left out by hand, and what is left measured again."""
    vectors = cloud(8)
    by_hand = [measured(measure, np.delete(vectors, i, axis=0)) for i in range(8)]
    assert without(measure, vectors) == pytest.approx(np.array(by_hand), abs=1e-7)


def test_the_jackknife_by_hand() -> None:
    """Of a mean it is the standard error of the mean, and the interval is that of a t test."""
    stats = pytest.importorskip("scipy.stats")
    values = default_rng(0).normal(size=12)
    left = np.array([np.delete(values, i).mean() for i in range(12)])
    found = Jackknife(np.array([values.mean()]), (influences(left[:, None]),)).contrast(
        np.array([1.0])
    )
    assert found.standard_error == pytest.approx(values.std(ddof=1) / 12**0.5, rel=1e-12)
    expected = stats.ttest_1samp(values, 0)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx(
        tuple(expected.confidence_interval(0.95)), rel=1e-9
    )


def test_two_samples_are_welchs() -> None:
    """Means of two samples of different size, against scipy's t test for unequal variances."""
    stats = pytest.importorskip("scipy.stats")
    rng = default_rng(1)
    first, second = rng.normal(size=9), 3 * rng.normal(size=15)
    own = []
    for number, values in enumerate((first, second)):
        left = np.array([np.delete(values, i).mean() for i in range(len(values))])
        own.append(influences(left[:, None]) * np.eye(2)[number])
    found = Jackknife(np.array([first.mean(), second.mean()]), tuple(own)).contrast(
        np.array([-1.0, 1.0])
    )
    expected = stats.ttest_ind(second, first, equal_var=False)
    assert found.degrees_of_freedom == pytest.approx(expected.df, rel=1e-9)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)


def test_differences_and_slopes_are_paired() -> None:
    """What the documents share cancels: taken apart, the same clouds give a difference far less
    sure.
    """
    rng = default_rng(0)
    first = cloud(60, common=0.4)
    clouds = [first, first + 0.1 + 0.05 * rng.normal(size=first.shape), first + 0.2]
    found = jackknife("cosine", *clouds)
    change = found.contrast(np.array([-1, 0, 1]))
    assert change.estimate == pytest.approx(pairs_mean(clouds[2]) - pairs_mean(first))
    assert change.low < change.estimate < change.high
    apart = jackknife("cosine", *clouds, paired=False).contrast(np.array([-1, 0, 1]))
    assert apart.estimate == pytest.approx(change.estimate)
    assert change.high - change.low < 0.5 * (apart.high - apart.low)
    lengths = [50, 100, 400]
    slope = found.contrast(slope_weights(lengths))
    expected = np.polyfit(np.log2(lengths), [pairs_mean(rows) for rows in clouds], 1)[0]
    assert slope.estimate == pytest.approx(expected)
    assert slope.low < expected < slope.high


TOPICS = unit(default_rng(5).normal(size=(8, 32)))
FIRST = np.eye(32)[0]


def topics(count: int, rng: np.random.Generator) -> np.ndarray:
    """Eight topics, one of them in two documents of five."""
    chosen = rng.choice(8, count, p=np.array([8, 4, 2, 2, 1, 1, 1, 1]) / 20)
    return 0.5 * FIRST + 0.7 * TOPICS[chosen] + 0.08 * rng.normal(size=(count, 32))


def cosine_of_many(vectors: np.ndarray) -> float:
    """c = ‖μ‖², less the share of every vector in the mean."""
    square = float((unit(vectors).mean(0) ** 2).sum())
    return square - (1 - square) / (len(vectors) - 1)


@pytest.mark.slow
def test_paired_differences_and_slopes_cover() -> None:
    """Documents at four lengths, each closer to the common direction than before, 300 times."""
    rng = default_rng(12)
    lengths, pulls = [50, 100, 200, 400], [0.0, 0.1, 0.2, 0.4]

    def draw(count: int) -> list[np.ndarray]:
        documents = topics(count, rng)
        return [
            documents + pull * FIRST + 0.05 * rng.normal(size=documents.shape) for pull in pulls
        ]

    means = [cosine_of_many(vectors) for vectors in draw(100_000)]
    truth = {
        "difference": means[3] - means[0],
        "slope": float(np.polyfit(np.log2(lengths), means, 1)[0]),
    }
    hits = dict.fromkeys(truth, 0)
    for _ in range(300):
        sample = jackknife("cosine", *draw(60))
        for name, found in (
            ("difference", sample.contrast(np.array([-1, 0, 0, 1]))),
            ("slope", sample.contrast(slope_weights(lengths))),
        ):
            hits[name] += found.low <= truth[name] <= found.high
    assert all(0.91 <= count / 300 <= 0.98 for count in hits.values()), hits


def test_too_few_documents_leave_no_interval() -> None:
    """Without one of two documents there is no pair, and without one of three no distance to a
    centre.
    """
    for measure, count in (("cosine", 2), ("distance", 3)):
        found = interval(measure, cloud(count))
        assert found.estimate == pytest.approx(measured(measure, cloud(count)))
        assert np.isnan([found.standard_error, found.low, found.high, found.p_value]).all()
