"""The joint model against statsmodels' formula of it, and what empty cells do to it."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fairspan.errors import DesignError
from fairspan.stats.intervals import Interval
from fairspan.stats.languages import Condition, JointModel, joint_model

SETS, N = 45, 3
LANGUAGES = ("de", "en", "fr")


def plan_rows(
    rng: np.random.Generator, plans: list[tuple[str, str]], sets: int = SETS
) -> dict[str, np.ndarray]:
    """Every set under every (lead, later) plan, three Latin orders each; longer segments are less
    represented.
    """
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
                    value = (
                        0.5
                        - 0.05 * position
                        + 0.03 * (language == "en")
                        + 0.02 * (language == "en") * position
                    )
                    value += (
                        central[number, segment] + noise[number, position] - 0.04 * np.log(tokens)
                    )
                    rows.append(
                        (value + rng.normal(0, 0.01), position + 1, language, number, tokens)
                    )
    columns = zip(*rows, strict=True)
    return {
        name: np.array(column)
        for name, column in zip(
            ("values", "positions", "languages", "sets", "tokens"), columns, strict=True
        )
    }


MONOLINGUAL = [(language, language) for language in LANGUAGES]


def contrast(model: JointModel, first: Condition, second: Condition) -> Interval:
    """First cell minus second at the same length."""
    return model.robust.contrasts((model.weights(first) - model.weights(second))[None])[0]


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    return plan_rows(default_rng(0), MONOLINGUAL)


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
    assert model.robust.inference == "cr1"
    slope = model.slope()
    assert slope.estimate == pytest.approx(theirs.params["logs"], rel=1e-8)
    assert slope.standard_error == pytest.approx(theirs.bse["logs"], rel=1e-8)
    assert slope.p_value == pytest.approx(theirs.pvalues["logs"], rel=1e-6)
    ours = contrast(model, (3, "en", ""), (3, "de", ""))
    other = theirs.t_test("C(languages)[T.en] + C(positions)[T.3]:C(languages)[T.en] = 0")
    assert ours.estimate == pytest.approx(other.effect[0], rel=1e-8)
    assert ours.standard_error == pytest.approx(other.sd[0, 0], rel=1e-8)
    assert_allclose([ours.low, ours.high], other.conf_int()[0], rtol=1e-8)


def test_averages_are_averages_of_cells(model: JointModel) -> None:
    effect = model.effect("position")
    assert (effect.names, effect.baseline) == ((2, 3), 1)
    assert effect.over == (tuple((language, "") for language in LANGUAGES),) * 2
    by_hand = [
        np.mean([contrast(model, (p, k, ""), (1, k, "")).estimate for k in LANGUAGES])
        for p in (2, 3)
    ]
    assert_allclose(effect.contrasts.estimate, by_hand, rtol=1e-10)
    assert effect.p_value < 1e-6
    spoken = model.effect("language")
    assert (spoken.names, spoken.baseline) == (("en", "fr"), "de")
    assert spoken.over == (((1, ""), (2, ""), (3, "")),) * 2
    by_hand = [
        np.mean([contrast(model, (p, k, ""), (p, "de", "")).estimate for p in (1, 2, 3)])
        for k in ("en", "fr")
    ]
    assert_allclose(spoken.contrasts.estimate, by_hand, rtol=1e-9, atol=1e-12)


def test_an_empty_cell_is_left_out_and_named() -> None:
    """German and English alone, and German behind an English lead: French nowhere, English
    everywhere.
    """
    rows = plan_rows(default_rng(1), [("en", "en"), ("en", "de")], sets=12)
    model = joint_model(**rows)
    assert len(model.cells) == 5
    assert np.isfinite(contrast(model, (2, "de", ""), (2, "en", "")).p_value)
    assert model.effect("position").over == ((("en", ""),),) * 2
    assert model.effect("language").over == (((2, ""), (3, "")),)


def test_one_mixed_plan_cannot_tell_position_from_language() -> None:
    model = joint_model(**plan_rows(default_rng(1), [("en", "de")], sets=12))
    for factor, words in (
        ("position", "no language is at position 1 and at a later one"),
        ("language", "no other language is where de is"),
    ):
        with pytest.raises(DesignError, match=words):
            model.effect(factor)  # type: ignore[arg-type]
    assert np.isfinite(contrast(model, (3, "de", ""), (2, "de", "")).p_value)


def test_lengths_that_hardly_vary_have_no_slope(rows: dict[str, np.ndarray]) -> None:
    """Constant within a language, or one token in a hundred longer: the model is that without
    lengths.
    """
    without = joint_model(**{name: column for name, column in rows.items() if name != "tokens"})
    flat = np.where(rows["languages"] == "en", 100, 120)
    odd = np.where(np.arange(len(flat)) % 7, 100, 101)
    reasons = []
    for tokens in (flat, odd):
        model = joint_model(**{**rows, "tokens": tokens})
        for found, wanted in zip(
            (model.effect("position"), model.effect("language")),
            (without.effect("position"), without.effect("language")),
            strict=True,
        ):
            np.testing.assert_array_equal(found.contrasts.estimate, wanted.contrasts.estimate)
            np.testing.assert_array_equal(
                found.contrasts.standard_error, wanted.contrasts.standard_error
            )
        reasons.append(model.no_slope)
    assert reasons[0] == (
        "segment lengths do not vary within a language, so the effect of length is not estimated; "
        "differences between languages include that of their mean lengths (de 120, en 100, fr 120)"
    )
    # One in seven is longer by 1 %: a standard deviation of √(1/7 · 6/7) · log(1.01) = 0.35 %.
    assert reasons[1] == (
        "segment lengths vary by only 0.3 % within a language, so the effect of length is not "
        "estimated"
    )
    assert without.no_slope == "the model was fitted without token lengths"
    cell = (rows["positions"] == 2) & (rows["languages"] == "fr")
    assert without.mean((2, "fr", "")).estimate == pytest.approx(rows["values"][cell].mean())


COMPANIES = ("", "alone", "not alone")


def test_company_is_kept_apart() -> None:
    """English leads in German and the reverse: a language at 1 is alone in its document, and later
    it is not.

    So positions are not compared over both, and languages are, at the same position.
    """
    rows = plan_rows(default_rng(1), [("en", "de"), ("de", "en")], sets=12)
    alone = np.where(rows["positions"] == 1, 1, 2)
    model = joint_model(**rows, companies=(alone, COMPANIES))
    with pytest.raises(DesignError, match="later one in the same company"):
        model.effect("position")
    spoken = model.effect("language")
    assert spoken.over == (((1, "alone"), (2, "not alone"), (3, "not alone")),)
    plain = joint_model(**rows)
    assert_allclose(
        spoken.contrasts.estimate, plain.effect("language").contrasts.estimate, rtol=1e-9
    )
    beside = plan_rows(default_rng(1), [("en", "de"), ("de", "en"), ("en", "en")], sets=12)
    same = np.arange(len(beside["positions"])) % 27 >= 18
    company = np.where(same, 0, np.where(beside["positions"] == 1, 1, 2))
    assert (
        joint_model(**beside, companies=(company, COMPANIES)).effect("position").over
        == ((("en", ""),),) * 2
    )


def test_a_language_that_is_never_beside_the_first_is_named() -> None:
    """French leads English documents, German and English are alone: German against English is known
    all the same.
    """
    rows = plan_rows(default_rng(1), [("de", "de"), ("en", "en"), ("fr", "en")], sets=12)
    mixed = np.arange(len(rows["positions"])) % 27 >= 18
    company = np.where(mixed, np.where(rows["positions"] == 1, 1, 2), 0)
    found = joint_model(**rows, companies=(company, COMPANIES)).effect("language")
    assert (found.names, found.refused) == (("en",), ("fr",))
    assert found.over == (((1, ""), (2, ""), (3, "")),)
    alone = joint_model(**{name: column[~mixed] for name, column in rows.items()}).effect(
        "language"
    )
    # The slope of the lengths is estimated from more rows, so up to its error.
    assert_allclose(found.contrasts.estimate, alone.contrasts.estimate, atol=0.005)


def test_one_language_has_no_language_effect() -> None:
    model = joint_model(**plan_rows(default_rng(1), [("en", "en")], sets=12))
    with pytest.raises(DesignError, match="no other language is where en is"):
        model.effect("language")
    assert len(model.effect("position").contrasts) == 2
