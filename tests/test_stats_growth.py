"""Whether something grows, against intervals, and documents that would decide, against simulated runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fairspan.errors import StatisticsError
from fairspan.stats.contrasts import Contrast
from fairspan.stats.growth import documents_needed, growth

MARGIN = 0.005


def slope(estimate: float, error: float, freedom: float = 19) -> Contrast:
    reach = stats.t.ppf(0.975, freedom) * error
    p = 2 * stats.t.sf(abs(estimate) / error, freedom)
    return Contrast(estimate, error, freedom, p, estimate - reach, estimate + reach)


def test_decisions_are_those_of_the_intervals() -> None:
    """More and less as the 95 % interval shows, not more as the 90 % interval does."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        found = slope(rng.normal(scale=0.01), rng.gamma(2, 0.002), rng.integers(2, 60))
        high_90 = found.estimate + stats.t.ppf(0.95, found.degrees_of_freedom) * found.standard_error
        if found.low > MARGIN:
            expected = "more"
        elif found.high < -MARGIN:
            expected = "less"
        else:
            expected = "not more" if high_90 < MARGIN else "open"
        assert growth(found, MARGIN) == expected
        seen.add(expected)
    assert seen == {"more", "less", "not more", "open"}


def test_what_is_not_significant_shows_nothing() -> None:
    """Five documents, +0.043 [−0.020, +0.106]: 0 is inside, and so is far more than the margin."""
    found = slope(0.043, 0.0227, 4)
    assert found.low < 0 < found.high
    assert growth(found, MARGIN) == "open"


def test_a_small_rise_that_is_significant_is_not_more() -> None:
    assert growth(slope(0.002, 0.0005), MARGIN) == "not more"
    assert growth(slope(0.002, 0.0005), 0.0005) == "more"


def test_an_error_of_zero_or_none() -> None:
    """Texts that are all the same have no error; two documents have none that is known."""
    same = Contrast(0.0, 0.0, 9, 1.0, 0.0, 0.0)
    assert growth(same, MARGIN) == "not more"
    assert growth(Contrast(0.0, np.nan, np.nan, np.nan, np.nan, np.nan), MARGIN) == "open"


@pytest.mark.parametrize(("truth", "kind"), [(0.0, "not more"), (0.012, "more"), (-0.01, "not more")])
@pytest.mark.slow
def test_so_many_documents_decide_in_four_of_five_cases(truth: float, kind: str) -> None:
    """Normal documents with a standard deviation of 0.04, simulated with as many as were said to be needed.

    1,500 runs have a standard error of 1 %: four of them.
    """
    seen = 12
    needed = documents_needed(slope(truth, 0.04 / seen**0.5, seen - 1), MARGIN, seen)
    assert needed is not None
    total, rng = seen + needed, np.random.default_rng(1)
    values = rng.normal(truth, 0.04, (1500, total))
    means, errors = values.mean(1), values.std(1, ddof=1) / total**0.5
    kinds = [growth(slope(m, e, total - 1), MARGIN) for m, e in zip(means, errors, strict=True)]
    decided = np.mean([one == kind or (kind, one) == ("not more", "less") for one in kinds])
    assert decided == pytest.approx(0.8, abs=0.04)


def test_no_number_decides_on_the_margin_itself() -> None:
    assert documents_needed(slope(MARGIN, 0.01), MARGIN, 20) is None


@pytest.mark.parametrize("margin", [0, -0.1, float("nan")])
def test_a_margin_that_cannot_be(margin: float) -> None:
    with pytest.raises(StatisticsError, match="margin must be more than 0"):
        growth(slope(0.1, 0.1), margin)
