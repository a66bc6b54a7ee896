"""The engine against statsmodels, refitted without each cluster, and in the long run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats

from fairspan.errors import DesignError
from fairspan.stats.arrays import group
from fairspan.stats.estimates import t_estimates
from fairspan.stats.jackknife import fit
from fairspan.stats.positions import PositionEffects, marker, pair_weights, position_effects
from tests.stats.rows import UNEVEN, Rows, make_rows, uneven_rows

MAKERS: list[Callable[..., Rows]] = [make_rows, uneven_rows]
# Both sides solve the same well-conditioned least-squares problem in float64.
CLOSE = 1e-8


@pytest.fixture(params=MAKERS, ids=["latin", "uneven"])
def rows(request: pytest.FixtureRequest) -> Rows:
    made: Rows = request.param(default_rng(11), effects=(0.0, -0.02, -0.05, -0.04))
    return made


def lengths_of(rows: Rows) -> np.ndarray:
    """A column for a slope: the centred log of lengths, which differ by segment."""
    logs = default_rng(2).normal(0, 0.3, rows.segments.max() + 1)[rows.segments]
    return np.asarray(logs - logs.mean())


def design_of(rows: Rows, slope: np.ndarray | None) -> np.ndarray:
    """A dummy for each position, and the column."""
    cells = np.eye(4)[rows.positions - 1]
    return cells if slope is None else np.column_stack([cells, slope])


def refitted(
    design: np.ndarray, values: np.ndarray, clusters: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """CR3 errors by their definition: statsmodels' OLS again without each cluster that has rows of
    a contrast."""
    api = pytest.importorskip("statsmodels.api")
    whole = api.OLS(values, design).fit().params
    variances = []
    for row in weights:
        names = np.unique(clusters[design[:, row != 0].any(1)])
        left = (clusters != name for name in names)
        changes = [api.OLS(values[kept], design[kept]).fit().params - whole for kept in left]
        squares = (np.array(changes) @ row) ** 2
        variances.append((len(names) - 1) / len(names) * squares.sum())
    return np.sqrt(variances)


def contrasts_of(design: np.ndarray) -> np.ndarray:
    """Coefficients, and the differences of every two positions."""
    width = design.shape[1]
    pairs = np.pad(pair_weights(4), ((0, 0), (0, width - 4)))
    return np.vstack([np.eye(width), pairs])


@pytest.mark.parametrize("with_slope", [False, True])
def test_it_is_what_refitting_gives(rows: Rows, with_slope: bool) -> None:
    slope = lengths_of(rows) if with_slope else None
    design = design_of(rows, slope)
    weights = contrasts_of(design)
    ours = fit(rows.values, group(rows.positions), rows.sets, slope=slope)
    assert ours.inference == "jackknife"
    found = ours.contrasts(weights)
    wanted = refitted(design, rows.values, rows.sets, weights)
    assert_allclose(found.standard_error, wanted, rtol=CLOSE)
    assert found.degrees_of_freedom.tolist() == [8] * len(weights)
    half = stats.t.ppf(0.975, 8) * wanted
    assert_allclose(found.low, found.estimate - half, rtol=CLOSE)
    assert_allclose(found.high, found.estimate + half, rtol=CLOSE)
    assert_allclose(found.p, 2 * stats.t.sf(np.abs(found.estimate) / wanted, 8), rtol=1e-6)


@pytest.mark.parametrize("with_slope", [False, True])
def test_z_is_statsmodels_cluster_covariance(rows: Rows, with_slope: bool) -> None:
    """Also of sets that lack a position."""
    api = pytest.importorskip("statsmodels.api")
    rows = rows.keep(np.flatnonzero((rows.sets != 0) | (rows.positions != 2)))
    slope = lengths_of(rows) if with_slope else None
    design = design_of(rows, slope)
    weights = contrasts_of(design)
    theirs = (
        api.OLS(rows.values, design)
        .fit(cov_type="cluster", cov_kwds={"groups": rows.sets}, use_t=False)
        .t_test(weights)
    )
    segments = np.arange(len(rows.sets)) % 7
    ours = fit(rows.values, group(rows.positions), rows.sets, segments, slope, inference="z")
    found = ours.contrasts(weights)
    assert_allclose(found.estimate, theirs.effect, rtol=CLOSE)
    assert_allclose(found.standard_error, theirs.sd, rtol=CLOSE)
    assert_allclose(found.p, theirs.pvalue, rtol=1e-6, atol=1e-300)
    assert_allclose(np.transpose([found.low, found.high]), theirs.conf_int(), rtol=CLOSE)


def test_two_way_is_the_largest_of_three_refits() -> None:
    """Crossed clusters, whose effects are strong enough that V_ab is less than both."""
    rng = default_rng(3)
    rows = make_rows(rng)
    shared = rng.integers(0, 6, len(rows.values))
    values = rows.values + rng.normal(0, 0.2, (6, 4))[shared, rows.positions - 1]
    design = design_of(rows, None)
    both = rows.sets * 6 + shared
    weights = contrasts_of(design)
    a, b, ab = [refitted(design, values, one, weights) for one in (rows.sets, shared, both)]
    ours = fit(values, group(rows.positions), rows.sets, shared)
    assert ours.inference == "two-way"
    found = ours.contrasts(weights)
    wanted = [a, b, np.sqrt(np.maximum(a**2 + b**2 - ab**2, 0))]
    assert_allclose(found.standard_error, np.max(wanted, axis=0), rtol=CLOSE)
    assert (np.argmax(wanted, axis=0) == 2).any(), "the premise"
    assert set(found.degrees_of_freedom) == {5}, "of the fewer clusters"


def test_auto_looks_at_sets_and_segments() -> None:
    rows = make_rows(default_rng(1), 40)
    shared = np.where(rows.segments == 4, 0, rows.segments)
    used = [
        position_effects(*rows.columns, segments).fit.inference
        for segments in (None, rows.segments, shared)
    ]
    assert used == ["jackknife", "jackknife", "two-way"]


def test_equal_sets_give_the_paired_t_test() -> None:
    """The jackknife of a mean over equal clusters is the plain error of their means: CR2 with
    Satterthwaite's degrees of freedom, which are G − 1 there."""
    rows = make_rows(default_rng(0), effects=(0.0, -0.01, -0.02, -0.03))
    table = rows.values.reshape(9, 4, 4).mean(1)
    found = position_effects(*rows.columns)
    effects = found.coefficients
    for place in (1, 2, 3):
        paired = stats.ttest_rel(table[:, place], table[:, 0])
        ends = paired.confidence_interval()
        limits = (effects.low[place], effects.high[place])
        assert effects.p[place] == pytest.approx(paired.pvalue, rel=1e-8)
        assert limits == pytest.approx((ends.low, ends.high), rel=1e-8)
    assert_allclose(found.means.estimate, table.mean(0), rtol=1e-10)
    assert_allclose(found.means.standard_error, stats.sem(table), rtol=1e-10)


@pytest.mark.parametrize(("size", "sign"), [(1e-6, "•"), (1e-5, "")])
def test_what_rounding_does_is_zero(size: float, sign: str) -> None:
    """Cosines of float32 vectors are known to about 1e-6.

    All 50 sets differ alike: anything is significant.
    """
    rows = make_rows(default_rng(0), documents=50)
    noise = default_rng(1).normal(0, size / 10, len(rows.values))
    values = 0.7 + size * (rows.positions == 2) + noise
    effects = position_effects(values, rows.positions, rows.sets).coefficients
    assert marker(effects.p[1]) == sign
    assert (effects.estimate[1] == 0) == bool(sign)


def test_what_one_cluster_decides_has_no_interval() -> None:
    """Only set 0 has position 3. Differences of the others stay as they are."""
    rows = make_rows(default_rng(4), n=3)
    kept = rows.keep(np.flatnonzero((rows.sets == 0) | (rows.positions < 3)))
    effects = position_effects(*kept.columns).coefficients
    assert np.isfinite(effects.estimate).all()
    assert np.isnan(effects.low).tolist() == [False, False, True]
    whole = position_effects(*rows.columns).coefficients
    assert effects.low[:2] == pytest.approx(whole.low[:2])


def test_one_set_is_refused() -> None:
    with pytest.raises(DesignError, match="at least 2 different sets, got 1"):
        position_effects([0.1, 0.2, 0.3, 0.5], [1, 2, 1, 2], ["a", "a", "a", "a"])


def test_a_row_of_estimates_is_columns() -> None:
    """Also of the normal, and of an error of 0."""
    found = t_estimates([0.3, 0.0, -0.2], [0.1, 0.0, 0.0], [np.inf, 4, 4])
    low, high = stats.norm.interval(0.95, 0.3, 0.1)
    assert found[0].columns("change_", "p") == {
        "change_estimate": 0.3,
        "change_low": pytest.approx(low),
        "change_high": pytest.approx(high),
        "change_p": pytest.approx(2 * stats.norm.sf(3)),
    }
    assert found.p[1:].tolist() == [1, 0]


# --- in the long run


def covers(found: PositionEffects) -> np.ndarray:
    effects = found.coefficients
    return np.asarray((effects.low[1:] <= 0) & (effects.high[1:] >= 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("documents", "n", "least", "most"),
    [(9, 8, 0.935, 0.97), (UNEVEN, 4, 0.88, 0.95)],
    ids=["9 sets of 8", "9 uneven sets"],
)
def test_intervals_cover(
    documents: tuple[int, ...] | int, n: int, least: float, most: float
) -> None:
    """2,000 samples without position effects, n − 1 differences each: a share of .95 has an error
    of at most .005.

    Sets whose sizes differ by 24 times are covered less often than 95 %, and more often than by z.
    """
    rng = default_rng(5)
    hits: dict[str, list[np.ndarray]] = {"auto": [], "z": []}
    for _ in range(2000):
        rows = make_rows(rng, documents, n)
        for inference, held in hits.items():
            held.append(covers(position_effects(*rows.columns, inference=inference)))
    shares = {inference: float(np.mean(held)) for inference, held in hits.items()}
    print(f"\n{documents} of {n}: coverage {shares}")
    assert least < shares["auto"] < most
    assert shares["z"] < shares["auto"] - 0.003
