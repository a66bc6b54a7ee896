"""Cosines against loops over all pairs, and the jackknife by hand."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.typing import ArrayLike
from scipy import stats

from fairspan.stats.estimates import Estimates
from fairspan.stats.geometry import cosines, document_means, mean_without, slope_weights
from fairspan.stats.jackknife import Fit
from tests.studies.audit.test_audit import cosine


def means_of(*clouds: np.ndarray, paired: bool = True) -> Fit:
    """Of the mean cosine of each cloud."""
    numbers = range(len(clouds))
    samples = [[*numbers]] if paired else [[number] for number in numbers]
    return document_means([cosines(cloud) for cloud in clouds], samples, of_pairs=True)


def contrast(fit: Fit, weights: ArrayLike) -> Estimates[float]:
    return fit.contrasts(np.atleast_2d(np.asarray(weights, float)))[0]


def cloud(count: int, dimensions: int = 8, seed: int = 0, common: float = 0.7) -> np.ndarray:
    """Vectors around a common direction, of very different norms."""
    rng = default_rng(seed)
    return (rng.normal(size=(count, dimensions)) + common) * rng.lognormal(size=(count, 1))


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def pairs_mean(vectors: Sequence[np.ndarray]) -> float:
    """Every pair of different texts, one by one."""
    return float(np.mean([cosine(a, b) for a, b in combinations(vectors, 2)]))


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=25)
def test_mean_cosine_is_that_of_all_pairs(count: int, dimensions: int, seed: int) -> None:
    vectors = cloud(count, dimensions, seed)
    assert cosines(vectors).mean() == pytest.approx(pairs_mean(vectors), abs=1e-12)


def test_vectors_of_any_length_and_equal_ones() -> None:
    """Of any vector that float32 holds."""
    vectors = cloud(7)
    huge = vectors * np.array([1e-30, 1e30, 1, 1e-20, 3, 1e25, 1e-25])[:, None]
    assert cosines(huge).mean() == pytest.approx(cosines(vectors).mean(), rel=1e-9)
    found = contrast(means_of(np.tile(np.float32([[0.3, -0.2, 0.7]]), (9, 1))), 1)
    assert [found.estimate, found.low, found.high] == pytest.approx([1.0] * 3, abs=1e-7)


def test_values_without_each_document() -> None:
    """Each left out by hand, and what is left measured again."""
    vectors = cloud(8)
    by_hand = [cosines(np.delete(vectors, i, axis=0)).mean() for i in range(8)]
    assert mean_without(cosines(vectors), of_pairs=True) == pytest.approx(
        np.array(by_hand), abs=1e-12
    )


def test_two_samples_have_the_documents_of_both_left_out() -> None:
    """Of 9 and 15 documents, one of the 24 at a time. The degrees of freedom are of the smaller."""
    rng = default_rng(1)
    first = rng.normal(size=9)
    second = 3 * rng.normal(size=15)
    found = contrast(document_means([first, second], [[0], [1]], of_pairs=False), [-1, 1])
    estimate = second.mean() - first.mean()
    without = [second.mean() - np.delete(first, place).mean() for place in range(9)]
    without += [np.delete(second, place).mean() - first.mean() for place in range(15)]
    error = np.sqrt(23 / 24 * ((np.array(without) - estimate) ** 2).sum())
    assert found.degrees_of_freedom == 8
    assert (found.estimate, found.standard_error) == pytest.approx((estimate, error))
    # Welch's error is that of both means, which the jackknife exceeds by a factor near 1.
    welch = np.hypot(stats.sem(first), stats.sem(second))
    assert 1 < error / welch < 1.06


def test_differences_and_slopes_are_paired() -> None:
    """What the documents share cancels: taken apart, the same clouds give a difference far less
    sure.
    """
    rng = default_rng(0)
    first = cloud(60, common=0.4)
    clouds = [first, first + 0.1 + 0.05 * rng.normal(size=first.shape), first + 0.2]
    found = means_of(*clouds)
    change = contrast(found, [-1, 0, 1])
    assert change.estimate == pytest.approx(pairs_mean(clouds[2]) - pairs_mean(first))
    assert change.low < change.estimate < change.high
    apart = contrast(means_of(*clouds, paired=False), [-1, 0, 1])
    assert apart.estimate == pytest.approx(change.estimate)
    assert change.high - change.low < 0.5 * (apart.high - apart.low)
    lengths = [50, 100, 400]
    slope = contrast(found, slope_weights(lengths))
    expected = np.polyfit(np.log2(lengths), [pairs_mean(rows) for rows in clouds], 1)[0]
    assert slope.estimate == pytest.approx(expected)
    assert slope.low < expected < slope.high


def test_too_few_documents_leave_no_interval() -> None:
    """Without one of two documents there is no pair."""
    found = contrast(means_of(cloud(2)), 1)
    assert found.estimate == pytest.approx(pairs_mean(cloud(2)))
    assert np.isnan([found.standard_error, found.low, found.high, found.p]).all()
