"""Rows that share regressors and clusters are one weighted row, and no number changes."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Groups, group
from fairspan.stats.contrasts import robust
from fairspan.stats.effects import _limit_means, _permuted_means, gini, gini_test
from fairspan.stats.ols import fit, merge


def repeated(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Groups, Groups]:
    """Six sets of four segments; rows of one segment at one position differ in nothing but their value."""
    sets = np.repeat(np.arange(6), 40)
    positions = np.tile(np.repeat(np.arange(4), 10), 6)
    segments = sets * 4 + rng.integers(0, 4, len(sets))
    design = np.column_stack([np.ones(len(sets)), *(positions == p for p in (1, 2, 3)), np.log(segments + 2)])
    values = design @ [0.6, -0.1, -0.05, -0.2, 0.03] + rng.normal(0, 0.05, len(sets)) + 0.04 * (sets % 3)
    return values, design, group(sets), group(segments)


@pytest.mark.parametrize("inference", ["cr1", "z", "cr2", "cr3", "wild", "two-way"])
def test_merged_rows_give_what_all_rows_give(inference: str) -> None:
    """Every inference, against the same fit on the rows as they are."""
    values, design, sets, segments = repeated(np.random.default_rng(1))
    merged = merge(sets, segments, group(design[:, 1] + 2 * design[:, 2] + 3 * design[:, 3]))
    assert len(merged.weights) < len(values) / 2
    short = merged.fit(values, design[merged.first])
    weights = np.eye(5)
    found, expected = (
        robust(one, first, second, inference=inference, rng=np.random.default_rng(5)).contrasts(weights, 0.95)
        for one, first, second in (
            (short, merged.labels(sets), merged.labels(segments)),
            (fit(values, design), sets, segments),
        )
    )
    for name in ("estimate", "standard_error", "degrees_of_freedom", "p_value", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, err_msg=name)


def test_a_merged_fit_counts_its_observations() -> None:
    """Three weighted rows that stand for four cannot fit four coefficients."""
    with pytest.raises(StatisticsError, match="4 rows cannot fit 4 coefficients"):
        fit(np.ones(4), np.eye(4), observations=4)
    with pytest.raises(StatisticsError, match="9 rows cannot fit 4 coefficients"):
        fit(np.ones(3), np.ones((3, 4)), observations=9)
    assert fit([1.0, 2.0], np.eye(2), observations=7).observations == 7


def test_the_normal_limit_has_the_moments_of_permutations() -> None:
    """Covariances of 20,000 draws of both, on rows of unequal variance and skew."""
    rng = np.random.default_rng(0)
    table = 0.5 + rng.exponential(0.1, (60, 4)) * rng.uniform(0.2, 2, (60, 1))
    drawn, limit = (draw(table, np.random.default_rng(1), 20_000) for draw in (_permuted_means, _limit_means))
    np.testing.assert_allclose(limit.mean(0), drawn.mean(0), atol=4 * drawn.std() / 20_000**0.5)
    # The standard error of a variance over m draws is a share √(2/m) = 1 % of it.
    np.testing.assert_allclose(np.cov(limit.T), np.cov(drawn.T), atol=0.05 * np.cov(drawn.T).max())


@pytest.mark.parametrize("effect", [0.0, 0.004, 0.008])
def test_many_documents_give_the_p_value_of_permutations(effect: float) -> None:
    """600 documents, which take the limit, beside 1,999 true permutations of them."""
    rng = np.random.default_rng(3)
    table = rng.uniform(0.4, 0.8, (600, 3)) + effect * np.array([1, 0, -1])
    ours = gini_test(
        table.ravel(), np.tile([1, 2, 3], 600), np.repeat(np.arange(600), 3), rng=np.random.default_rng(4), draws=1999
    )
    permuted = gini(_permuted_means(table, np.random.default_rng(5), 1999))
    theirs = (1 + np.count_nonzero(permuted >= gini(table.mean(0)))) / 2000
    # Two p-values of 2,000 draws each differ by chance with a standard error of at most √(2·¼/2000) = 0.016.
    assert abs(ours - theirs) < 0.05
