"""How often tunings err, and how often they find what is there, when the truth is known.

The value of a query is nDCG@10 of one relevant document: 1 / log2(1 + rank), or 0 beyond rank 10.
Its rank comes from a latent normal, of which the queries of a document share a part. A candidate
redraws some queries, and some documents as a whole, from that same distribution: it differs from
the plain model and is on average no better or worse. A gain turns values into 1 at a rate, so that
true means are known exactly.

Limits are binomial: a rule that errs as often as it may exceeds them with a chance below 4 %, and
one that finds as often as it has to falls short with a chance below 2 %.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom, norm  # type: ignore[import-untyped, unused-ignore]

from fairspan.studies.tune.decision import decide
from tests.studies.tune.simulated import NAMES, PLAIN, tuning_log

DOCUMENTS, QUERIES, RUNS = 200, 4, 400
_VALUES = np.array([*(1 / np.log2(1 + np.arange(1, 11))), 0.0])
_LIMITS = np.linspace(0.0, -1.6, 10)
"""From this latent value on a query has rank 1, 2, …, 10."""
_MEAN, _OF_DOCUMENT, _OF_QUERY = 0.4, 0.5, 1.0
"""Of latent values: the mean, and standard deviations of what the queries of a document share, and
of their own."""


@dataclass(frozen=True)
class Arm:
    """The shares of queries and of whole documents that a candidate draws anew, and its gain."""

    redrawn: float = 0.3
    documents_redrawn: float = 0.05
    gain: float = 0.0


def true_mean() -> float:
    """What a query gets on average from the plain model."""
    above = norm.sf((_LIMITS - _MEAN) / np.hypot(_OF_DOCUMENT, _OF_QUERY))
    return float(np.diff(above, prepend=0, append=1) @ _VALUES)


def ranked(shared: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    latent = _MEAN + shared + rng.normal(0, _OF_QUERY, (len(shared), QUERIES))
    return _VALUES[(latent[..., None] < _LIMITS).sum(-1)]


def draw(
    arms: dict[str, Arm], rng: np.random.Generator, documents: int = DOCUMENTS
) -> dict[str, np.ndarray]:
    """Values [documents, queries] of the plain model and of each candidate."""
    shared = rng.normal(0, _OF_DOCUMENT, (documents, 1))
    values = {PLAIN: ranked(shared, rng)}
    for name, arm in arms.items():
        anew = rng.random(shared.shape) < arm.documents_redrawn
        other = ranked(np.where(anew, rng.normal(0, _OF_DOCUMENT, shared.shape), shared), rng)
        redrawn = anew | (rng.random(other.shape) < arm.redrawn)
        found = np.where(redrawn, other, values[PLAIN])
        improved = rng.random(found.shape) < arm.gain / (1 - true_mean())
        values[name] = np.where(improved, 1.0, found)
    return values


def answers(gain: float, seed: int) -> Counter[str | None]:
    """How often each of five candidates is used, and none; only the first gains."""
    arms = {name: Arm(gain=gain * (name == NAMES[0])) for name in NAMES}
    rng = np.random.default_rng(seed)
    return Counter(decide(tuning_log(draw(arms, rng))).name for _ in range(RUNS))


def test_the_simulation_has_the_means_that_it_says() -> None:
    """20,000 documents: standard errors of .002 of a mean, and of .001 of a gain."""
    arms = {"c0": Arm(), "c1": Arm(0.9, 0.3), "c2": Arm(gain=0.03)}
    values = draw(arms, np.random.default_rng(0), 20_000)
    assert values[PLAIN].mean() == pytest.approx(true_mean(), abs=0.008)
    for name, gain in (("c0", 0.0), ("c1", 0.0), ("c2", 0.03)):
        assert (values[name] - values[PLAIN]).mean() == pytest.approx(gain, abs=0.005)
    # What is realistic: a paired difference varies by 0.1 to 0.15 between documents.
    assert 0.1 < (values["c0"] - values[PLAIN]).mean(1).std() < 0.15


@pytest.mark.slow
def test_without_an_effect_hardly_any_tuning_says_use() -> None:
    used = RUNS - answers(0.0, seed=5)[None]
    print(f"\nwithout effect: {used / RUNS:.3f} of {RUNS} say use")
    assert used <= binom.ppf(0.96, RUNS, 0.05)


@pytest.mark.slow
def test_a_gain_is_found() -> None:
    used = answers(0.05, seed=50)[NAMES[0]]
    print(f"\none gains 0.05: {used / RUNS:.3f} of {RUNS} say use it")
    assert used >= binom.ppf(0.02, RUNS, 0.95)
