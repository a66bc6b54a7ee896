"""Verdicts on simulated models, and whether as many sets as they ask for are enough."""

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import (
    Verdict,
    clusters_needed,
    clusters_to_judge,
    decide,
    judge_change,
    p_inside,
    p_outside,
)
from fairspan.stats.estimates import Estimates, t_estimates
from fairspan.stats.positions import PositionEffects, position_effects
from tests.stats.rows import make_rows


def simulated(
    effects: tuple[float, ...], noise: float, sets: int = 30, seed: int = 0
) -> PositionEffects:
    rows = make_rows(default_rng(seed), sets, n=len(effects), effects=effects, noise=noise)
    return position_effects(*rows.columns)


def verdict(effects: PositionEffects, margin: float = 0.02) -> Verdict:
    [found] = decide([effects.compared()], margin)
    return found


def p_values(effects: PositionEffects, margin: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    differences = effects.compared().differences
    return p_inside(differences, margin), p_outside(differences, margin)


def test_tests_are_those_of_the_intervals() -> None:
    """TOST at 5 % rejects just when both 90 % bounds are inside the margin; bias just when the 95 %
    interval is out."""
    effects = simulated((0.0, 0.012, -0.004, 0.06), noise=0.02)
    for margin in np.linspace(0.002, 0.1, 50):
        within, beyond = p_values(effects, margin)
        plain = effects.compared().differences
        half = stats.t.ppf(0.95, 29) * plain.standard_error
        inside = np.abs(plain.estimate) + half < margin
        outside = (plain.low > margin) | (plain.high < -margin)
        np.testing.assert_array_equal(within < 0.05, inside)
        np.testing.assert_array_equal(beyond < 0.05, outside)
    _, small = p_values(effects, 1e-6)
    np.testing.assert_allclose(small[:3], effects.coefficients.p[1:], rtol=1e-2)


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


# --- several families


def test_families_together_are_corrected_by_holm() -> None:
    """Against statsmodels."""
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    families = [simulated((0.0, -0.005, -0.03), 0.02, seed=seed) for seed in range(6)]
    raw = np.concatenate([p_values(one)[1] for one in families])
    for values in (raw, [0.5, 0.011, 0.01, 0.0111]):
        _, adjusted, *_ = multitest.multipletests(values, method="holm")
        np.testing.assert_allclose(holm(values), adjusted, rtol=1e-12)
    np.testing.assert_array_equal(holm([0.5, np.nan, 0.01]), [0.5, np.nan, 0.02])
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
    family = simulated((0.0, -0.03, -0.04), noise=0.06).compared()
    biased = family.differences
    fair = simulated((0.0, 0.001, -0.001), noise=0.06).compared().differences
    needs = [clusters_to_judge(biased, 0.02, 30, comparisons=count) or 0 for count in (2, 20, 200)]
    assert needs == sorted(set(needs))
    of_six = clusters_to_judge(biased, 0.02, 30, comparisons=6)
    assert [found.sets_needed for found in decide([family, family])] == [of_six] * 2
    wanted = clusters_to_judge(fair, 0.02, 30, comparisons=2)
    assert clusters_to_judge(fair, 0.02, 30, comparisons=200) == wanted


def test_later_positions_against_the_second() -> None:
    """The same numbers as of rows without position 1."""
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
            "is 0.09 less represented than position 1 [−0.10,",
        ),
        (("biased", 0.031, 0.024, 0.038, None), "0.031 more represented than position 1 [0.024,"),
        (("biased", 0.0203, 0.02004, 0.0205, None), "0.02030 more represented than position 1"),
        (("fair", 0.001, -0.002, 0.004, None), "within ±0.02"),
        (("inconclusive", 0.01, 0.0, 0.03, 95), "`--sets 95` would decide it"),
        (
            ("inconclusive", 0.01, np.nan, np.nan, None),
            "too few sets for an interval",
        ),
        (("inconclusive", 0.02, 0.0, 0.03, None), "position 2 against position 1 is too close to"),
    ],
)
def test_sentences(numbers: tuple[Any, ...], sentence: str) -> None:
    """None repeats the verdict, which is shown beside it."""
    kind, *rest = numbers
    found = Verdict(kind, (kind,), 0.02, 0, "position 2", "position 1", *rest).sentence()
    assert sentence in found
    assert kind not in found


# --- one change against a margin

MARGIN = 0.005


def row(estimate: float, error: float, freedom: float) -> Estimates[float]:
    return t_estimates([estimate], [error], [freedom])[0]


@pytest.mark.parametrize("truth", [-0.001, 0.003, -0.01])
def test_so_many_documents_decide_in_four_of_five_cases(truth: float) -> None:
    """Normal documents with a standard deviation of 0.04, simulated with as many as were said to be
    needed.

    2,000 runs have a standard error of 0.9 %: three of them. Rounding up to two digits adds up to
    3 %.
    """
    seen = 40
    total = clusters_to_judge(row(truth, 0.04 / seen**0.5, seen - 1), MARGIN, seen)
    assert total is not None
    values = default_rng(1).normal(truth, 0.04, (2000, total))
    means = values.mean(1)
    errors = values.std(1, ddof=1) / total**0.5
    judged = t_estimates(means, errors, np.full(2000, total - 1))
    kinds = [judge_change(judged[place], MARGIN) for place in range(2000)]
    share = kinds.count("biased" if abs(truth) > MARGIN else "fair") / 2000
    assert 0.8 - 0.027 <= share <= 0.83 + 0.027


def test_the_formula_by_hand() -> None:
    """(1.960 + 0.842)² of 20 · (0.02/0.03)², and 1.92 for the error that is estimated."""
    assert (
        pytest.approx(71.69, abs=0.01)
        == 20 * (0.02 / 0.03) ** 2 * (1.959964 + 0.841621) ** 2 + 1.92
    )
    assert clusters_needed(0.03, 0.02, 20, 0.975) == 72
    # Two of equal size share the chance to miss one: 1.282 instead of 0.842.
    assert clusters_needed([0.03, 0.03], [0.02, 0.02], 20, 0.975) == 96
    assert clusters_needed([0.03, 0.3], [0.02, 0.02], 20, 0.975) == 72
    assert clusters_needed(0.03, 0.001, 20, 0.975) == 21, "more than there are"


@pytest.mark.parametrize(
    ("gap", "error"), [(0.0, 0.02), (-0.01, 0.02), (0.03, 0.0), (0.03, np.nan), (1e-4, 0.02)]
)
def test_what_no_realistic_number_decides(gap: float, error: float) -> None:
    """On the margin or beyond it; no error; more than a hundred times as many."""
    assert clusters_needed(gap, error, 20, 0.975) is None
