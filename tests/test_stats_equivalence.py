"""Verdicts: what they say of simulated models, and whether as many sets as they ask for are enough."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import Verdict, equivalence, sets_needed, verdict, verdicts
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


# --- several families


def paired(difference: float, rng: np.random.Generator, sets: int = 40, error: float = 0.005) -> PositionEffects:
    """Two positions whose true difference is known to a standard error of about `error`."""
    noise = rng.normal(0, error * np.sqrt(sets / 2), (sets, 2))
    values = 0.5 + noise + np.array([0.0, difference])
    return position_effects(values.ravel(), np.tile([1, 2], sets), np.repeat(np.arange(sets), 2))


FAMILIES = 36


@pytest.mark.parametrize("runs", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_many_families_at_the_margin_are_rarely_biased(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """36 independent families, all exactly at the margin: any is called biased in at most 5 % of runs.

    Up to three standard errors of such a share. Judged one by one, each is in 2.5 %: 1 − 0.975³⁶ = 60 % of runs.
    """
    monkeypatch.setattr("fairspan.stats.equivalence.further_sets", lambda *_, **__: None)
    rng = np.random.default_rng(0)
    together = alone = 0
    for _ in range(runs):
        families = [paired(0.02, rng) for _ in range(FAMILIES)]
        together += any(one.kind == "biased" for one in verdicts([(one, 1) for one in families]))
        alone += any((equivalence(one).p_beyond < 0.05).any() for one in families)
    slack = 3 * np.sqrt(0.05 * 0.95 / runs)
    assert together / runs <= 0.05 + slack
    chance = 1 - 0.975**FAMILIES
    assert alone / runs == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / runs))


def test_a_clear_bias_is_found_among_many_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 36 families one is 0.07 apart: ten errors of 0.005 beyond the margin, of which p < 0.05/72 takes 3.5."""
    monkeypatch.setattr("fairspan.stats.equivalence.further_sets", lambda *_, **__: None)
    rng = np.random.default_rng(1)
    for _ in range(20):
        found = verdicts([(paired(0.07 if place == 7 else 0.0, rng), 1) for place in range(FAMILIES)])
        assert [place for place, one in enumerate(found) if one.kind == "biased"] == [7]
        assert found[7].position == 2


def test_families_together_are_corrected_by_holm() -> None:
    """Recomputed with numpy: the smallest of all p-values times their number, and so on."""
    families = [simulated((0.0, -0.005, -0.03), 0.02, seed=seed) for seed in range(6)]
    raw = np.concatenate([equivalence(one).p_beyond for one in families])
    order = np.argsort(raw)
    stepped = np.maximum.accumulate(np.minimum(raw[order] * np.arange(len(raw), 0, -1), 1))
    wanted = np.empty(len(raw), bool)
    wanted[order] = stepped < 0.05
    found = [one.kind == "biased" for one in verdicts([(one, 1) for one in families])]
    assert found == wanted.reshape(6, 2).any(axis=1).tolist()
    assert len(set(found)) == 2
    [alone] = verdicts([(families[0], 1)])
    assert alone == verdict(families[0])


def test_more_comparisons_need_more_sets() -> None:
    """A family that points to bias has a higher hurdle among many; one that points to fairness has not."""
    biased, fair = simulated((0.0, -0.03, -0.04), noise=0.06), simulated((0.0, 0.001, -0.001), noise=0.06)
    needs = [sets_needed(biased, 0.02, comparisons=count) for count in (2, 20, 200)]
    assert needs[0] == sets_needed(biased, 0.02)
    assert needs == sorted(needs, key=lambda need: need or 0)
    assert len(set(needs)) == 3
    assert sets_needed(fair, 0.02, comparisons=200) == sets_needed(fair, 0.02)


@pytest.mark.slow
def test_as_many_sets_as_asked_for_decide_among_families() -> None:
    """80 % of 400 runs, up to four standard errors of 0.02, with eleven fair families beside."""
    pilot = simulated((0.0, -0.005, -0.03, -0.04), 0.05, 20, seed=2)
    rng = np.random.default_rng(9)
    others = [(paired(0.0, rng), 1) for _ in range(11)]
    found = verdicts([(pilot, 1), *others])[0]
    assert found.kind == "inconclusive"
    assert found.sets_needed is not None
    more = 20 + found.sets_needed
    kinds = [verdicts([(like(pilot, more, rng), 1), *others])[0].kind for _ in range(400)]
    assert kinds.count("biased") / 400 == pytest.approx(0.8, abs=0.08)


def test_later_positions_against_the_second() -> None:
    """The same numbers as of rows without position 1, up to the small-sample factor of CR2, which both have as 1."""
    rows = make_rows(np.random.default_rng(0), 30, effects=(0.3, 0.0, -0.02, -0.1), noise=0.02)
    values, positions, sets, *_ = (np.asarray(column) for column in rows.columns)
    [found] = verdicts([(position_effects(values, positions, sets), 2)])
    kept = positions > 1
    wanted = verdict(position_effects(values[kept], positions[kept] - 1, sets[kept]))
    assert (found.kind, found.position, found.against) == ("biased", 4, 2)
    assert (found.kind, found.position - 1) == (wanted.kind, wanted.position)
    assert (found.estimate, found.low, found.high) == pytest.approx((wanted.estimate, wanted.low, wanted.high))
    assert "less represented than position 2 [" in found.sentence()
