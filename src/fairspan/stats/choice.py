"""Which candidate to use: each half of the data chooses, the other half confirms (METHODS §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.stats.arrays import round_up
from fairspan.stats.equivalence import clusters_needed
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import column, query_sums, shortfall
from fairspan.stats.resampling import PositionSums, change_of, jackknife, mean_interval

LEVEL = 0.975
"""One-sided level of every bound, so that the displayed 95 % interval is the test."""
CHOSEN = "chosen"

Finding = Literal["use", "probably", "open", "no gain", "loss"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Values of candidates on the same queries of one task, summed by cluster and group."""

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
        """In how many clusters two candidates differ."""
        return int((self.sums[first].sums[:, 0] != self.sums[second].sums[:, 0]).sum())

    def of(self, clusters: NDArray[np.bool_]) -> Sample:
        """The same on some clusters only."""
        some = {}
        for name, sums in self.sums.items():
            some[name] = PositionSums(sums.sums[clusters], sums.counts[clusters])
        return Sample(some)

    def crossed(self, plain: str, names: Sequence[str], first: NDArray[np.bool_]) -> Sample:
        """The plain arm, and one of names[1] in the `first` clusters and names[0] elsewhere."""
        mixed = np.where(first[:, None], self.sums[names[1]].sums, self.sums[names[0]].sums)
        chosen = PositionSums(mixed, self._any.counts)
        return Sample({plain: self.sums[plain], CHOSEN: chosen})


def make_sample(values: Mapping[str, ArrayLike], groups: ArrayLike, clusters: ArrayLike) -> Sample:
    """A sample from values[Q] of each candidate; groups[Q] count from 1, with 0 for none."""
    return Sample({name: query_sums(column, groups, clusters) for name, column in values.items()})


def quality(samples: Sequence[Sample], name: str) -> float:
    """The mean over tasks of the mean over queries."""
    return float(np.mean([sample.sums[name].observed[0] for sample in samples]))


def unfairness(samples: Sequence[Sample], name: str) -> float:
    """The mean PSI of the tasks that have groups; NaN without one."""
    values = [shortfall(sample.sums[name].observed[1:]) for sample in samples if sample.has_groups]
    return float(np.mean(values)) if values else float("nan")


def gain(samples: Sequence[Sample], first: str, second: str) -> Interval:
    """Quality of the second minus that of the first."""
    pairs = [sample.sums[first].beside(sample.sums[second]) for sample in samples]
    return mean_interval([jackknife(pair, change_of(column(0)), [0]) for pair in pairs])


def prefer(samples: Sequence[Sample], names: Sequence[str]) -> str:
    """The candidate of the highest quality; the first of equal ones.

    Preferring a milder one within the error lost more (three models, seven tasks).
    """
    return max(names, key=lambda name: quality(samples, name))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What two halves of the clusters chose, and how it does on the other half.

    Attributes:
        name: the candidate that both halves prefer, or the one of two that all clusters prefer.
        checked: the clusters that did not choose it: all of them if both halves prefer it.
        gain: cross-checked: of each half under the candidate that the other half prefers.
        named_gain: of the candidate itself, on the clusters that did not choose it.
        gains: of every candidate on all clusters.
    """

    name: str
    preferred: tuple[str, str]
    checked: tuple[Sample, ...]
    gain: Interval
    named_gain: Interval
    gains: Mapping[str, Interval]

    @property
    def agreed(self) -> bool:
        """Whether both halves prefer the candidate, so that the two gains are the same."""
        return len(set(self.preferred)) == 1

    @property
    def probability(self) -> float:
        """That there is a gain, under a flat prior: the one-sided p-value against one."""
        return self.gain.below(0)


def choose(samples: Sequence[Sample], plain: str, names: Sequence[str], seed: int) -> Choice:
    """The choice of a random half of every task's clusters, crossed with that of the other."""
    rng = np.random.default_rng(seed)
    halved = [(sample, rng.permutation(sample.clusters) % 2 == 0) for sample in samples]
    first = prefer([sample.of(half) for sample, half in halved], names)
    second = prefer([sample.of(~half) for sample, half in halved], names)
    name = prefer(samples, [name for name in names if name in (first, second)])
    crossed = [sample.crossed(plain, (first, second), half) for sample, half in halved]
    checked = tuple(samples)
    if first != second:
        checked = tuple(sample.of(half == (name == second)) for sample, half in halved)
    return Choice(
        name,
        (first, second),
        checked,
        gain(crossed, plain, CHOSEN),
        named_gain=gain(checked, plain, name),
        gains={candidate: gain(samples, plain, candidate) for candidate in names},
    )


def judge(choice: Choice, changes: Sequence[Interval], margin: float) -> Finding:
    """What the numbers say about a choice, with changes of quality on tasks that must not lose.

    "use" if the gain is above 0 and no task loses the margin; "no gain" if a gain beyond the margin
    is ruled out for every candidate; "probably" if at least the best estimate is a gain.
    """
    if any(change.high < 0 and change.low <= -margin for change in changes):
        return "loss"
    gains = (
        choice.gain.low > 0 and choice.gains[choice.name].low > 0 and choice.named_gain.estimate > 0
    )
    if gains and all(change.low > -margin for change in changes):
        return "use"
    if all(interval.high <= margin for interval in (choice.gain, *choice.gains.values())):
        return "no gain"
    return "probably" if min(choice.gain.estimate, choice.named_gain.estimate) > 0 else "open"


def lacking(change: Interval, clusters: int, gap: float) -> int | None:
    """How many more clusters show a gap in 80 % of cases; None if more clusters do not help."""
    needed = clusters_needed(change, [gap], clusters, LEVEL) if gap > 0 else None
    return None if needed is None else round_up(max(0, needed - clusters))
