"""Which candidate to use: one that is shown to help; of several, the one that changes least."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.estimates import Estimates
from fairspan.stats.queries import query_changes


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """The choice of each half of the clusters, and the gain if each half takes the other's choice,
    so that no half judges its own."""

    preferred: tuple[str, str]
    gain: Estimates[float]


def prefer(quality: Mapping[str, float], distances: Mapping[str, float], margin: float) -> str:
    """Of the candidates within the margin of the best, the one that moves documents least."""
    best = max(quality.values())
    close = [name for name, value in quality.items() if value >= best - margin]
    return min(close, key=lambda name: distances[name])


def cross_check(
    values: Mapping[str, ArrayLike],
    clusters: ArrayLike,
    plain: str,
    names: Collection[str],
    distances: Mapping[str, float],
    margin: float,
    seed: int,
) -> CrossCheck:
    """The preferences of two random halves of the clusters among `names`, and the gain of each
    half under the other's choice against the `plain` arm.

    Args:
        values: [Q] of each arm, on the same queries.
    """
    labels, places = np.unique(np.asarray(clusters), return_inverse=True)
    rng = np.random.default_rng(seed)
    first = (rng.permutation(len(labels)) % 2 == 0)[places]
    arms = {name: np.asarray(column, np.float64) for name, column in values.items()}
    chosen = [
        prefer({name: float(arms[name][half].mean()) for name in names}, distances, margin)
        for half in (first, ~first)
    ]
    crossed = np.where(first, arms[chosen[1]], arms[chosen[0]])
    changes = query_changes(arms[plain], crossed, np.zeros(len(places), int), clusters)
    return CrossCheck((chosen[0], chosen[1]), changes[0])
