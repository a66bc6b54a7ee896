"""Tests against a margin, and their verdicts. "fair" claims equivalence, so it has to be shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairspan.stats.arrays import Flags, Floats, round_up
from fairspan.stats.distributions import holm, t_below, t_quantile, t_ratio
from fairspan.stats.estimates import Estimates

Kind = Literal["fair", "biased", "inconclusive"]
WORST: tuple[Kind, ...] = ("biased", "inconclusive", "fair")
LEVEL = 0.95
POWER = 0.8
MOST = 100
"""Times as many clusters as there are: more are not realistic."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A family of J differences with one verdict, from a number of sets.

    With `either_way`, a verdict names the larger of two first; `scope` is what it is limited to.
    """

    differences: Estimates[Floats]
    names: Sequence[tuple[str, str]]
    sets: int
    scope: str = ""
    either_way: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data say about fairness within a margin: of all differences, and of each (`kinds`).

    Attributes:
        worst: which difference is largest, among the significant ones if biased.
        estimate, low, high: its plain 95 % interval, as in tables and figures. The decision itself
            is stricter for "biased" (Holm) and uses the usual 90 % for "fair".
        sets_needed: how many sets in all would decide, None if no realistic number would, or if
            nothing is open.
        measure: what is done to a segment: "represented" or "retained".
    """

    kind: Kind
    kinds: tuple[Kind, ...]
    margin: float
    worst: int
    subject: str
    against: str
    estimate: float
    low: float
    high: float
    sets_needed: int | None
    measure: str = "represented"
    scope: str = ""

    @property
    def rank(self) -> tuple[int, float, float]:
        """Smaller for a worse verdict, then for what needs more sets, then for larger effects."""
        needed = 0.0
        if self.kind == "inconclusive":
            needed = np.inf if self.sets_needed is None else self.sets_needed
        return WORST.index(self.kind), -needed, -abs(self.estimate)

    def sentence(self, sets: str = "") -> str:
        """Why, such as "position 4 is 0.09 less represented than position 1 [−0.10, −0.08]".

        `sets` is what to type for `--sets`, if that is not `sets_needed`.
        """
        if self.kind == "fair":
            return f"within ±{self.margin:g}" + (f" {self.scope}" if self.scope else "")
        if self.kind == "biased":
            digits = self._digits
            size = f"{abs(self.estimate):.{digits}f}"
            than = f"{'less' if self.estimate < 0 else 'more'} {self.measure} than {self.against}"
            ends = f"[{self.low:.{digits}f}, {self.high:.{digits}f}]".replace("-", "−")
            return f"{self.subject} is {size} {than} {ends}"
        if np.isnan(self.low):
            return f"too few sets for an interval of {self.subject} against {self.against}"
        if self.sets_needed is None:
            close = f"{self.subject} against {self.against} is too close to the margin"
            return f"{close} of ±{self.margin:g}: no realistic number of sets would decide it"
        return f"`--sets {sets or self.sets_needed}` would decide it"

    @property
    def _digits(self) -> int:
        """Decimals: two, three for small differences, more if rounding would show the margin."""
        sizes = [abs(number) for number in (self.estimate, self.low, self.high)]
        others = [size for size in sizes if size != self.margin]
        digits = 2 if sizes[0] >= 0.05 else 3
        while digits < 6 and round(self.margin, digits) in [round(size, digits) for size in others]:
            digits += 1
        return digits


def p_inside(differences: Estimates[Any], margin: float) -> Floats:
    """p values [J] against |difference| ≥ margin: two one-sided tests (TOST).

    To be fair, all must be small: an intersection–union test, which needs no correction.
    """
    beyond = np.abs(differences.estimate) - margin
    return t_below(t_ratio(beyond, differences.standard_error), differences.degrees_of_freedom)


def p_outside(differences: Estimates[Any], margin: float) -> Floats:
    """p values [J] against |difference| ≤ margin, two-sided.

    One that is small is enough to be biased, so it needs a correction over all that are tested.
    """
    inside = margin - np.abs(differences.estimate)
    tail = t_below(t_ratio(inside, differences.standard_error), differences.degrees_of_freedom)
    return np.minimum(1, 2 * tail)


def decide(
    families: Sequence[Compared], margin: float = 0.02, *, measure: str = "represented"
) -> list[Verdict]:
    """The verdict on each of several families of differences that are judged together.

    fair: every |difference| is significantly less than the margin. biased: at least one is
    significantly more, after Holm's correction over all families, so that the chance of any wrong
    "biased" is at most 5 %.
    """
    tests = [p_outside(family.differences, margin) for family in families]
    ends = np.cumsum([len(test) for test in tests])
    outside = np.split(holm(np.concatenate(tests)) < 1 - LEVEL, ends[:-1])
    # Holm's next step is over what is not yet rejected.
    comparisons = sum(int((~rejected).sum()) for rejected in outside)
    return [
        _verdict(family, margin, rejected, comparisons, measure)
        for family, rejected in zip(families, outside, strict=True)
    ]


def _verdict(
    family: Compared, margin: float, outside: Flags, comparisons: int, measure: str
) -> Verdict:
    """The verdict on differences of which those `outside` [J] are significantly beyond it."""
    differences = family.differences
    inside = p_inside(differences, margin) < 1 - LEVEL
    kinds = tuple(map(kind_of, inside, outside))
    kind = kind_of(bool(inside.all()), bool(outside.any()))
    sizes = np.abs(np.nan_to_num(differences.estimate))
    worst = int(np.where(outside | (kind != "biased"), sizes, -1.0).argmax())
    needed = None
    if kind == "inconclusive":
        needed = clusters_to_judge(differences, margin, family.sets, comparisons)
    names = family.names[worst]
    shown = differences[worst]
    ends = (shown.estimate, shown.low, shown.high)
    if family.either_way and shown.estimate < 0:
        names = names[::-1]
        ends = (-shown.estimate, -shown.high, -shown.low)
    return Verdict(kind, kinds, margin, worst, *names, *ends, needed, measure, family.scope)


def judge_change(change: Estimates[float], margin: float, changes: int = 1) -> Kind:
    """Whether a change is within ±margin, by the tests of `decide`.

    If one of several `changes` is enough for a verdict of "biased", they share its 5 %.
    """
    inside = p_inside(change, margin) < 1 - LEVEL
    outside = p_outside(change, margin) < (1 - LEVEL) / changes
    return kind_of(bool(inside), bool(outside))


def kind_of(inside: bool, outside: bool) -> Kind:
    if outside:
        return "biased"
    return "fair" if inside else "inconclusive"


def clusters_to_judge(
    differences: Estimates[Any], margin: float, seen: int, comparisons: int = 1
) -> int | None:
    """How many clusters in all decide what the estimates point to; see `clusters_needed`.

    Inside the margin, every difference has to be shown to be on the inner side of both ends. Beyond
    it, one is enough, corrected for the number of comparisons.
    """
    estimates = np.atleast_1d(differences.estimate)
    errors = np.atleast_1d(differences.standard_error)
    sizes = np.abs(estimates)
    beyond = sizes > margin
    if not beyond.any():
        gaps = np.concatenate([margin - estimates, margin + estimates])
        return clusters_needed(gaps, np.concatenate([errors, errors]), seen, LEVEL)
    level = 1 - (1 - LEVEL) / (2 * comparisons)
    clearest = t_ratio(sizes - margin, errors).argmax()
    return clusters_needed(sizes[clearest] - margin, errors[clearest], seen, level)


def clusters_needed(gaps: Any, errors: Any, seen: int, level: float) -> int | None:
    """How many clusters in all show gaps [J], all of them, at a one-sided level in 80 % of cases.

    The gaps and their errors [J], from the clusters that are `seen`, are taken as the truth. With
    normal quantiles, one gap needs seen · ((z_level + z_power) · error/gap)², and z_level²/2 more
    as the error is estimated (Guenther 1981). Of several gaps, the hardest one counts, with a power
    at which the chances to miss any of them share the 20 %. Rounded up to two digits; None if no
    realistic number is enough.
    """
    ratios = np.atleast_1d(errors) / np.where(np.atleast_1d(gaps) > 0, gaps, np.nan)
    hardest = ratios.max()
    if not 0 < hardest < np.inf:
        return None
    shown = float(t_quantile(level, np.inf))

    def clusters(power: float) -> float:
        return float(seen * ((shown + t_quantile(power, np.inf)) * hardest) ** 2)

    first = (shown + t_quantile(POWER, np.inf)) * hardest
    missed = t_below(shown - first / ratios[ratios > 0], np.inf).sum()
    number = round_up(clusters(1 - (1 - POWER) ** 2 / missed) + shown**2 / 2)
    return max(seen + 1, number) if number <= MOST * seen else None
