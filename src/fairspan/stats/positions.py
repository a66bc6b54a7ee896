"""How values differ by position: `PositionEffects`, and measures of unevenness."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, group, share
from fairspan.stats.equivalence import Compared
from fairspan.stats.estimates import Estimates
from fairspan.stats.jackknife import Fit, fit


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects:
    """The means of n positions, and their differences.

    `coefficients` are β0 (the mean at position 1), then β2…βn (each position minus position 1).
    """

    fit: Fit

    @property
    def n(self) -> int:
        return len(self.fit.coefficients)

    @property
    def means(self) -> Estimates[Floats]:
        return self.fit.contrasts(np.eye(self.n))

    @property
    def coefficients(self) -> Estimates[Floats]:
        return self.fit.contrasts(
            np.vstack([np.eye(self.n)[:1], pair_weights(self.n)[: self.n - 1]])
        )

    def compared(self, first: int = 1) -> Compared:
        """Every position from the first on against every one before it, as in `position_pairs`."""
        pairs = position_pairs(self.n, first)
        names = [(f"position {later}", f"position {earlier}") for earlier, later in pairs]
        scope = f"from position {first} on" if first > 1 else ""
        differences = self.fit.contrasts(pair_weights(self.n, first))
        return Compared(differences, names, self.fit.sets, scope)

    def unevenness(self, first: int = 1) -> dict[str, Estimates[float]]:
        """How much the means of positions from the first on differ.

        The spread cannot be negative, so its interval says nothing about fairness. PSI is a share
        of a mean, NaN if a position mean is zero or negative, as cosines may be.
        """
        positions = range(first - 1, self.n)
        measures = self.fit.measures([spread, psi], [positions, positions])
        return {"spread": measures[0], "psi": measures[1]}


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> PositionEffects:
    """The position effects of values[N] at positions[N] (1…n) in sets[N], of segments[N]."""
    return PositionEffects(fit(values, group(positions), sets, segments, inference=inference))


def position_pairs(count: int, first: int = 1) -> list[tuple[int, int]]:
    """Every two positions from the first on, the earlier one first."""
    return list(combinations(range(first, count + 1), 2))


def pair_weights(count: int, first: int = 1) -> Floats:
    """Weights [pairs, n] on position means: the later position of each pair minus the earlier."""
    pairs = np.array(position_pairs(count, first), np.int64).reshape(-1, 2) - 1
    return np.asarray(np.eye(count)[pairs[:, 1]] - np.eye(count)[pairs[:, 0]])


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, else •."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"


def spread(means: Floats) -> Floats:
    """Largest minus smallest of means[..., n]."""
    return np.asarray(means.max(-1) - means.min(-1))


def psi(means: Floats) -> Floats:
    """1 − smallest/largest of means[..., n]; NaN unless all are positive."""
    positive = np.where((means > 0).all(-1, keepdims=True), means, np.nan)
    return share(spread(means), positive.max(-1))
