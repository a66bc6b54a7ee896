"""`PairedComparison`: two treatments measured on the same documents and positions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, as_values, require_same_length
from fairspan.stats.bootstrap import Interval, position_sums, resample
from fairspan.stats.contrasts import Contrasts, JointTest
from fairspan.stats.effects import change_of, spread
from fairspan.stats.positions import PositionEffects, difference_weights, position_effects


@dataclass(frozen=True, slots=True, eq=False)
class PairedComparison:
    """Second treatment minus first, clustered by set.

    Attributes:
        first, second: each treatment's own position effects.
        means: [n], differences of the position means.
        effects: [n − 1], differences of β2…βn.
        absolute: [n − 1], differences of |β2|…|βn|: negative where the second treatment is fairer. The signs of both
            β are taken as known, so the interval is too narrow where a β is no larger than its own error.
        spread: difference of the spreads over the positions that are compared, with its cluster-bootstrap interval.
        joint: the test that no difference between those positions differs between the treatments.
    """

    first: PositionEffects
    second: PositionEffects
    means: Contrasts
    effects: Contrasts
    absolute: Contrasts
    spread: Interval
    joint: JointTest


def compare(
    first: ArrayLike,
    second: ArrayLike,
    positions: ArrayLike,
    sets: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    inference: str = "auto",
    level: float = 0.95,
    draws: int = 1999,
    against: int = 1,
) -> PairedComparison:
    """Compare first[N] and second[N], the values of two treatments in the same rows.

    What the two share, such as how central a segment is to its set, cancels row by row, so that differences are known
    better than either treatment alone. Spread and joint test leave positions before `against` out.
    """
    one, two = as_values(first, "first"), as_values(second, "second")
    require_same_length(first=len(one), second=len(two))

    def effects_of(values: Floats) -> PositionEffects:
        return position_effects(
            values, positions, sets, segments, inference=inference, level=level, rng=rng, draws=draws
        )

    effects = [effects_of(one), effects_of(two)]
    change, sizes = effects_of(two - one), [effect.estimate[1:] for effect in effects]
    before, after = (position_sums(values, positions, sets).since(against) for values in (one, two))
    return PairedComparison(
        first=effects[0],
        second=effects[1],
        means=change.means,
        effects=change.differences(),
        absolute=absolute_change(sizes[0], sizes[1], change.differences(), effects_of(two + one).differences()),
        spread=resample(before.beside(after), rng=rng, draws=draws, level=level).interval(change_of(spread)),
        joint=change.robust.joint(difference_weights(change.n, against)),
    )


def absolute_change(first: Floats, second: Floats, change: Contrasts, total: Contrasts) -> Contrasts:
    """|b| − |a| of estimates a[J] and b[J]: ±(b − a) where the signs agree and ±(b + a) where they do not."""
    sign = np.where(second < 0, -1.0, 1.0)
    agree = sign == np.where(first < 0, -1.0, 1.0)
    a, b = change, total
    estimate, error, freedom, p, low, high = (
        np.where(agree, getattr(a, name), getattr(b, name)) for name in Contrasts.__slots__
    )
    ends = np.where(sign > 0, low, -high), np.where(sign > 0, high, -low)
    return Contrasts(sign * estimate, error, freedom, p, *ends)
