"""Rows of known design for the statistics' tests, and what rows cannot decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fairspan.errors import DesignError
from fairspan.stats.arrays import group
from fairspan.stats.distributions import f_above, t_below, t_quantile, t_ratio
from fairspan.stats.least_squares import fit
from fairspan.stats.positions import position_effects

# Documents of nine sets, from one to twenty-four.
UNEVEN = (1, 1, 2, 2, 3, 4, 8, 16, 24)


def dummies(positions: np.ndarray) -> np.ndarray:
    """The design [N, n]: a constant, and one column for each of positions 2…n."""
    return np.column_stack(
        [np.ones(len(positions)), *(positions == p for p in range(2, positions.max() + 1))]
    )


@dataclass(frozen=True)
class Rows:
    values: np.ndarray
    positions: np.ndarray
    sets: np.ndarray
    segments: np.ndarray
    documents: np.ndarray

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.values, self.positions, self.sets

    def keep(self, rows: np.ndarray) -> Rows:
        return Rows(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def make_rows(
    rng: np.random.Generator,
    documents: tuple[int, ...] | int = 9,
    n: int = 4,
    effects: tuple[float, ...] = (),
    noise: float = 0.03,
) -> Rows:
    """Cyclic orders of n segments a set; sets, segments and set × position interactions all have
    random effects.

    `documents` are those of each set, or a number of sets that all have n: then the design is Latin
    and balanced.
    """
    per_set = np.full(documents, n) if isinstance(documents, int) else np.array(documents)
    sets, shifts = (
        np.repeat(np.arange(len(per_set)), per_set),
        np.concatenate([np.arange(d) for d in per_set]),
    )
    position = np.tile(np.arange(n), len(sets))
    set_of, shift = np.repeat(sets, n), np.repeat(shifts, n)
    segments = set_of * n + (position + shift) % n
    values = (
        0.5
        + np.array(effects or (0.0,) * n)[position]
        + rng.normal(0, 0.05, len(per_set))[set_of]
        + rng.normal(0, 0.05, len(per_set) * n)[segments]
        + rng.normal(0, noise, (len(per_set), n))[set_of, position]
        + rng.normal(0, 0.02, len(position))
    )
    return Rows(values, position + 1, set_of, segments, np.repeat(np.arange(len(sets)), n))


def uneven_rows(rng: np.random.Generator, **options: Any) -> Rows:
    """Sets of very different sizes, and one row in ten missing."""
    rows = make_rows(rng, UNEVEN, **options)
    return rows.keep(np.flatnonzero(default_rng(5).random(len(rows.values)) > 0.1))


def test_labels_of_any_kind_group_alike() -> None:
    numbers = np.array([7, 3, 7, 5, 3])
    reference = group(numbers)
    for labels in (
        numbers.astype(str),
        numbers.astype(object),
        numbers.astype(float),
        numbers.tolist(),
    ):
        groups = group(labels)
        assert groups.count == reference.count == 3
        np.testing.assert_array_equal(
            groups.codes[:, None] == groups.codes, reference.codes[:, None] == reference.codes
        )
    np.testing.assert_array_equal(reference.sums(np.arange(5.0)), [5, 3, 2])


def test_one_set_is_refused() -> None:
    with pytest.raises(DesignError, match="at least 2 different sets, got 1"):
        position_effects([0.1, 0.2, 0.3, 0.5], [1, 2, 1, 2], ["a", "a", "a", "a"])


def test_least_squares_solves_the_normal_equations() -> None:
    rng = default_rng(0)
    x, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    fitted = fit(y, x)
    assert_allclose(fitted.coefficients, np.linalg.lstsq(x, y)[0], rtol=1e-10)
    assert_allclose(fitted.root @ fitted.root.T, np.linalg.inv(x.T @ x), rtol=1e-10)
    assert_allclose(x.T @ fitted.residuals, 0, atol=1e-12)


def test_what_rows_cannot_decide_is_refused() -> None:
    rng = default_rng(0)
    x = rng.normal(size=(30, 3))
    with pytest.raises(DesignError, match="30 rows are too few for 3 coefficients"):
        fit(rng.normal(size=30), np.column_stack([x[:, 0], x[:, 1], x[:, 0] - x[:, 1]]))
    with pytest.raises(DesignError, match="3 rows are too few for 3 coefficients"):
        fit(np.array([1.0, 2.0, 3.0]), x[:3])


def test_distributions_are_scipys() -> None:
    """Also at fractional and infinite degrees of freedom."""
    stats = pytest.importorskip("scipy.stats")
    t, df = np.array([-3.0, 0.1, 2.5, 1.96]), np.array([3.1, 8, 500.5, np.inf])
    assert_allclose(t_below(t, df), stats.t.cdf(t, df), rtol=1e-12)
    assert_allclose(t_quantile(0.975, df), stats.t.ppf(0.975, df), rtol=1e-10)
    assert f_above(2.5, 3, 7.3) == pytest.approx(stats.f.sf(2.5, 3, 7.3), rel=1e-12)
    assert f_above(2.5, 3, np.inf) == pytest.approx(stats.chi2.sf(7.5, 3), rel=1e-12)
    np.testing.assert_array_equal(t_ratio([0, 1, -1, 3], [0, 0, 0, 2]), [0, np.inf, -np.inf, 1.5])
