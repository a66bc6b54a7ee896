"""The words for a paired change, and how many clusters would decide it."""

from __future__ import annotations

import numpy as np
import pytest

from fairspan.stats.estimates import Estimates, t_estimates
from fairspan.stats.gains import (
    clusters_to_confirm,
    clusters_to_decide,
    combined_word,
    is_worse,
    word_of,
)

MARGIN = 0.01


def change_of(estimate: float, error: float, freedom: float) -> Estimates[float]:
    return t_estimates([estimate], [error], [freedom])[0]


@pytest.mark.parametrize(
    ("low", "high", "p", "word"),
    [
        (0.001, 0.03, None, "better"),
        (0.001, 0.03, 0.04, "better"),
        (0.001, 0.03, 0.06, "not worse"),
        (-0.009, 0.03, None, "not worse"),
        (-0.01, 0.002, None, "not worse"),
        (-0.011, 0.03, None, "inconclusive"),
        (-0.05, 0.05, 0.01, "inconclusive"),
        (-0.009, -0.001, None, "slightly worse"),
        (-0.011, -0.001, None, "worse"),
        (-0.05, -0.03, None, "worse"),
        (np.nan, np.nan, None, "inconclusive"),
    ],
)
def test_the_words(low: float, high: float, p: float | None, word: str) -> None:
    change = Estimates((low + high) / 2, low, high, np.nan, 0.01, 19)
    assert word_of(change, MARGIN, p) == word


def test_the_same_is_said_where_nothing_can_have_changed() -> None:
    """A change of 0 in every query; of 0 on average is another thing."""
    assert word_of(change_of(0.0, 0.0, 19), MARGIN) == "the same"
    assert word_of(change_of(0.0, 0.001, 19), MARGIN) == "not worse"
    assert word_of(change_of(0.02, 0.0, 19), MARGIN) == "better"


@pytest.mark.parametrize(
    ("overall", "short", "long", "verdict"),
    [
        ("better", "worse", "better", "better for long, worse for short documents"),
        ("better", "better", "worse", "better for short, worse for long documents"),
        ("not worse", "not worse", "worse", "worse for long documents"),
        ("inconclusive", "worse", "inconclusive", "worse for short documents"),
        ("better", "worse", "worse", "worse"),
        ("better", "slightly worse", "better", "better"),
        ("inconclusive", "inconclusive", "better", "inconclusive"),
        ("worse", None, None, "worse"),
        ("better", None, "worse", "better"),
    ],
)
def test_no_group_pays_for_the_other(
    overall: str, short: str | None, long: str | None, verdict: str
) -> None:
    found = combined_word(overall, short, long)  # type: ignore[arg-type]
    assert found == verdict
    assert is_worse(found) == ("worse" in found and found not in ("not worse", "slightly worse"))


def test_the_fewer_of_a_loss_and_none_beyond_the_margin() -> None:
    """A change of −.009 is nearly a loss beyond the margin: a loss is shown sooner."""
    loss = change_of(-0.009, 0.01, 39)
    assert clusters_to_decide(loss, 40, MARGIN) == clusters_to_confirm(
        change_of(0.009, 0.01, 39), 40
    )
    # The same numbers by hand: `test_the_formula_by_hand` of equivalence.
    assert clusters_to_confirm(change_of(0.03, 0.02, 19), 20) == 72
    assert clusters_to_decide(change_of(0.0, 0.02, 19), 20, 0.03) == 72, "no loss beyond the margin"
    assert clusters_to_decide(change_of(-0.0001, 0.3, 39), 40, 0.0) is None
    assert clusters_to_confirm(change_of(-0.02, 0.02, 39), 40) is None
    unknown = Estimates(0.1, np.nan, np.nan, np.nan, np.nan, np.nan)
    assert clusters_to_decide(unknown, 20, MARGIN) is None
