"""Languages in mixed documents against statsmodels."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from fairspan.stats.equivalence import Verdict, decide
from fairspan.stats.languages import LanguageEffects, LeadLater, language_effects

BOTH: list[LeadLater] = [("en", "de"), ("de", "en")]
ALL: list[LeadLater] = [
    (lead, later) for lead in ("en", "de", "hi") for later in ("en", "de", "hi") if lead != later
]
LONGER = {"en": 0.0, "de": 0.2, "hi": 0.5}
"""How much longer the log of a segment is in each language."""


def mixed_rows(
    rng: np.random.Generator,
    plans: list[LeadLater] = BOTH,
    *,
    favour: dict[str, float] | None = None,
    n: int = 2,
    sets: int = 40,
    noise: float = 0.02,
    slope: float = 0.0,
) -> dict[str, np.ndarray]:
    """Every set in n Latin orders under every plan: position 1 is .2 above, and a language by what
    favours it."""
    lengths = rng.normal(4.6, 0.2, (sets, n))
    of_set = rng.normal(0, noise, (sets, 3))
    rows = []
    for number, code, shift, place in product(range(sets), range(len(plans)), range(n), range(n)):
        language = plans[code][min(place, 1)]
        logs = lengths[number, (place + shift) % n] + LONGER[language]
        value = 0.7 + 0.2 * (place == 0) + (favour or {}).get(language, 0.0) + slope * logs
        value += of_set[number, list(LONGER).index(language)] + rng.normal(0, 0.005)
        rows.append((value, place + 1, code, number, np.exp(logs)))
    names = ("values", "positions", "plans", "sets", "tokens")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def effects_of(
    rows: dict[str, np.ndarray], plans: list[LeadLater] = BOTH, *, lengths: bool = True, **how: Any
) -> LanguageEffects:
    tokens = rows["tokens"] if lengths else np.full(len(rows["tokens"]), 100)
    return language_effects(
        rows["values"], rows["positions"], (rows["plans"], plans), rows["sets"], tokens, **how
    )


def language_verdicts(families: list[LanguageEffects]) -> list[Verdict]:
    return decide([one.compared() for one in families])


@pytest.mark.parametrize(("n", "inference"), [(2, "z"), (3, "jackknife")])
def test_it_is_statsmodels_contrast(n: int, inference: str) -> None:
    """A dummy for each plan and position and the log of lengths: clustered by set, or fitted again
    without each set.
    """
    api = pytest.importorskip("statsmodels.api")
    rows = mixed_rows(default_rng(0), ALL, favour={"en": 0.04}, n=n, slope=0.03, sets=12)
    found = effects_of(rows, ALL, inference=inference)
    assert found.pairs == (("en", "de"), ("en", "hi"), ("de", "hi"))
    cells = rows["plans"] * n + rows["positions"] - 1
    design = np.column_stack(
        [cells[:, None] == np.arange(len(ALL) * n), np.log(rows["tokens"])]
    ).astype(float)
    model = api.OLS(rows["values"], design)
    theirs = model.fit(cov_type="cluster", cov_kwds={"groups": rows["sets"]}, use_t=False)
    left = (rows["sets"] != number for number in range(12))
    refits = np.array([api.OLS(rows["values"][kept], design[kept]).fit().params for kept in left])

    def weights(pair: LeadLater) -> np.ndarray:
        """At each place the first language, from the plan that has it there, minus the second from
        the other.
        """
        row = np.zeros(design.shape[1])
        for place in range(n):
            mine, other = (pair, pair[::-1]) if place == 0 else (pair[::-1], pair)
            row[ALL.index(mine) * n + place] += 1 / n
            row[ALL.index(other) * n + place] -= 1 / n
        return row

    ours = found.differences()
    assert set(ours.degrees_of_freedom) == {11 if inference == "jackknife" else np.inf}
    for place, pair in enumerate(found.pairs):
        row = weights(pair)
        estimate = row @ theirs.params
        error = np.sqrt(row @ theirs.cov_params() @ row)
        if inference == "jackknife":
            error = np.sqrt(11 / 12 * ((refits @ row - estimate) ** 2).sum())
        assert ours.estimate[place] == pytest.approx(estimate, rel=1e-8, abs=1e-12)
        assert ours.standard_error[place] == pytest.approx(error, rel=1e-8)


def test_a_favoured_language_is_found_and_named_first() -> None:
    """Hindi gains .05, six errors of √2 · .02/√40 = .0045 beyond the margin; English against German
    gains nothing.
    """
    rows = mixed_rows(default_rng(1), ALL, favour={"hi": 0.05})
    [found] = language_verdicts([effects_of(rows, ALL)])
    assert found.kind == "biased"
    assert found.kinds[1:] == ("biased", "biased")
    assert found.kinds[0] != "biased"
    assert found.subject == "hi"
    assert 0.02 < found.low < found.estimate < found.high
    assert found.sentence().startswith("hi is 0.0")
    assert f"more represented than {found.against} [" in found.sentence()


def test_lengths_that_hardly_vary_have_no_slope() -> None:
    """Constant within a language, or one token in a hundred longer: the means are plain means."""
    rows = mixed_rows(default_rng(3))
    english = (rows["positions"] == 1) == (rows["plans"] == 0)
    flat = np.where(english, 100, 120)
    odd = np.where(np.arange(len(flat)) % 7, 100, 101)
    # English of en:de at 1 and of de:en at 2, against German at the same places.
    means = [
        rows["values"][(rows["plans"] == plan) & (rows["positions"] == position)].mean()
        for plan, position in ((0, 1), (1, 2), (1, 1), (0, 2))
    ]
    reasons = []
    for tokens in (flat, odd):
        found = effects_of({**rows, "tokens": tokens})
        assert found.differences().estimate[0] == pytest.approx(
            sum(means[:2]) / 2 - sum(means[2:]) / 2
        )
        reasons.append(found.no_slope)
    assert reasons[0] == (
        "segment lengths do not vary within a language, so the effect of length is not estimated; "
        "differences between languages include that of their mean lengths (de 120, en 100)"
    )
    # One in seven is longer by 1 %: a standard deviation of √(1/7 · 6/7) · log(1.01) = 0.35 %.
    assert reasons[1] == (
        "segment lengths vary by only 0.3 % within a language, so the effect of length is not "
        "estimated"
    )


def test_one_order_is_not_compared() -> None:
    plans: list[LeadLater] = [("en", "de"), ("de", "en"), ("hi", "en")]
    rows = mixed_rows(default_rng(4), plans)
    found = effects_of(rows, plans)
    assert found.pairs == (("en", "de"),)
