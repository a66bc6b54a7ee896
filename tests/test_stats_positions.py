"""Position effects: by hand on a balanced design, in the long run by simulation, and at size."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fairspan.stats.positions import PositionEffects, difference_weights, marker, position_effects
from tests.test_stats_rows import UNEVEN, make_rows


def test_balanced_latin_is_a_paired_t_test() -> None:
    """With equal sets, βp is the mean of the sets' own differences, and CR1's error theirs but for
    its factor.
    """
    rows = make_rows(default_rng(0), documents=50, effects=(0.0, -0.01, -0.02, -0.03))
    table = rows.values.reshape(50, 4, 4).mean(1)
    gaps = table[:, 1:] - table[:, :1]
    found = position_effects(*rows.columns)
    assert found.robust.inference == "cr1"
    assert_allclose(found.estimate, [table[:, 0].mean(), *gaps.mean(0)], rtol=1e-10)
    factor = np.sqrt((800 - 1) / (800 - 4))
    assert_allclose(
        found.standard_error[1:], factor * gaps.std(0, ddof=1) / np.sqrt(50), rtol=1e-10
    )
    assert_allclose(found.degrees_of_freedom, 49)
    assert_allclose(found.means.estimate, table.mean(0), rtol=1e-10)
    assert_allclose(
        found.means.standard_error, factor * table.std(0, ddof=1) / np.sqrt(50), rtol=1e-10
    )


@pytest.mark.parametrize(("size", "sign"), [(1e-6, "•"), (1e-5, "")])
def test_what_rounding_does_is_zero(size: float, sign: str) -> None:
    """Cosines of float32 vectors are known to about 1e-6.

    All 50 sets differ alike: anything is significant.
    """
    rows = make_rows(default_rng(0), documents=50)
    values = (
        0.7 + size * (rows.positions == 2) + default_rng(1).normal(0, size / 10, len(rows.values))
    )
    found = position_effects(values, rows.positions, rows.sets)
    assert marker(found.p_value[1]) == sign
    assert (found.estimate[1] == 0) == bool(sign)
    assert (found.robust.joint(difference_weights(4)) > 0.99) == bool(sign)


def test_small_balanced_latin_is_exactly_the_paired_t_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    rows = make_rows(default_rng(0), documents=9)
    table = rows.values.reshape(9, 4, 4).mean(1)
    found = position_effects(*rows.columns)
    assert found.robust.inference == "cr2"
    for position in (2, 3, 4):
        paired = stats.ttest_rel(table[:, position - 1], table[:, 0])
        interval = paired.confidence_interval()
        assert found.p_value[position - 1] == pytest.approx(paired.pvalue, rel=1e-8)
        assert found.low[position - 1] == pytest.approx(interval.low, rel=1e-8)
        assert found.high[position - 1] == pytest.approx(interval.high, rel=1e-8)
    gaps = table[:, 1:] - table[:, :1]
    hotelling = 9 * gaps.mean(0) @ np.linalg.solve(np.cov(gaps.T), gaps.mean(0))
    assert joint_p(found) == pytest.approx(stats.f.sf(hotelling * 6 / (8 * 3), 3, 6), rel=1e-8)


def joint_p(found: PositionEffects) -> float:
    return found.robust.joint(difference_weights(len(found)))


def covers(found: PositionEffects) -> np.ndarray:
    return (found.low[1:] <= 0) & (found.high[1:] >= 0)


@pytest.mark.slow
@pytest.mark.parametrize("documents", [9, UNEVEN], ids=["latin", "uneven"])
def test_nine_sets_are_covered(documents: int | tuple[int, ...]) -> None:
    """300 samples without position effects, three differences each: a share has an error of at most
    0.013.
    """
    rng = default_rng(20)
    hits: dict[str, list[np.ndarray]] = {"auto": [], "z": []}
    rejected = []
    for _ in range(300):
        rows = make_rows(rng, documents)
        for inference, found in hits.items():
            effects = position_effects(*rows.columns, inference=inference)
            found.append(covers(effects))
            if inference == "auto":
                rejected.append(joint_p(effects) < 0.05)
    shares = {inference: float(np.mean(found)) for inference, found in hits.items()}
    print(f"\n{documents}: coverage {shares}, joint test rejects {np.mean(rejected):.3f}")
    assert 0.92 <= shares["auto"] <= 0.98
    assert shares["z"] < 0.93
    assert np.mean(rejected) < 0.09


def test_auto_looks_at_sets_and_segments() -> None:
    rng = default_rng(1)
    few, many = make_rows(rng, 39), make_rows(rng, 40)
    assert position_effects(*few.columns).robust.inference == "cr2"
    assert position_effects(*many.columns).robust.inference == "cr1"
    assert position_effects(*many.columns, many.segments).robust.inference == "cr1"
    shared = np.where(many.segments == 4, 0, many.segments)
    assert position_effects(*many.columns, shared).robust.inference == "two-way"


@pytest.mark.slow
def test_segments_shared_between_sets_are_covered() -> None:
    """40 sets from 60 segments, 1,000 samples: a standard error of 0.007.

    Clustering by set alone fails.
    """
    rng = default_rng(0)
    place = np.arange(4)
    hits: dict[str, list[np.ndarray]] = {"auto": [], "cr1": []}
    for _ in range(1000):
        drawn = np.stack([rng.choice(60, 4, replace=False) for _ in range(40)])
        segments = drawn[:, (place[:, None] + place) % 4]
        values = rng.normal(0, 0.05, 60)[segments] + rng.normal(0, 0.03, (60, 4))[segments, place]
        values += rng.normal(0, 0.02, (40, 1, 4)) + rng.normal(0, 0.02, segments.shape)
        positions, sets = np.tile(place + 1, 160), np.repeat(np.arange(40), 16)
        for inference, found in hits.items():
            found.append(
                covers(
                    position_effects(
                        values.ravel(), positions, sets, segments.ravel(), inference=inference
                    )
                )
            )
    shares = {inference: float(np.mean(found)) for inference, found in hits.items()}
    print(f"\nshared segments: coverage {shares}")
    assert 0.93 < shares["auto"] < 0.97
    assert shares["cr1"] < 0.88


def test_too_few_sets_for_a_joint_test_give_none() -> None:
    rows = make_rows(default_rng(0), documents=3)
    found = position_effects(*rows.columns)
    assert np.isnan(joint_p(found))
    assert np.isfinite(found.p_value).all()


def test_values_without_any_noise() -> None:
    """No error at all: a difference is certain, and none is none."""
    found = position_effects([0.5, 0.4, 0.5] * 3, [1, 2, 3] * 3, np.repeat([0, 1, 2], 3))
    assert_allclose(found.estimate, [0.5, -0.1, 0.0], atol=1e-12)
    assert_allclose(found.standard_error, 0, atol=1e-12)
    assert found.p_value[1] < 1e-9


@pytest.mark.parametrize(
    ("p", "sign"),
    [(0.0005, ""), (0.001, "◇"), (0.009, "◇"), (0.01, "□"), (0.049, "□"), (0.05, "•"), (1.0, "•")],
)
def test_markers_are_the_papers(p: float, sign: str) -> None:
    assert marker(p) == sign
