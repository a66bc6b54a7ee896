"""The words for a paired change, and how many clusters would decide it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fairspan.stats.gains import (
    clusters_to_confirm,
    clusters_to_decide,
    combined_word,
    is_worse,
    word_of,
)
from fairspan.stats.intervals import Interval, t_interval

MARGIN = 0.01


@pytest.mark.parametrize(
    ("low", "high", "p_value", "word"),
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
def test_the_words(low: float, high: float, p_value: float | None, word: str) -> None:
    change = Interval((low + high) / 2, low, high, standard_error=0.01)
    assert word_of(change, MARGIN, p_value) == word


def test_the_same_is_said_where_nothing_can_have_changed() -> None:
    """A change of 0 in every query; of 0 on average is another thing."""
    assert word_of(t_interval(0.0, 0.0, 19), MARGIN) == "the same"
    assert word_of(t_interval(0.0, 0.001, 19), MARGIN) == "not worse"
    assert word_of(t_interval(0.02, 0.0, 19), MARGIN) == "better"


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
        change = t_interval(truth, 0.06 / np.sqrt(20), 19)
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


def test_it_takes_more_where_less_is_to_be_seen() -> None:
    """The number is of all clusters, not of further ones: it is larger than those there are, grows
    with the error, and does not depend on how many there are already."""
    errors = (0.005, 0.01, 0.02, 0.03)
    counts = [clusters_to_decide(t_interval(0.0, error, 39), 40, MARGIN) for error in errors]
    known = [count for count in counts if count is not None]
    assert known == sorted(known)
    assert min(known) > 40
    nearer = [clusters_to_confirm(t_interval(gain, 0.02, 39), 40) for gain in (0.05, 0.02, 0.01)]
    assert nearer == sorted(nearer, key=lambda count: count or 0)
    half = clusters_to_decide(t_interval(0.0, 0.02 * np.sqrt(2), 39), 40, MARGIN)
    twice = clusters_to_decide(t_interval(0.0, 0.02, 79), 80, MARGIN)
    # Rounded up to two digits.
    assert half == pytest.approx(twice, rel=0.1)


def test_what_no_realistic_number_decides() -> None:
    """More than a hundred times as many; no error; an estimate on the margin."""
    assert clusters_to_decide(t_interval(-0.0099, 0.02, 39), 40, MARGIN) is not None, "a loss"
    assert clusters_to_decide(t_interval(-0.0001, 0.3, 39), 40, 0.0) is None
    assert clusters_to_confirm(t_interval(-0.02, 0.02, 39), 40) is None
    assert clusters_to_confirm(t_interval(0.02, 0.0, 39), 40) is None
    assert clusters_to_decide(Interval(0.1), 20, MARGIN) is None
