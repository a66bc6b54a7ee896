"""The joint model against statsmodels' formula of it, and what empty cells do to it."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.errors import StatisticsError
from fairspan.stats.joint import JointModel, joint_model

SETS, N = 45, 3
LANGUAGES = ("de", "en", "fr")


def plan_rows(rng: np.random.Generator, plans: list[tuple[str, str]], sets: int = SETS) -> dict[str, np.ndarray]:
    """Every set under every (lead, later) plan, three Latin orders each; longer segments are less represented."""
    lengths = rng.normal(5, 0.4, (sets, N))
    central = rng.normal(0, 0.05, (sets, N))
    noise = rng.normal(0, 0.02, (sets, N))
    rows = []
    for number in range(sets):
        for lead, later in plans:
            for shift in range(N):
                for position in range(N):
                    segment, language = (position + shift) % N, lead if position == 0 else later
                    tokens = np.exp(lengths[number, segment] + 0.1 * LANGUAGES.index(language))
                    value = 0.5 - 0.05 * position + 0.03 * (language == "en") + 0.02 * (language == "en") * position
                    value += central[number, segment] + noise[number, position] - 0.04 * np.log(tokens)
                    rows.append((value + rng.normal(0, 0.01), position + 1, language, number, tokens))
    columns = zip(*rows, strict=True)
    return {
        name: np.array(column)
        for name, column in zip(("values", "positions", "languages", "sets", "tokens"), columns, strict=True)
    }


MONOLINGUAL = [(language, language) for language in LANGUAGES]


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    return plan_rows(np.random.default_rng(0), MONOLINGUAL)


@pytest.fixture(scope="module")
def model(rows: dict[str, np.ndarray]) -> JointModel:
    return joint_model(**rows)


def test_it_is_statsmodels_formula(rows: dict[str, np.ndarray], model: JointModel) -> None:
    """The same model in treatment coding: contrasts and slope agree."""
    formula = pytest.importorskip("statsmodels.formula.api")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({**rows, "logs": np.log(rows["tokens"])})
    theirs = formula.ols("values ~ C(positions) * C(languages) + logs", table).fit(
        cov_type="cluster", cov_kwds={"groups": rows["sets"]}, use_t=True
    )
    assert model.inference == "cr1"
    slope = model.slope()
    assert slope.estimate == pytest.approx(theirs.params["logs"], rel=1e-8)
    assert slope.standard_error == pytest.approx(theirs.bse["logs"], rel=1e-8)
    assert slope.p_value == pytest.approx(theirs.pvalues["logs"], rel=1e-6)
    ours = model.contrast((3, "en"), (3, "de"))
    other = theirs.t_test("C(languages)[T.en] + C(positions)[T.3]:C(languages)[T.en] = 0")
    assert ours.estimate == pytest.approx(other.effect[0], rel=1e-8)
    assert ours.standard_error == pytest.approx(other.sd[0, 0], rel=1e-8)
    np.testing.assert_allclose([ours.low, ours.high], other.conf_int()[0], rtol=1e-8)


def test_it_finds_what_was_put_in(model: JointModel) -> None:
    """Every true value inside a 99.9 % interval (about 3.5 standard errors)."""
    truths = [
        (model.contrast((3, "en"), (3, "de")), 0.07),
        (model.contrast((1, "fr"), (1, "de")), 0.0),
        (model.contrast((2, "de"), (1, "de")), -0.05),
        (model.slope(), -0.04),
    ]
    for found, truth in truths:
        assert abs(found.estimate - truth) < 3.6 * found.standard_error


def test_averages_are_averages_of_cells(model: JointModel) -> None:
    effect = model.position_effect()
    assert (effect.names, effect.baseline, effect.over) == ((2, 3), 1, LANGUAGES)
    by_hand = [np.mean([model.contrast((p, k), (1, k)).estimate for k in LANGUAGES]) for p in (2, 3)]
    np.testing.assert_allclose(effect.contrasts.estimate, by_hand, rtol=1e-10)
    assert effect.test.df1 == 2
    assert effect.test.p_value < 1e-6
    spoken = model.language_effect()
    assert (spoken.names, spoken.baseline, spoken.over) == (("en", "fr"), "de", (1, 2, 3))
    by_hand = [np.mean([model.contrast((p, k), (p, "de")).estimate for p in (1, 2, 3)]) for k in ("en", "fr")]
    np.testing.assert_allclose(spoken.contrasts.estimate, by_hand, rtol=1e-9, atol=1e-12)


def test_mixed_plans_beside_monolingual_ones_leave_nothing_out() -> None:
    rows = plan_rows(np.random.default_rng(1), [("de", "de"), ("en", "de"), ("de", "en")], sets=12)
    model = joint_model(**rows)
    assert model.missing == ()
    assert model.inference == "cr2"
    assert np.isfinite(model.contrast((1, "en"), (1, "de")).p_value)


def test_an_empty_cell_is_left_out_and_named() -> None:
    """German and English alone, and German behind an English lead: French nowhere, English everywhere."""
    rows = plan_rows(np.random.default_rng(1), [("en", "en"), ("en", "de")], sets=12)
    model = joint_model(**rows)
    assert model.missing == ((1, "de"),)
    assert len(model.cells) == 5
    assert np.isfinite(model.contrast((2, "de"), (2, "en")).p_value)
    assert model.position_effect().over == ("en",)
    assert model.language_effect().over == (2, 3)
    with pytest.raises(StatisticsError, match=r"not estimable: language 'de' never occurs at position 1 \(missing:"):
        model.contrast((1, "en"), (1, "de"))
    with pytest.raises(StatisticsError, match="positions are 1 to 3, languages 'de', 'en'"):
        model.contrast((1, "en"), (4, "de"))


def test_one_mixed_plan_cannot_tell_position_from_language() -> None:
    model = joint_model(**plan_rows(np.random.default_rng(1), [("en", "de")], sets=12))
    assert model.missing == ((1, "de"), (2, "en"), (3, "en"))
    for refused, words in (
        (model.position_effect, "no language occurs at every position"),
        (model.language_effect, "at no position do all languages occur"),
    ):
        with pytest.raises(StatisticsError, match=words) as error:
            refused()
        assert "'de' at 1, 'en' at 2, 'en' at 3" in str(error.value)
        assert "\n" not in str(error.value)
    assert np.isfinite(model.contrast((3, "de"), (2, "de")).p_value)


def test_lengths_that_do_not_vary_have_no_slope(rows: dict[str, np.ndarray]) -> None:
    flat = {**rows, "tokens": np.where(rows["languages"] == "en", 100, 120)}
    with pytest.raises(StatisticsError, match="do not vary inside any"):
        joint_model(**flat)
    with pytest.raises(StatisticsError, match="tokens must be positive, got 0"):
        joint_model(**{**rows, "tokens": np.zeros(len(rows["values"]))})
    without = joint_model(**{name: column for name, column in rows.items() if name != "tokens"})
    with pytest.raises(StatisticsError, match="there is no slope"):
        without.slope()
    cell = (rows["positions"] == 2) & (rows["languages"] == "fr")
    assert without.mean((2, "fr")).estimate == pytest.approx(rows["values"][cell].mean())


def test_one_language_has_no_language_effect() -> None:
    model = joint_model(**plan_rows(np.random.default_rng(1), [("en", "en")], sets=12))
    with pytest.raises(StatisticsError, match="'en' is the only language"):
        model.language_effect()
    assert len(model.position_effect().contrasts) == 2
