"""Simulated tunings: nDCG@10 of queries under arms whose true means are known, and the whole procedure on them.

The value of a query is 1 / log2(1 + rank), or 0 beyond rank 10. Its rank comes from a latent normal: the position's
mean, a part that the queries of a cluster share, and the query's own difficulty, which all arms share. An arm redraws
some queries, and some clusters as a whole, from that same distribution: it differs from the plain model and is on
average no better or worse. A gain turns values into 1 at a rate, a loss lowers them as from rank 1 to 2, so that true
means are known exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from fairspan.stats.choice import Listed, Sample, Tested, alphas, confirm, make_sample, shortlist

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

    def part(self, share: float) -> Task:
        return replace(self, clusters=round(share * self.clusters))

    def draw(self, arms: Mapping[str, Arm], rng: np.random.Generator) -> Sample:
        places = len(self.means)
        shared = rng.normal(0, _OF_CLUSTER, (self.clusters, 1))
        plain = self._values(shared, rng.normal(0, _OF_QUERY, (self.clusters, places)))
        found = {PLAIN: plain} | {name: self._changed(arm, plain, shared, rng) for name, arm in arms.items()}
        groups = np.tile(np.arange(1, places + 1) if places > 1 else [0], self.clusters)
        clusters = np.repeat(np.arange(self.clusters), places)
        return make_sample({name: values.ravel() for name, values in found.items()}, groups, clusters)

    def _values(self, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        latent = np.array(self.means) + shared + own
        return _VALUES[(latent[..., None] < _LIMITS).sum(-1)]

    def _changed(self, arm: Arm, plain: np.ndarray, shared: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        def drawn() -> np.ndarray:
            anew = rng.random(shared.shape) < arm.clusters_redrawn
            of_cluster = np.where(anew, rng.normal(0, _OF_CLUSTER, shared.shape), shared)
            fresh = self._values(of_cluster, rng.normal(0, _OF_QUERY, plain.shape))
            return np.where(anew | (rng.random(plain.shape) < arm.redrawn), fresh, plain)

        values = np.mean([drawn() for _ in range(arm.averaged)], 0)
        means = true_means(self.means)
        gains = np.broadcast_to(arm.gains, means.shape)
        rates = np.where(gains > 0, gains / (1 - means), -gains / means / (1 - _VALUES[1]))
        return np.where(rng.random(values.shape) < rates, np.where(gains > 0, 1.0, _VALUES[1] * values), values)


PAGES, SHORT = Task(), Task(means=(0.3,))


def true_means(means: Sequence[float]) -> np.ndarray:
    """What a query at each position gets on average."""
    deviation = np.hypot(_OF_CLUSTER, _OF_QUERY)
    above = norm.sf((_LIMITS - np.array(means)[:, None]) / deviation)
    return np.asarray(np.diff(above, prepend=0, append=1) @ _VALUES)


@dataclass(frozen=True)
class Simulated:
    """A tuning that was simulated: what was on its list, what was tested, and the samples that tests are made on."""

    listed: list[Listed]
    tested: list[Tested]
    own: dict[str, Sample]
    guards: dict[str, Sample]

    @property
    def used(self) -> str | None:
        return self.tested[-1].name if self.tested and self.tested[-1].finding == "use" else None

    def used_at_full_level(self) -> str | None:
        """What the same list leads to if every test is made at 5 %, going on after one that fails."""
        for one in self.listed:
            if confirm(one, PLAIN, self.own, self.guards, margin=MARGIN).finding == "use":
                return one.name
        return None


def simulate_tuning(
    task: Task,
    guard: Task,
    arms: Mapping[str, Arm],
    on_guard: Mapping[str, Arm] | None,
    margin: float,
    rng: np.random.Generator,
) -> Simulated:
    """List candidates on one half of a task, and test them on a quarter of it and three quarters of the guard.

    How mild each candidate is, is random.
    """
    changes = {PLAIN: 0.0} | dict(zip(arms, rng.permutation(len(arms)) + 1.0, strict=True))
    listed, tested = shortlist([task.part(1 / 2).draw(arms, rng)], PLAIN, changes), list[Tested]()
    own = {"task": task.part(1 / 4).draw(arms, rng)}
    guards = {} if on_guard is None else {"guard": guard.part(3 / 4).draw(on_guard, rng)}
    for one, alpha in zip(listed, alphas(len(listed)), strict=True):
        tested.append(confirm(one, PLAIN, own, guards, margin=margin, alpha=alpha))
        if tested[-1].finding == "use":
            break
    return Simulated(listed, tested, own, guards)


def simulate_tunings(
    arms: Mapping[str, Arm],
    on_guard: Mapping[str, Arm] | None = None,
    *,
    task: Task = PAGES,
    guard: Task = SHORT,
    margin: float = MARGIN,
    runs: int = RUNS,
    seed: int = 0,
) -> list[Simulated]:
    rng = np.random.default_rng(seed)
    return [simulate_tuning(task, guard, arms, on_guard, margin, rng) for _ in range(runs)]
