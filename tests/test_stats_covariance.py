"""Clustered covariances against statsmodels and their definitions written out with N×N matrices."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fairspan.stats.arrays import group
from fairspan.stats.contrasts import Robust, regress, robust
from fairspan.stats.distributions import f_above
from fairspan.stats.least_squares import (
    Clustered,
    LeastSquares,
    cluster,
    cr1,
    cr2,
    fit,
    hotelling,
    two_way,
)
from fairspan.stats.positions import difference_weights, pair_weights, position_effects
from tests.test_stats_rows import Rows, dummies, make_rows, uneven_rows

MAKERS: list[Callable[..., Rows]] = [make_rows, uneven_rows]
# Both sides solve the same well-conditioned least-squares problem in float64.
CLOSE = 1e-8


@pytest.fixture(params=MAKERS, ids=["latin", "uneven"])
def rows(request: pytest.FixtureRequest) -> Rows:
    made: Rows = request.param(default_rng(11), effects=(0.0, -0.02, -0.05, -0.04))
    return made


def design(rows: Rows) -> np.ndarray:
    return dummies(rows.positions)


def clustered_by_set(rows: Rows) -> Clustered:
    return cluster(fit(rows.values, design(rows)), group(rows.sets))


def judged(fitted: LeastSquares, rows: Rows, inference: str) -> Robust:
    return robust(fitted, group(rows.sets), group(rows.segments), inference=inference)


# Of β0, β2, β3, β4: the differences from position 1, and the means of positions.
DIFFERENCES, MEANS = np.eye(4)[1:], np.column_stack([np.ones(4), np.eye(4)[:, 1:]])


def statsmodels_fit(rows: Rows, groups: np.ndarray, use_t: bool) -> Any:
    api = pytest.importorskip("statsmodels.api")
    return api.OLS(rows.values, design(rows)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=use_t
    )


@pytest.mark.parametrize(("inference", "use_t"), [("cr1", True), ("z", False)])
def test_cr1_is_statsmodels(rows: Rows, inference: str, use_t: bool) -> None:
    theirs = statsmodels_fit(rows, rows.sets, use_t)
    ours = judged(fit(rows.values, design(rows)), rows, inference)
    found = ours.contrasts(np.eye(4))
    assert_allclose(ours.covariance, theirs.cov_params(), rtol=CLOSE, atol=1e-14)
    assert_allclose(found.standard_error, theirs.bse, rtol=CLOSE)
    assert_allclose(found.p_value, theirs.pvalues, rtol=CLOSE)
    assert_allclose(np.stack([found.low, found.high], 1), theirs.conf_int(), rtol=CLOSE)
    wald = theirs.wald_test(DIFFERENCES, use_f=use_t, scalar=True)
    assert ours.joint(DIFFERENCES) == pytest.approx(wald.pvalue, rel=CLOSE)


def test_two_way_is_statsmodels(rows: Rows) -> None:
    """Crossed clusters, so that the three terms differ, with effects strong enough that V_ab is
    less than both.
    """
    rng = default_rng(3)
    shared = rng.integers(0, 15, len(rows.values))
    rows = replace(
        rows, values=rows.values + rng.normal(0, 0.2, (15, 4))[shared, rows.positions - 1]
    )
    theirs = statsmodels_fit(rows, np.stack([rows.sets, shared], 1), use_t=True)
    fitted = fit(rows.values, design(rows))
    found = two_way(fitted, group(rows.sets), group(shared))
    assert_allclose(found, theirs.cov_params(), rtol=CLOSE, atol=1e-14)
    both = robust(fitted, group(rows.sets), group(shared), inference="two-way").contrasts(np.eye(4))
    assert_allclose(both.p_value, theirs.pvalues, rtol=CLOSE)
    assert both.degrees_of_freedom[0] == 8


def test_two_way_that_is_not_positive_takes_the_wide_side() -> None:
    """Residuals that cancel inside both kinds of cluster make V_a = V_b = 0: −V_ab is left."""
    first, second = group(np.repeat([0, 1, 2], 3)), group(np.tile([0, 1, 2], 3))
    sign = np.array([1.0, -1, 0, -1, 1, 0, 0, 0, 0])
    fitted = fit(sign, np.ones((9, 1)))
    found = two_way(fitted, first, second)
    expected = cr1(cluster(fitted, first)) + cr1(cluster(fitted, second))
    np.testing.assert_array_equal(found, expected)


def by_definition(rows: Rows, power: float) -> np.ndarray:
    """Σ_g M X_g'A_g e_g e_g'A_g X_g M with A_g = (I − H_gg)^−power as an n_g × n_g matrix."""
    x = design(rows)
    m = np.linalg.inv(x.T @ x)
    e = rows.values - x @ (m @ x.T @ rows.values)
    total = np.zeros((4, 4))
    for label in np.unique(rows.sets):
        part = x[rows.sets == label]
        score = m @ part.T @ adjustment(part @ m @ part.T, power) @ e[rows.sets == label]
        total += np.outer(score, score)
    return total


def adjustment(hat: np.ndarray, power: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.eye(len(hat)) - hat)
    return np.asarray((vectors * values**-power) @ vectors.T)


def test_cr2_is_its_definition(rows: Rows) -> None:
    ours = cr2(clustered_by_set(rows))
    assert_allclose(ours, by_definition(rows, 0.5), rtol=CLOSE, atol=1e-14)


def working_vectors(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """p_g = (I − H)_g'A_g X_g M c for each contrast and cluster: [J, G, N] (Pustejovsky and Tipton
    2018).
    """
    x = design(rows)
    m = np.linalg.inv(x.T @ x)
    rest = np.eye(len(x)) - x @ m @ x.T
    vectors = []
    for label in np.unique(rows.sets):
        chosen = rows.sets == label
        a = adjustment(x[chosen] @ m @ x[chosen].T, 0.5)
        vectors.append(weights @ m @ x[chosen].T @ a @ rest[chosen])
    return np.stack(vectors, axis=1)


def test_degrees_of_freedom_are_their_definition(rows: Rows) -> None:
    weights = np.vstack([np.eye(4), MEANS, DIFFERENCES])
    p = working_vectors(rows, weights)
    inner = p @ p.transpose(0, 2, 1)
    expected = np.trace(inner, axis1=1, axis2=2) ** 2 / (inner**2).sum((1, 2))
    found = [hotelling(clustered_by_set(rows), row[None]) for row in weights]
    assert_allclose(found, expected, rtol=CLOSE)


def test_degrees_of_freedom_of_a_joint_test_are_their_definition(rows: Rows) -> None:
    """AHZ: d = Ω^(-1/2) V Ω^(-1/2) with V = Σ_g (p_sg'e)(p_tg'e), and Var(d_st) for independent
    normal e.
    """
    weights = DIFFERENCES
    x = design(rows)
    values, vectors = np.linalg.eigh(weights @ np.linalg.inv(x.T @ x) @ weights.T)
    p = working_vectors(rows, (vectors / np.sqrt(values)) @ vectors.T @ weights)
    # Cov(x'e·y'e, u'e·v'e) = (x'u)(y'v) + (x'v)(y'u), summed over pairs of clusters.
    inner = np.einsum("sgn,thn->stgh", p, p)
    variance = np.einsum("ssgh,ttgh->", inner, inner) + np.einsum("stgh,tsgh->", inner, inner)
    clustered = clustered_by_set(rows)
    mean = np.einsum("ssgg->", inner) / 3
    assert hotelling(clustered, weights) == pytest.approx(3 * 4 * mean**2 / variance, rel=CLOSE)
    found = judged(fit(rows.values, x), rows, "cr2").joint(weights)
    estimate, covariance = weights @ clustered.coefficients, weights @ cr2(clustered) @ weights.T
    eta, wald = hotelling(clustered, weights), estimate @ np.linalg.solve(covariance, estimate)
    assert found == pytest.approx(f_above((eta - 2) / (eta * 3) * wald, 3, eta - 2), rel=1e-6)
    assert eta <= 8 + CLOSE


def test_one_cluster_that_decides_a_coefficient() -> None:
    """Only set 0 has position 3: CR2 takes the pseudo-inverse."""
    rows = make_rows(default_rng(4), n=3)
    kept = rows.keep(np.flatnonzero((rows.sets == 0) | (rows.positions < 3)))
    assert np.isfinite(cr2(clustered_by_set(kept))).all()


@pytest.mark.parametrize("inference", ["cr1", "z", "cr2", "two-way"])
def test_merged_rows_give_what_all_rows_give(inference: str) -> None:
    """Six sets of four segments; rows of one segment at one position differ in nothing but their
    value.

    Every inference, against the same fit on the rows as they are.
    """
    rng = default_rng(1)
    sets, positions = np.repeat(np.arange(6), 40), np.tile(np.repeat(np.arange(4), 10), 6)
    segments = sets * 4 + rng.integers(0, 4, len(sets))
    design = np.column_stack([*(positions == p for p in range(4)), np.log(segments + 2)]).astype(
        float
    )
    values = (
        design @ [0.6, 0.5, 0.55, 0.4, 0.03] + rng.normal(0, 0.05, len(sets)) + 0.04 * (sets % 3)
    )
    whole = robust(fit(values, design), group(sets), group(segments), inference=inference)
    merged = regress(values, group(positions), sets, segments, design[:, -1], inference=inference)
    found, expected = (one.contrasts(np.eye(5)) for one in (merged, whole))
    for name in ("estimate", "standard_error", "degrees_of_freedom", "p_value", "low", "high"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, err_msg=name)


def test_every_two_positions_are_statsmodels(rows: Rows) -> None:
    """The intervals that verdicts are made of, against `t_test` of the same contrasts."""
    weights = pair_weights(4)
    np.testing.assert_array_equal(weights[[0, 3]], [[-1, 1, 0, 0], [0, -1, 1, 0]])
    np.testing.assert_array_equal(pair_weights(4, 3), [[0, 0, -1, 1]])
    found = position_effects(*rows.columns[:3], inference="cr1").robust.contrasts(weights)
    # There position 1 is the intercept, which cancels.
    wanted = statsmodels_fit(rows, rows.sets, use_t=True).t_test(weights * [0, 1, 1, 1])
    assert_allclose(found.estimate, wanted.effect, rtol=CLOSE)
    assert_allclose(found.p_value, wanted.pvalue, rtol=CLOSE)
    assert_allclose(np.transpose([found.low, found.high]), wanted.conf_int(), rtol=CLOSE)


def test_later_positions_against_any_other() -> None:
    np.testing.assert_array_equal(difference_weights(4, 2), [[0, -1, 1, 0], [0, -1, 0, 1]])
    np.testing.assert_array_equal(difference_weights(3), [[-1, 1, 0], [-1, 0, 1]])


def test_two_way_clusters_are_as_many_as_the_fewer() -> None:
    """Eight sets that share six segments have t(5), and not t(7)."""
    sets, segments = np.repeat(np.arange(8), 3), (np.arange(24) * 5) % 6
    values = default_rng(0).normal(size=24)
    found = regress(values, group(np.tile([0, 1, 2], 8)), sets, segments)
    assert (found.inference, found.clusters) == ("two-way", 6)
    assert found.degrees_of_freedom(np.eye(3)).tolist() == [5, 5, 5]
