"""The rule of preference, and its check by halves, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t  # type: ignore[import-untyped, unused-ignore]

from fairspan.stats.choice import cross_check, prefer

DISTANCES = {"a": 0.3, "b": 0.2, "c": 0.1}


@pytest.mark.parametrize(
    ("quality", "margin", "preferred"),
    [
        ({"a": 0.70, "b": 0.50, "c": 0.50}, 0.01, "a"),
        ({"a": 0.70, "b": 0.695, "c": 0.68}, 0.01, "b"),
        ({"a": 0.70, "b": 0.695, "c": 0.68}, 0.02, "c"),
        ({"a": 0.70, "b": 0.695, "c": 0.68}, 0.0, "a"),
        ({"c": 0.70, "a": 0.695}, 0.01, "c"),
    ],
)
def test_of_those_within_the_margin_of_the_best_the_mildest_is_preferred(
    quality: dict[str, float], margin: float, preferred: str
) -> None:
    assert prefer(quality, DISTANCES, margin) == preferred


def test_no_half_judges_what_it_prefers() -> None:
    """Eight documents with two queries each. One half of them finds more with a, the other with b,
    and each by another amount."""
    documents = np.repeat(np.arange(8), 2)
    first = np.random.default_rng(3).permutation(8) % 2 == 0
    assert first.sum() == 4, "the premise"
    noise = np.tile([0.01, -0.01, 0.02, -0.02, 0.03, -0.03, 0.0, 0.0], (2, 1)).T.ravel()
    in_first = first[documents]
    values = {
        "plain": np.full(16, 0.5),
        "a": 0.5 + np.where(in_first, 0.4, 0.1) + noise,
        "b": 0.5 + np.where(in_first, 0.2, 0.3) + noise,
    }
    check = cross_check(values, documents * 10, "plain", ["a", "b"], DISTANCES, 0.01, seed=3)
    assert check.preferred == ("a", "b")
    # The first half has b, which the second prefers, and the second has a.
    gains = (np.where(in_first, 0.2, 0.1) + noise).reshape(8, 2).mean(1)
    error = gains.std(ddof=1) / 8**0.5
    assert check.gain.estimate == pytest.approx(gains.mean())
    assert check.gain.low == pytest.approx(gains.mean() - t.ppf(0.975, 7) * error)
    # Of the better ones on their own halves, 0.35 would be claimed.
    own = np.where(in_first, values["a"], values["b"]).mean() - 0.5
    assert own == pytest.approx(0.35)
