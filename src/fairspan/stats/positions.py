"""`PositionEffects`: how a value differs by position, with errors that know which rows belong to one set."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats, Groups, as_positions, as_values, group, require_same_length
from fairspan.stats.contrasts import Contrasts, JointTest, Robust, robust
from fairspan.stats.ols import merge


@dataclass(frozen=True, slots=True, eq=False)
class PositionEffects(Contrasts):
    """Least squares of values on position dummies, baseline position 1.

    The arrays [n] of the contrasts are of β0 (the mean at position 1) and then β2…βn (the difference of each position
    from it). Under "wild" p-value and interval come from the bootstrap and the standard error is CR1's.

    Attributes:
        means: the mean at each position 1…n, with its own standard error and interval.
        joint: the test of β2 = … = βn = 0.
        covariance: [n, n] of `estimate`.
        clusters, observations: sets and rows.
        inference: what was used, never "auto".
    """

    means: Contrasts
    joint: JointTest
    covariance: Floats
    clusters: int
    observations: int
    inference: str
    level: float
    robust: Robust = field(repr=False)

    @property
    def n(self) -> int:
        """The number of positions."""
        return len(self.estimate)

    def differences(self, level: float | None = None, against: int = 1) -> Contrasts:
        """β2…βn with intervals of another level; later positions against another one than the first."""
        return self.robust.contrasts(difference_weights(self.n, against), self.level if level is None else level)


def position_effects(
    values: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    draws: int = 9999,
) -> PositionEffects:
    """Estimate the position effects of values[N] at positions[N] (1…n) in sets[N].

    Args:
        segments: the segment of each row; where some segment occurs in more than one set, "auto" clusters by both.
        inference: as in `Robust`, or "auto", which `robust` explains. "z" is that of the published tables.
        rng, draws: for "wild" only.
    """
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(sets)
    others = None if segments is None else group(segments)
    lengths = {"values": len(column), "positions": len(numbers), "sets": len(groups.codes)}
    require_same_length(**lengths, **({} if others is None else {"segments": len(others.codes)}))
    names = ["β0", *(f"the dummy of position {p}" for p in range(2, count + 1))]
    merged = merge(groups, Groups(numbers - 1, count), *([] if others is None else [others]))
    fitted = merged.fit(column, dummies(numbers[merged.first], count), names)
    kept = None if others is None else merged.labels(others)
    judged = robust(fitted, merged.labels(groups), kept, inference=inference, rng=rng, draws=draws)
    effects = judged.contrasts(np.eye(count), level)
    return PositionEffects(
        **{name: getattr(effects, name) for name in Contrasts.__slots__},
        means=judged.contrasts(mean_weights(count), level),
        joint=judged.joint(difference_weights(count)),
        covariance=judged.covariance,
        clusters=groups.count,
        observations=len(column),
        inference=judged.inference,
        level=level,
        robust=judged,
    )


def dummies(positions: Codes, count: int) -> Floats:
    """The design [N, n]: a constant, and one column for each of positions 2…n."""
    table: Floats = (positions[:, None] == np.arange(1, count + 1)).astype(np.float64)
    table[:, 0] = 1
    return table


def mean_weights(count: int) -> Floats:
    """Weights [n, n] that turn β0, β2…βn into position means."""
    weights = np.eye(count)
    weights[:, 0] = 1
    return weights


def difference_weights(count: int, against: int = 1) -> Floats:
    """Weights [n − against, n] of later positions against one; against the first they are those of β2…βn."""
    weights = np.eye(count)[against:]
    if against > 1:
        weights[:, against - 1] = -1
    return weights


def marker(p: float) -> str:
    """The papers' sign for a p-value: nothing below 0.001, ◇ below 0.01, □ below 0.05, • otherwise."""
    if p < 0.001:
        return ""
    if p < 0.01:
        return "◇"
    return "□" if p < 0.05 else "•"
