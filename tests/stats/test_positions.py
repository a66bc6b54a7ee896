"""How uneven position means are, by hand, and which positions are compared."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from fairspan.stats.positions import marker, pair_weights, position_effects
from tests.stats.rows import make_rows


@pytest.mark.parametrize("first", [1, 2])
def test_intervals_leave_out_one_set_at_a_time(first: int) -> None:
    rows = make_rows(default_rng(0), 20, effects=(0.0, -0.03, -0.05, -0.04))
    found = position_effects(*rows.columns).unevenness(first)
    table = rows.values.reshape(20, 4, 4).mean(1)[:, first - 1 :]
    for name, measure in (("spread", np.ptp), ("psi", lambda m: 1 - m.min() / m.max())):
        estimate = measure(table.mean(0))
        without = [measure(np.delete(table, number, 0).mean(0)) for number in range(20)]
        error = np.sqrt(19 / 20 * np.sum((np.array(without) - estimate) ** 2))
        half = stats.t.ppf(0.975, 19) * error
        limits = (found[name].estimate, found[name].low, found[name].high)
        assert limits == pytest.approx((estimate, estimate - half, estimate + half))


def test_shares_of_means_that_are_not_positive_are_nan() -> None:
    rows = make_rows(default_rng(0), 20, effects=(0.0, -0.7, 0.0, 0.0))
    found = position_effects(*rows.columns).unevenness()
    assert np.isnan(found["psi"].estimate)
    assert np.isfinite(found["spread"].low)


def test_every_two_positions() -> None:
    weights = pair_weights(4)
    np.testing.assert_array_equal(weights[[0, 3]], [[-1, 1, 0, 0], [0, -1, 1, 0]])
    np.testing.assert_array_equal(pair_weights(4, 3), [[0, 0, -1, 1]])
    assert pair_weights(1).shape == (0, 1)


@pytest.mark.parametrize(
    ("p", "sign"),
    [(0.0005, ""), (0.001, "◇"), (0.009, "◇"), (0.01, "□"), (0.049, "□"), (0.05, "•"), (1.0, "•")],
)
def test_markers_are_the_papers(p: float, sign: str) -> None:
    assert marker(p) == sign
