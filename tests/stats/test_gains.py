"""The words for a paired change, and how many clusters would decide it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

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


def test_as_many_clusters_as_it_says_decide_in_four_of_five_samples() -> None:
    """A gain, no change and a loss, of clusters with this deviation. 4,000 samples: a share of .8
    has a standard error of .006; rounding up to two digits makes it up to .02 larger."""
    for truth, margin in ((0.02, None), (0.0, MARGIN), (-0.03, 0.0)):
        change = change_of(truth, 0.06 / np.sqrt(20), 19)
        if margin is None:
            count = clusters_to_confirm(change, 20)
        else:
            count = clusters_to_decide(change, 20, margin)
        assert count is not None
        assert count > 20
        samples = np.random.default_rng(4).normal(truth, 0.06, (4000, count))
        half = stats.t.ppf(0.975, count - 1) * samples.std(1, ddof=1) / np.sqrt(count)
        low, high = samples.mean(1) - half, samples.mean(1) + half
        decided = {0.02: low > 0, 0.0: low >= -MARGIN, -0.03: high < 0}[truth]
        assert decided.mean() == pytest.approx(0.81, abs=0.03)


def test_the_fewer_of_a_loss_and_none_beyond_the_margin() -> None:
    """A change of −.009 is nearly a loss beyond the margin: a loss is shown sooner."""
    loss = change_of(-0.009, 0.01, 39)
    assert clusters_to_decide(loss, 40, MARGIN) == clusters_to_confirm(
        change_of(0.009, 0.01, 39), 40
    )
    assert clusters_to_decide(change_of(-0.0001, 0.3, 39), 40, 0.0) is None
    assert clusters_to_confirm(change_of(-0.02, 0.02, 39), 40) is None
    unknown = Estimates(0.1, np.nan, np.nan, np.nan, np.nan, np.nan)
    assert clusters_to_decide(unknown, 20, MARGIN) is None
