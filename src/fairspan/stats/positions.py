"""How values differ by position: `PositionEffects`, and measures of unevenness."""

from dataclasses import dataclass, field, fields
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, group
from fairspan.stats.contrasts import Robust, regress
from fairspan.stats.equivalence import Compared
from fairspan.stats.intervals import Interval, Intervals
from fairspan.stats.resampling import jackknife, position_sums, share


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects(Intervals):
    """β0 (the mean at position 1), then β2…βn (each position minus position 1)."""

    means: Intervals
    sets: int
    robust: Robust = field(repr=False)

    def compared(self, first: int = 1) -> Compared:
        """Every position from the first on against every one before it, as in `position_pairs`."""
        pairs = position_pairs(len(self), first)
        names = [(f"position {later}", f"position {earlier}") for earlier, later in pairs]
        scope = f"from position {first} on" if first > 1 else ""
        weights = pair_weights(len(self), first)
        return Compared(self.robust, weights, names, self.sets, scope)


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> PositionEffects:
    """The position effects of values[N] at positions[N] (1…n) in sets[N], of segments[N]."""
    cells = group(positions)
    robust = regress(np.asarray(values, np.float64), cells, sets, segments, inference=inference)
    means = np.eye(cells.count)
    effects = robust.contrasts(np.concatenate([means[:1], difference_weights(cells.count)]))
    return PositionEffects(
        **{column.name: getattr(effects, column.name) for column in fields(Intervals)},
        means=robust.contrasts(means),
        sets=len(robust.clustered.scores),
        robust=robust,
    )


def difference_weights(count: int, against: int = 1) -> Floats:
    """Weights [n − against, n] on position means: later positions minus one."""
    weights = np.eye(count)[against:]
    weights[:, against - 1] = -1
    return weights


def position_pairs(count: int, first: int = 1) -> list[tuple[int, int]]:
    """Every two positions from the first on, the earlier one first."""
    return list(combinations(range(first, count + 1), 2))


def pair_weights(count: int, first: int = 1) -> Floats:
    """Weights [pairs, n] on position means: the later position of each pair minus the earlier."""
    pairs = np.array(position_pairs(count, first)) - 1
    return np.asarray(np.eye(count)[pairs[:, 1]] - np.eye(count)[pairs[:, 0]])


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, else •."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"


def unevenness(values: Floats, positions: Codes, sets: ArrayLike) -> dict[str, Interval]:
    """Measures of how much position means differ, each with its jackknife interval over sets.

    The spread cannot be negative, so its interval says nothing about fairness. PSI is a share of a
    mean, NaN if a position mean is zero or negative, as cosines may be.
    """
    sums = position_sums(values, positions, sets)
    return {"spread": jackknife(sums, spread), "psi": jackknife(sums, psi)}


def spread(means: Floats) -> Floats:
    """Largest minus smallest of means[..., n]."""
    return np.asarray(means.max(-1) - means.min(-1))


def psi(means: Floats) -> Floats:
    """1 − smallest/largest of means[..., n]; NaN unless all are positive."""
    positive = np.where((means > 0).all(-1, keepdims=True), means, np.nan)
    return share(spread(means), positive.max(-1))
