"""Which candidate to use: each half of the data chooses, and the other half confirms (METHODS §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.stats.arrays import round_up
from fairspan.stats.distributions import t_below
from fairspan.stats.equivalence import clusters_needed
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import column, query_sums, shortfall
from fairspan.stats.resampling import PositionSums, change_of, jackknife, mean_interval

LEVEL = 0.975
"""Of every bound, so that the 95 % interval that is shown is the test that is made."""
CHOSEN = "chosen"

Finding = Literal["use", "probably", "open", "no gain", "loss"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What candidates get on the same queries of one task: their sums by cluster, over all and by group."""

    sums: Mapping[str, PositionSums]

    @property
    def clusters(self) -> int:
        return len(self._any.sums)

    @property
    def has_groups(self) -> bool:
        return bool(self._any.sums.shape[1] > 2)

    @property
    def _any(self) -> PositionSums:
        return next(iter(self.sums.values()))

    def changed(self, first: str, second: str) -> int:
        """Clusters in which two candidates get something else."""
        return int((self.sums[first].sums[:, 0] != self.sums[second].sums[:, 0]).sum())

    def both(self, first: str, second: str) -> PositionSums:
        return self.sums[first].beside(self.sums[second])

    def of(self, clusters: NDArray[np.bool_]) -> Sample:
        """The same on some clusters only."""
        return Sample(
            {
                name: PositionSums(own.sums[clusters], own.counts[clusters])
                for name, own in self.sums.items()
            }
        )

    def crossed(self, plain: str, names: Sequence[str], first: NDArray[np.bool_]) -> Sample:
        """The plain arm, and one that is names[1] in the `first` clusters and names[0] in the others."""
        of_first, of_others = self.sums[names[1]].sums, self.sums[names[0]].sums
        mixed = PositionSums(np.where(first[:, None], of_first, of_others), self._any.counts)
        return Sample({plain: self.sums[plain], CHOSEN: mixed})


def make_sample(values: Mapping[str, ArrayLike], groups: ArrayLike, clusters: ArrayLike) -> Sample:
    """From the values [Q] of each candidate; groups [Q] are numbered from 1, with 0 for none."""
    return Sample({name: query_sums(own, groups, clusters) for name, own in values.items()})


def quality(samples: Sequence[Sample], name: str) -> float:
    """The mean over tasks of the mean over queries."""
    return float(np.mean([sample.sums[name].observed[0] for sample in samples]))


def unfairness(samples: Sequence[Sample], name: str) -> float:
    """The mean PSI of the tasks that have groups; NaN without one."""
    found = [shortfall(sample.sums[name].observed[1:]) for sample in samples if sample.has_groups]
    return float(np.mean(found)) if found else float("nan")


def gain(samples: Sequence[Sample], first: str, second: str) -> Interval:
    """Quality of the second minus that of the first."""
    return mean_interval(
        [jackknife(one.both(first, second), change_of(column(0)), [0]) for one in samples]
    )


def prefer(samples: Sequence[Sample], names: Sequence[str]) -> str:
    """The candidate of the highest quality; of equal ones the first.

    Preferring a milder one within a standard error, or within the margin, loses more (docs/findings/tuning.md).
    """
    return max(names, key=lambda name: quality(samples, name))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What two halves of the clusters chose, and how that does where it was not chosen.

    Attributes:
        name: the candidate: the one that both halves prefer, or the one of two that all clusters prefer.
        preferred: the candidate of each half.
        crossed: the tasks under the plain model and, as `CHOSEN`, each half under what the other one prefers.
        gain: of quality, between these two.
        gains: of every candidate on all clusters.
    """

    name: str
    preferred: tuple[str, str]
    crossed: tuple[Sample, ...]
    gain: Interval
    gains: Mapping[str, Interval]

    @property
    def probability(self) -> float:
        """That there is a gain, if all sizes of it were equally likely before."""
        return float(t_below(self.gain.ratio, self.gain.degrees_of_freedom))


def choose(samples: Sequence[Sample], plain: str, names: Sequence[str], seed: int) -> Choice:
    """Halve the clusters of every task by the seed, let each half prefer one of the names, and cross them."""
    rng = np.random.default_rng(seed)
    first = [rng.permutation(sample.clusters) % 2 == 0 for sample in samples]
    halves = [
        [sample.of(own if half == 0 else ~own) for sample, own in zip(samples, first, strict=True)]
        for half in (0, 1)
    ]
    one, two = (prefer(half, names) for half in halves)
    name = one if one == two else prefer(samples, [name for name in names if name in (one, two)])
    crossed = tuple(
        sample.crossed(plain, (one, two), own) for sample, own in zip(samples, first, strict=True)
    )
    gains = {own: gain(samples, plain, own) for own in names}
    return Choice(name, (one, two), crossed, gain(crossed, plain, CHOSEN), gains)


def judge(choice: Choice, changes: Sequence[Interval], margin: float) -> Finding:
    """What the figures say of a choice.

    Args:
        changes: of quality, on tasks that must not get worse.

    Returns:
        "use" if the gain is above 0 and no task loses the margin; "loss" if one is shown to lose; "no gain" if a gain
        beyond the margin is ruled out for every candidate; otherwise "probably" if the best estimate is a gain, and
        "open" if it is not.
    """
    if any(one.high < 0 and one.low <= -margin for one in changes):
        return "loss"
    found = choice.gain
    if (
        found.low > 0
        and choice.gains[choice.name].low > 0
        and all(one.low > -margin for one in changes)
    ):
        return "use"
    if all(one.high <= margin for one in (found, *choice.gains.values())):
        return "no gain"
    return "probably" if found.estimate > 0 else "open"


def lacking(found: Interval, clusters: int, gap: float) -> int | None:
    """How many more clusters show a gap in 80 % of cases, if the estimate is the truth; None if more do not help."""
    if not np.isfinite(found.standard_error) or gap <= 0:
        return None
    needed = clusters_needed(found, gap, clusters, LEVEL)
    return None if needed is None else round_up(max(0, needed - clusters))
