"""Which candidate to choose: preferred on one sample of queries, and confirmed on others (METHODS §11)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import round_up
from fairspan.stats.equivalence import clusters_needed
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import column, psi_interval, query_sums, shortfall
from fairspan.stats.resampling import PositionSums, change_of, jackknife, mean_interval

ALPHA = 0.05
"""The chance of advising a candidate that does not gain, or that loses more than the margin somewhere."""
MOST_TESTED = 3
FIRST_SHARE = 0.8
"""Of α for the first candidate of several, and so on of what is left: mostly it is the one that is chosen."""
LEAST_CLUSTERS = 50
"""Fewer clusters decide nothing."""
FEW_CHANGED = 20
"""If fewer clusters change, the ones with a rare loss may be missing, and no bound can know of them."""

Claim = Literal["quality", "fairness"]
Finding = Literal["use", "no gain", "loss", "undecided"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What candidates get on the same queries of one task: their sums by cluster, over all and by group."""

    sums: Mapping[str, PositionSums]

    @property
    def clusters(self) -> int:
        return len(next(iter(self.sums.values())).sums)

    def changed(self, first: str, second: str) -> int:
        """Clusters in which two candidates get something else."""
        return int((self.sums[first].sums[:, 0] != self.sums[second].sums[:, 0]).sum())

    def both(self, first: str, second: str) -> PositionSums:
        return self.sums[first].beside(self.sums[second])

    @property
    def has_groups(self) -> bool:
        return bool(next(iter(self.sums.values())).sums.shape[1] > 2)


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
    return mean_interval([jackknife(one.both(first, second), change_of(column(0)), [0]) for one in samples])


def psi_change(samples: Sequence[Sample], first: str, second: str) -> Interval:
    """PSI of the second minus that of the first; NaN without groups."""
    grouped = [psi_interval(one.both(first, second)) for one in samples if one.has_groups]
    return mean_interval(grouped) if grouped else Interval(np.nan)


@dataclass(frozen=True, slots=True)
class Preference:
    """What the one-standard-error rule makes of candidates.

    Attributes:
        best: of the highest quality.
        near: within one standard error of it.
        fair: of these, within one standard error of the fairest.
        chosen: the mildest of these.
    """

    best: str
    near: tuple[str, ...]
    fair: tuple[str, ...]
    chosen: str


def prefer(samples: Sequence[Sample], names: Sequence[str], changes: Mapping[str, float]) -> Preference:
    """Apply the rule. Standard errors are those of the paired difference from the best, and from the fairest.

    Args:
        names: in the order that decides between equal ones, the plain model first.
        changes: how far each candidate moves the vectors away from the plain model's: the mildest moves them least.
    """
    best = max(names, key=lambda name: (quality(samples, name), -changes[name]))
    near = [name for name in names if _within(gain(samples, name, best))]
    psi = {name: unfairness(samples, name) for name in near}
    fair = near
    # Without groups, or where all of them get nothing, none is fairer than another.
    if any(np.isfinite(own) for own in psi.values()):
        fairest = min((name for name in near if np.isfinite(psi[name])), key=lambda name: (psi[name], changes[name]))
        fair = [name for name in near if _within(psi_change(samples, fairest, name))]
    return Preference(best, tuple(near), tuple(fair), min(fair, key=lambda name: changes[name]))


def _within(found: Interval) -> bool:
    """Whether a difference is at most one standard error; without an error, none at all."""
    return found.estimate <= (found.standard_error if np.isfinite(found.standard_error) else 0.0)


@dataclass(frozen=True, slots=True)
class Listed:
    """A candidate to test: what it is expected to gain, and the rule that prefers it."""

    name: str
    claim: Claim
    preference: Preference


def shortlist(
    samples: Sequence[Sample], plain: str, changes: Mapping[str, float], most: int = MOST_TESTED
) -> list[Listed]:
    """Candidates to test, in order: the preferred one, then by the same rule among those that are milder.

    It ends where the rule prefers the plain model. What a candidate is to be tested for is decided here, on the data
    that it is chosen on: the gain, of quality or of fairness, that is more standard errors above 0.
    """
    names, found = [plain, *(name for name in samples[0].sums if name != plain)], list[Listed]()
    while len(found) < most:
        preferred = prefer(samples, names, changes)
        name = preferred.chosen
        if name == plain:
            break
        better, fairer = gain(samples, plain, name).ratio, -psi_change(samples, plain, name).ratio
        found.append(Listed(name, "fairness" if fairer > better else "quality", preferred))
        names = [other for other in names if other == plain or changes[other] < changes[name]]
    return found


@dataclass(frozen=True, slots=True)
class Tested:
    """One candidate against the plain model on data that it was not chosen on.

    Attributes:
        gain: of what it claims: of quality, or of fairness as the fall of PSI.
        changes: of quality, by task; the first tasks are those it was chosen for.
        clusters, changed: of queries, by task: all, and those that the candidate changes anything for.
        level: of the one-sided tests.
        finding: "use" if the gain is above 0 and no task loses more than the margin; "loss" if some task is shown to
            lose, "no gain" if a gain beyond the margin is ruled out; otherwise, and on few clusters, "undecided".
        lacking: by task, about how many more clusters would decide it; empty where it is decided, and None where more
            of the same would not help.
    """

    name: str
    claim: Claim
    gain: Interval
    changes: Mapping[str, Interval]
    clusters: Mapping[str, int]
    changed: Mapping[str, int]
    level: float
    finding: Finding
    lacking: Mapping[str, int] | None


def alphas(count: int) -> list[float]:
    """What each of `count` candidates may be wrong with, in order, so that the first that passes is wrong with α.

    The sum is α (Bonferroni). Testing all at α until one passes would not do: the chance that one of several passes
    by mistake adds up, and fixed-sequence testing is free of charge only if it ends at the first failure.
    """
    shares = [FIRST_SHARE * (1 - FIRST_SHARE) ** place for place in range(count)]
    return [ALPHA * share / sum(shares) for share in shares]


def confirm(
    listed: Listed,
    plain: str,
    own: Mapping[str, Sample],
    guards: Mapping[str, Sample],
    *,
    margin: float,
    alpha: float = ALPHA,
) -> Tested:
    """Test a candidate on data that it was not chosen on.

    A candidate passes if its gain on its `own` tasks is above 0, and neither these nor the `guards` lose the margin
    or more. All have to pass, which needs no further correction.
    """
    level, samples, every = 1 - alpha, list(own.values()), {**own, **guards}
    if listed.claim == "quality":
        found = gain(samples, plain, listed.name)
    else:
        # The first minus the second: a fall of PSI is a gain.
        found = psi_change(samples, listed.name, plain)
    changes = {task: gain([sample], plain, listed.name) for task, sample in every.items()}
    clusters = {task: sample.clusters for task, sample in every.items()}
    changed = {task: sample.changed(plain, listed.name) for task, sample in every.items()}
    enough = min(clusters.values()) >= LEAST_CLUSTERS
    finding = _finding(found, list(changes.values()), margin, level) if enough else "undecided"
    tested = Tested(listed.name, listed.claim, found, changes, clusters, changed, level, finding, {})
    return replace(tested, lacking=_lacking(tested, own, margin)) if finding == "undecided" else tested


def _finding(found: Interval, changes: Sequence[Interval], margin: float, level: float) -> Finding:
    if any(change.upper(level) < 0 and change.lower(level) <= -margin for change in changes):
        return "loss"
    if found.lower(level) > 0 and all(change.lower(level) > -margin for change in changes):
        return "use"
    return "no gain" if found.upper(level) <= margin else "undecided"


def _lacking(tested: Tested, own: Container[str], margin: float) -> dict[str, int] | None:
    """Clusters that are missing, if the estimates are the truth, for all tests to pass in 80 % of cases.

    For a candidate that gains nothing: for a gain beyond the margin to be ruled out.
    """
    missing, gained = dict[str, int](), tested.gain.estimate
    for task, there in tested.clusters.items():
        gaps = [(tested.changes[task], tested.changes[task].estimate + margin)]
        if task in own:
            gaps.append((tested.gain, max(gained, margin - gained)))
        known = [(one, gap) for one, gap in gaps if np.isfinite(one.standard_error)]
        needed = [clusters_needed(one, gap, there, tested.level) for one, gap in known]
        if None in needed:
            return None
        wanted = max(LEAST_CLUSTERS, *filter(None, needed), 0)
        if wanted > there:
            missing[task] = round_up(wanted - there)
    return missing
