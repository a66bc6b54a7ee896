"""Simulated tunings: nDCG@10 of queries under arms whose true means are known, and the whole
procedure on them.

The value of a query is 1 / log2(1 + rank), or 0 beyond rank 10. Its rank comes from a latent
normal: the position's mean, a part that the queries of a cluster share, and the query's own
difficulty, which all arms share. An arm redraws some queries, and some clusters as a whole, from
that same distribution: it differs from the plain model and is on average no better or worse. A gain
turns values into 1 at a rate, a loss lowers them as from rank 1 to 2, so that true means are known
exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.stats import norm  # type: ignore[import-untyped, unused-ignore]

from fairspan.stats.choice import Choice, Finding, Sample, choose, gain, judge, make_sample

PLAIN = "plain"
RUNS = 200
MARGIN = 0.01
CLUSTERS = 200

_VALUES = np.array([*(1 / np.log2(1 + np.arange(1, 11))), 0.0])
_LIMITS = np.linspace(0.0, -1.6, 10)
"""From this latent value on a query has rank 1, 2, …, 10."""
_OF_CLUSTER, _OF_QUERY = 0.5, 1.0
"""Standard deviations of what the queries of a cluster share, and of their own."""


@dataclass(frozen=True)
class Arm:
    """How a candidate differs from the plain model.

    Attributes:
        redrawn, clusters_redrawn: the share of queries and of whole clusters that are drawn anew.
        gains: what is added to the true mean at each position; one number for all of them.
        averaged: the number of draws that a value is the mean of: the more, the less it varies.
    """

    redrawn: float = 0.3
    clusters_redrawn: float = 0.05
    gains: tuple[float, ...] | float = 0.0
    averaged: int = 1


@dataclass(frozen=True)
class Task:
    """Clusters, each with one query at every position; latent means by position."""

    clusters: int = CLUSTERS
    means: tuple[float, ...] = (0.9, 0.4, 0.2, 0.0)

    def draw(self, arms: Mapping[str, Arm], rng: np.random.Generator) -> Sample:
        places = len(self.means)
        shared = rng.normal(0, _OF_CLUSTER, (self.clusters, 1))
        plain = self._values(shared, rng.normal(0, _OF_QUERY, (self.clusters, places)))
        found = {PLAIN: plain} | {
            name: self._changed(arm, plain, shared, rng) for name, arm in arms.items()
        }
        groups = np.tile(np.arange(1, places + 1) if places > 1 else [0], self.clusters)
        clusters = np.repeat(np.arange(self.clusters), places)
        return make_sample(
            {name: values.ravel() for name, values in found.items()}, groups, clusters
        )

    def _values(self, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        latent = np.array(self.means) + shared + own
        return np.asarray(_VALUES[(latent[..., None] < _LIMITS).sum(-1)])

    def _changed(
        self, arm: Arm, plain: np.ndarray, shared: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        def drawn() -> np.ndarray:
            anew = rng.random(shared.shape) < arm.clusters_redrawn
            of_cluster = np.where(anew, rng.normal(0, _OF_CLUSTER, shared.shape), shared)
            fresh = self._values(of_cluster, rng.normal(0, _OF_QUERY, plain.shape))
            return np.where(anew | (rng.random(plain.shape) < arm.redrawn), fresh, plain)

        values = np.mean([drawn() for _ in range(arm.averaged)], 0)
        means = true_means(self.means)
        gains = np.broadcast_to(arm.gains, means.shape)
        rates = np.where(gains > 0, gains / (1 - means), -gains / means / (1 - _VALUES[1]))
        return np.where(
            rng.random(values.shape) < rates, np.where(gains > 0, 1.0, _VALUES[1] * values), values
        )


PAGES, SHORT = Task(), Task(means=(0.3,))


@cache
def true_means(means: tuple[float, ...]) -> np.ndarray:
    """What a query at each position gets on average."""
    deviation = np.hypot(_OF_CLUSTER, _OF_QUERY)
    above = norm.sf((_LIMITS - np.array(means)[:, None]) / deviation)
    return np.asarray(np.diff(above, prepend=0, append=1) @ _VALUES)


@dataclass(frozen=True)
class Simulated:
    """A tuning that was simulated.

    Attributes:
        chosen: in turn; all but the last were dropped for a loss on the guard.
        choice, finding: the last one, and what the figures say of it.
    """

    chosen: tuple[str, ...]
    choice: Choice
    finding: Finding

    @property
    def used(self) -> str | None:
        return self.choice.name if self.finding == "use" else None


def simulate_tuning(
    arms: Mapping[str, Arm],
    on_guard: Mapping[str, Arm] | None,
    rng: np.random.Generator,
    *,
    task: Task = PAGES,
    guard: Task = SHORT,
) -> Simulated:
    """Choose on a task, and again without that candidate as long as the guard shows a loss, as a
    tuning does."""
    sample, seed = task.draw(arms, rng), int(rng.integers(2**31))
    guards = [] if on_guard is None else [guard.draw(on_guard, rng)]
    left, chosen = list(arms), list[str]()
    while True:
        choice = choose([sample], PLAIN, left, seed)
        finding = judge(choice, [gain([one], PLAIN, choice.name) for one in guards], MARGIN)
        chosen.append(choice.name)
        left.remove(choice.name)
        if finding != "loss" or not left:
            return Simulated(tuple(chosen), choice, finding)


def simulate_tunings(
    arms: Mapping[str, Arm],
    on_guard: Mapping[str, Arm] | None = None,
    *,
    task: Task = PAGES,
    guard: Task = SHORT,
    runs: int = RUNS,
    seed: int = 0,
) -> list[Simulated]:
    rng = np.random.default_rng(seed)
    return [simulate_tuning(arms, on_guard, rng, task=task, guard=guard) for _ in range(runs)]
