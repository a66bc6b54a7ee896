"""Verdicts: what they say of simulated models, and whether as many sets as they ask for are enough."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import Verdict, equivalence, sets_needed, verdict
from fairspan.stats.positions import PositionEffects, position_effects
from tests.test_stats_rows import make_rows


def simulated(effects: tuple[float, ...], noise: float, sets: int = 30, seed: int = 0) -> PositionEffects:
    rows = make_rows(np.random.default_rng(seed), sets, n=len(effects), effects=effects, noise=noise)
    return position_effects(*rows.columns)


def test_fair() -> None:
    found = verdict(simulated((0.0, 0.003, -0.002, 0.0), noise=0.01, sets=60))
    assert found.kind == "fair"
    assert found.sets_needed is None
    assert found.sentence() == "fair within ±0.02"


def test_biased() -> None:
    found = verdict(simulated((0.0, -0.02, -0.05, -0.1), noise=0.02))
    assert found.kind == "biased"
    assert (found.position, found.against) == (4, 1)
    assert found.low < found.estimate < found.high < -0.02
    assert found.sentence().startswith("biased: position 4 is 0.09 less represented")
    assert "less represented than position 1 [−0.10, −0.0" in found.sentence()


def test_inconclusive() -> None:
    found = verdict(simulated((0.0, -0.005, 0.0, 0.005), noise=0.06))
    assert found.kind == "inconclusive"
    assert found.sets_needed is not None
    assert found.sets_needed > 10
    assert found.sentence().startswith("inconclusive: about ")


def test_tests_are_those_of_the_intervals() -> None:
    """TOST at 5 % rejects just when the 90 % interval is inside the margin; bias only when the 95 % one is out."""
    effects = simulated((0.0, 0.012, -0.004, 0.06), noise=0.02)
    for margin in np.linspace(0.002, 0.1, 50):
        tests = equivalence(effects, margin)
        ninety, plain = effects.differences(0.9), effects.differences(0.95)
        inside = (-margin < ninety.low) & (ninety.high < margin)
        outside = (plain.low > margin) | (plain.high < -margin)
        np.testing.assert_array_equal(tests.p_fair < 0.05, inside)
        assert (holm(tests.p_beyond) < 0.05).any() <= outside.any()
    small = equivalence(effects, 1e-6).p_beyond
    np.testing.assert_allclose(small, effects.p_value[1:], rtol=1e-2)


def test_errors_of_both_kinds_are_rare_at_the_margin() -> None:
    """At |β2| = δ exactly both tests err in at most 5 % of 600 samples, up to three standard errors of 0.009."""
    tests = [equivalence(simulated((0.0, 0.02, 0.0), noise=0.02, sets=60, seed=seed), 0.02) for seed in range(600)]
    assert np.mean([(test.p_fair < 0.05).all() for test in tests]) < 0.05 + 3 * 0.009
    assert np.mean([(holm(test.p_beyond) < 0.05).any() for test in tests]) < 0.05 + 3 * 0.009


def like(effects: PositionEffects, sets: int, rng: np.random.Generator) -> PositionEffects:
    """A new run of so many sets, from the population that the estimates describe."""
    n = effects.n
    root = np.linalg.cholesky(effects.covariance * effects.clusters)
    drawn = effects.estimate + rng.normal(size=(sets, n)) @ root.T
    values = np.column_stack([drawn[:, :1], drawn[:, :1] + drawn[:, 1:]])
    return position_effects(values.ravel(), np.tile(np.arange(1, n + 1), sets), np.repeat(np.arange(sets), n))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effects", "noise", "sets", "kind"),
    [
        ((0.0, -0.005, 0.0, 0.004), 0.04, 30, "fair"),
        ((0.0, -0.005, -0.03, -0.04), 0.05, 20, "biased"),
        ((0.0, 0.05), 0.05, 7, "biased"),
    ],
)
def test_as_many_sets_as_asked_for_decide(effects: tuple[float, ...], noise: float, sets: int, kind: str) -> None:
    """80 % of 400 runs, up to four standard errors of 0.02."""
    pilot = simulated(effects, noise, sets, seed=2)
    found = verdict(pilot)
    assert found.kind == "inconclusive"
    assert found.sets_needed is not None
    rng = np.random.default_rng(9)
    kinds = [verdict(like(pilot, sets + found.sets_needed, rng)).kind for _ in range(400)]
    assert kinds.count(kind) / 400 == pytest.approx(0.8, abs=0.08)


def test_no_number_near_the_margin() -> None:
    effects = simulated((0.0, 0.01, 0.02), noise=0.05)
    found = verdict(effects, margin=abs(float(effects.estimate[2])) + 1e-6)
    assert found.kind == "inconclusive"
    assert found.sets_needed is None
    assert "too close to the margin" in found.sentence()


def test_a_wider_margin_needs_fewer_sets() -> None:
    effects = simulated((0.0, -0.005, 0.0, 0.005), noise=0.06)
    needs = [sets_needed(effects, margin) for margin in (0.04, 0.05, 0.07)]
    assert all(need is not None for need in needs)
    assert needs == sorted(needs, key=lambda need: -(need or 0))


def test_the_bootstrap_decides_alike() -> None:
    rows = make_rows(np.random.default_rng(0), 30, effects=(0.0, -0.02, -0.05, -0.1), noise=0.02)
    found = verdict(position_effects(*rows.columns, inference="wild", draws=1999))
    assert (found.kind, found.position) == ("biased", 4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("biased", 0.02, 4, -0.09, -0.1, -0.08, None), "0.09 less represented than position 1 [−0.10, −0.08]"),
        (("biased", 0.02, 2, 0.031, 0.024, 0.038, None), "0.031 more represented than position 1 [0.024, 0.038]"),
        (("biased", 0.02, 2, 0.0203, 0.02004, 0.0205, None), "0.02030 more represented than position 1 [0.02004,"),
        (("biased", 0.02, 3, 0.3, 0.2, 0.4, None, "retained"), "0.30 more retained than position 1 [0.20, 0.40]"),
        (("fair", 0.005, 2, 0.001, 0.0, 0.002, None), "fair within ±0.005"),
        (("inconclusive", 0.02, 2, 0.01, 0.0, 0.03, 1), "about 1 more set would decide"),
        (("inconclusive", 0.02, 2, 0.01, 0.0, 0.03, 30), "about 30 more sets would decide"),
        (("inconclusive", 0.02, 2, 0.01, 0.0, 0.03, 1234), "about 1300 more sets would decide"),
    ],
)
def test_sentences(given: tuple[object, ...], sentence: str) -> None:
    assert sentence in Verdict(*given).sentence()  # type: ignore[arg-type]


def test_refusals() -> None:
    effects = simulated((0.0, 0.0), noise=0.01)
    with pytest.raises(StatisticsError, match="margin must be more than 0, got 0"):
        verdict(effects, margin=0)
    with pytest.raises(StatisticsError, match="'represented', 'retained'"):
        verdict(effects, measure="remembered")
