"""Verdicts on simulated models, and whether as many sets as they ask for are enough."""

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import Verdict, decide, documents_needed, equivalence, further_sets
from fairspan.stats.intervals import t_interval
from fairspan.stats.positions import PositionEffects, pair_weights, position_effects
from tests.test_stats_rows import make_rows


def simulated(
    effects: tuple[float, ...], noise: float, sets: int = 30, seed: int = 0
) -> PositionEffects:
    rows = make_rows(default_rng(seed), sets, n=len(effects), effects=effects, noise=noise)
    return position_effects(*rows.columns)


def verdict(effects: PositionEffects, margin: float = 0.02) -> Verdict:
    [found] = decide([effects.compared()], margin)
    return found


def p_values(effects: PositionEffects, margin: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    return equivalence(effects.compared(), margin)


def test_tests_are_those_of_the_intervals() -> None:
    """TOST at 5 % rejects just when both 95 % bounds are inside the margin; bias only if the 95 %
    interval is out.
    """
    effects = simulated((0.0, 0.012, -0.004, 0.06), noise=0.02)
    for margin in np.linspace(0.002, 0.1, 50):
        within, beyond = p_values(effects, margin)
        plain = effects.robust.contrasts(pair_weights(4))
        inside = np.array(
            [-margin < plain[j].lower() and plain[j].upper() < margin for j in range(6)]
        )
        outside = (plain.low > margin) | (plain.high < -margin)
        np.testing.assert_array_equal(within < 0.05, inside)
        assert (holm(beyond) < 0.05).any() <= outside.any()
    _, small = p_values(effects, 1e-6)
    np.testing.assert_allclose(small[:3], effects.p_value[1:], rtol=1e-2)


@pytest.mark.parametrize("truth", [(0.0, 0.02, 0.0), (0.0, 0.01, -0.01)])
def test_errors_of_both_kinds_are_rare_at_the_margin(truth: tuple[float, ...]) -> None:
    """With two positions δ apart, be one of them the first or not, both tests err in at most 5 % of
    200 samples, up to three standard errors of 0.015.
    """
    tests = [p_values(simulated(truth, noise=0.02, sets=60, seed=seed)) for seed in range(200)]
    assert np.mean([(within < 0.05).all() for within, _ in tests]) < 0.05 + 3 * 0.015
    assert np.mean([(holm(beyond) < 0.05).any() for _, beyond in tests]) < 0.05 + 3 * 0.015


def test_later_positions_that_differ_are_not_fair() -> None:
    """With 40 sets and errors of .003, positions 2 and 3 may be .029 apart and each well inside the
    margin of position 1. Equal positions are still shown to be fair.
    """
    noise = 0.003 * np.sqrt(20) * np.random.default_rng(0).normal(size=(50, 40, 4))

    def kinds(truth: tuple[float, ...]) -> list[str]:
        positions = (np.tile(np.arange(1, 5), 40), np.repeat(np.arange(40), 4))
        runs = [0.7 + (sample + truth).ravel() for sample in noise]
        return [verdict(position_effects(run, *positions)).kind for run in runs]

    apart = kinds((0.0, 0.0145, -0.0145, 0.0))
    assert (apart.count("fair"), apart.count("biased") > 15) == (0, True)
    assert set(kinds((0.0, 0.0, 0.0, 0.0))) == {"fair"}


def like(effects: PositionEffects, sets: int, rng: np.random.Generator) -> PositionEffects:
    """A new run of so many sets, from the population that the estimates describe."""
    n = len(effects)
    root = np.linalg.cholesky(effects.robust.covariance * effects.sets)
    values = effects.means.estimate + rng.normal(size=(sets, n)) @ root.T
    return position_effects(
        values.ravel(), np.tile(np.arange(1, n + 1), sets), np.repeat(np.arange(sets), n)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effects", "noise", "sets", "kind"),
    [
        ((0.0, -0.005, 0.0, 0.004), 0.03, 20, "fair"),
        ((0.0, -0.005, -0.03, -0.04), 0.05, 20, "biased"),
        ((0.0, 0.05), 0.05, 7, "biased"),
    ],
)
def test_as_many_sets_as_asked_for_decide(
    effects: tuple[float, ...], noise: float, sets: int, kind: str
) -> None:
    """80 % of 400 runs, up to four standard errors of 0.02."""
    pilot = simulated(effects, noise, sets, seed=2)
    found = verdict(pilot)
    assert found.kind == "inconclusive"
    assert found.sets_needed is not None
    rng = default_rng(9)
    kinds = [verdict(like(pilot, sets + found.sets_needed, rng)).kind for _ in range(400)]
    assert kinds.count(kind) / 400 == pytest.approx(0.8, abs=0.08)


def test_no_number_near_the_margin() -> None:
    effects = simulated((0.0, 0.01, 0.02), noise=0.05)
    found = verdict(effects, margin=abs(float(effects.estimate[2])) + 1e-6)
    assert found.kind == "inconclusive"
    assert found.sets_needed is None
    assert "too close to the margin" in found.sentence()


# --- several families


def paired(
    difference: float, rng: np.random.Generator, sets: int = 40, error: float = 0.005
) -> PositionEffects:
    """Two positions whose true difference is known to a standard error of about `error`."""
    noise = rng.normal(0, error * np.sqrt(sets / 2), (sets, 2))
    values = 0.5 + noise + np.array([0.0, difference])
    return position_effects(values.ravel(), np.tile([1, 2], sets), np.repeat(np.arange(sets), 2))


FAMILIES = 36


def test_many_families_at_the_margin_are_rarely_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    """36 independent families, all exactly at the margin: any is called biased in at most 5 % of
    runs.

    Up to three standard errors of such a share. Judged one by one, each is in 2.5 %: 1 − 0.975³⁶ =
    60 % of runs.
    """
    monkeypatch.setattr("fairspan.stats.equivalence.further_sets", lambda *_, **__: None)
    rng, runs = default_rng(0), 40
    together = alone = 0
    for _ in range(runs):
        families = [paired(0.02, rng) for _ in range(FAMILIES)]
        together += any(
            one.kind == "biased" for one in decide([one.compared() for one in families])
        )
        alone += any((p_values(one)[1] < 0.05).any() for one in families)
    slack = 3 * np.sqrt(0.05 * 0.95 / runs)
    assert together / runs <= 0.05 + slack
    chance = 1 - 0.975**FAMILIES
    assert alone / runs == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / runs))


def test_families_together_are_corrected_by_holm() -> None:
    families = [simulated((0.0, -0.005, -0.03), 0.02, seed=seed) for seed in range(6)]
    raw = np.concatenate([p_values(one)[1] for one in families])
    wanted = holm(raw) < 0.05
    found = [one.kind == "biased" for one in decide([one.compared() for one in families])]
    assert found == wanted.reshape(6, 3).any(axis=1).tolist()
    assert len(set(found)) == 2
    [alone] = decide([families[0].compared()])
    assert alone == verdict(families[0])


def test_more_comparisons_need_more_sets() -> None:
    """A family that points to bias has a higher hurdle among many; one that points to fairness has
    not.
    """
    biased, fair = (
        simulated((0.0, -0.03, -0.04), noise=0.06),
        simulated((0.0, 0.001, -0.001), noise=0.06),
    )
    needs = [further_sets(biased.compared(), 0.02, comparisons=count) for count in (2, 20, 200)]
    assert needs == sorted(needs, key=lambda need: need or 0)
    assert len(set(needs)) == 3
    wanted = further_sets(fair.compared(), 0.02, comparisons=2)
    assert further_sets(fair.compared(), 0.02, comparisons=200) == wanted


def test_later_positions_against_the_second() -> None:
    """The same numbers as of rows without position 1, up to the small-sample factor of CR2, which
    both have as 1.
    """
    rows = make_rows(default_rng(0), 30, effects=(0.3, 0.0, -0.02, -0.1), noise=0.02)
    values, positions, sets, *_ = (np.asarray(column) for column in rows.columns)
    [found] = decide([position_effects(values, positions, sets).compared(2)])
    kept = positions > 1
    wanted = verdict(position_effects(values[kept], positions[kept] - 1, sets[kept]))
    assert (found.kind, found.subject, found.against) == ("biased", "position 4", "position 2")
    assert (found.kind, found.worst) == (wanted.kind, wanted.worst)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (wanted.estimate, wanted.low, wanted.high)
    )
    assert "less represented than position 2 [" in found.sentence()


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (
            ("biased", -0.09, -0.1, -0.08, None),
            "position 2 is 0.09 less represented than position 1 [−0.10, −0.08]",
        ),
        (
            ("biased", 0.031, 0.024, 0.038, None),
            "0.031 more represented than position 1 [0.024, 0.038]",
        ),
        (
            ("biased", 0.0203, 0.02004, 0.0205, None),
            "0.02030 more represented than position 1 [0.02004,",
        ),
        (("inconclusive", 0.01, 0.0, 0.03, 1), "about 1 more set would decide"),
        (("inconclusive", 0.01, 0.0, 0.03, 1234), "about 1300 more sets would decide"),
        (
            ("inconclusive", 0.02, 0.0, 0.03, None),
            "position 2 against position 1 is too close to the margin",
        ),
    ],
)
def test_sentences(numbers: tuple[Any, ...], sentence: str) -> None:
    kind, *rest = numbers
    assert sentence in Verdict(kind, (kind,), 0.02, 0, "position 2", "position 1", *rest).sentence()


# --- one change against a margin

MARGIN = 0.005


@pytest.mark.parametrize("truth", [0.0, 0.0005, -0.001, 0.003, 0.012, -0.01])
def test_so_many_documents_decide_in_four_of_five_cases(truth: float) -> None:
    """Normal documents with a standard deviation of 0.04, simulated with as many as were said to be
    needed.

    2,000 runs have a standard error of 0.9 %: three of them.
    """
    seen = 12
    needed = documents_needed(t_interval(truth, 0.04 / seen**0.5, seen - 1), MARGIN, seen)
    assert needed is not None
    total, rng = seen + needed, default_rng(1)
    values = rng.normal(truth, 0.04, (2000, total))
    means, errors = values.mean(1), values.std(1, ddof=1) / total**0.5
    outside = np.abs(means) - stats.t.ppf(0.975, total - 1) * errors > MARGIN
    inside = np.abs(means) + stats.t.ppf(0.95, total - 1) * errors < MARGIN
    decided = np.mean(outside if abs(truth) > MARGIN else inside)
    assert decided == pytest.approx(0.8, abs=0.027)


def test_no_number_decides_on_the_margin_itself() -> None:
    assert documents_needed(t_interval(MARGIN, 0.01, 19), MARGIN, 20) is None
