"""Tests against a margin, and their verdicts. "fair" claims equivalence, so it has to be shown."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.stats.arrays import Floats, round_up
from fairspan.stats.contrasts import Robust
from fairspan.stats.distributions import holm, t_below, t_quantile, t_ratio
from fairspan.stats.intervals import Interval

Kind = Literal["fair", "biased", "inconclusive"]
_WORST: tuple[Kind, ...] = ("biased", "inconclusive", "fair")
LEVEL = 0.95
POWER = 0.8
MOST = 100_000
# Points of the numerical integration over the results of a later run.
NODES = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A family of J differences with one verdict, each a row of weights[J, K] on a fit.

    With `either_way`, a verdict names the larger of two first; `scope` is what it is limited to.
    """

    robust: Robust
    weights: Floats
    names: Sequence[tuple[str, str]]
    sets: int
    scope: str = ""
    either_way: bool = False

    @property
    def estimate(self) -> Floats:
        return self.robust.estimates(self.weights)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data say about fairness within a margin: of all differences, and of each (`kinds`).

    Attributes:
        worst: which difference is largest, among the significant ones if biased.
        estimate, low, high: its plain 95 % interval, as in tables and figures. The decision itself
            is stricter for "biased" (Holm) and uses the usual 90 % for "fair".
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
        return _WORST.index(self.kind), -needed, -abs(self.estimate)

    def sentence(self) -> str:
        """Such as "biased: position 4 is 0.09 less represented than position 1 [−0.10, −0.08]"."""
        if self.kind == "fair":
            return f"fair within ±{self.margin:g}" + (f" {self.scope}" if self.scope else "")
        if self.kind == "biased":
            digits = self._digits
            size = f"{abs(self.estimate):.{digits}f}"
            than = f"{'less' if self.estimate < 0 else 'more'} {self.measure} than {self.against}"
            ends = f"[{self.low:.{digits}f}, {self.high:.{digits}f}]".replace("-", "−")
            return f"biased: {self.subject} is {size} {than} {ends}"
        if self.sets_needed is None:
            close = f"{self.subject} against {self.against} is too close to the margin"
            none = "no realistic number of sets would decide"
            return f"inconclusive: {close} of ±{self.margin:g}; {none}"
        sets = "set" if self.sets_needed == 1 else "sets"
        return f"inconclusive: about {round_up(self.sets_needed)} more {sets} would decide"

    @property
    def _digits(self) -> int:
        """Decimals: two, three for small differences, more if rounding would show the margin."""
        sizes = [abs(number) for number in (self.estimate, self.low, self.high)]
        others = [size for size in sizes if size != self.margin]
        digits = 2 if sizes[0] >= 0.05 else 3
        while digits < 6 and round(self.margin, digits) in [round(size, digits) for size in others]:
            digits += 1
        return digits


def equivalence(compared: Compared, margin: float) -> tuple[Floats, Floats]:
    """Both tests of each difference, as p-values [J] and [J].

    The first is against |difference| ≥ margin (TOST). To be fair, all must be small: an
    intersection-union test, which needs no correction. The second is against |difference| ≤ margin,
    two-sided. One is enough to be biased, so it needs a correction over all that are tested.
    """
    below_floor, above_floor = compared.robust.tails(compared.weights, -margin)
    below_roof, above_roof = compared.robust.tails(compared.weights, margin)
    beyond = np.minimum(1, 2 * np.minimum(below_floor, above_roof))
    return np.maximum(above_floor, below_roof), beyond


def decide(
    families: Sequence[Compared], margin: float = 0.02, *, measure: str = "represented"
) -> list[Verdict]:
    """The verdict on each of several families of differences that are judged together.

    fair: every |difference| is significantly less than the margin. biased: at least one is
    significantly more, after Holm's correction over all families, so that the chance of any wrong
    "biased" is at most 5 %.
    """
    tests = [equivalence(family, margin) for family in families]
    ends = np.cumsum([len(beyond) for _, beyond in tests])
    corrected = holm(np.concatenate([beyond for _, beyond in tests]))
    outside = np.split(corrected < 1 - LEVEL, ends[:-1])
    # Holm's next step is over what is not yet rejected.
    comparisons = sum(int((~rejected).sum()) for rejected in outside)
    return [
        _verdict(family, margin, within < 1 - LEVEL, rejected, comparisons, measure)
        for family, (within, _), rejected in zip(families, tests, outside, strict=True)
    ]


def _verdict(
    family: Compared,
    margin: float,
    inside: NDArray[np.bool_],
    outside: NDArray[np.bool_],
    comparisons: int,
    measure: str,
) -> Verdict:
    """The verdict on differences that are significantly inside[J] or outside[J] the margin."""
    kinds = tuple(map(_kind, inside, outside))
    kind = _kind(bool(inside.all()), bool(outside.any()))
    worst = int(np.where(outside | (kind != "biased"), np.abs(family.estimate), -1.0).argmax())
    shown = family.robust.contrasts(family.weights)[worst]
    needed = None
    if kind == "inconclusive":
        needed = further_sets(family, margin, comparisons=comparisons)
    names = family.names[worst]
    ends = (shown.estimate, shown.low, shown.high)
    if family.either_way and shown.estimate < 0:
        names = names[::-1]
        ends = (-shown.estimate, -shown.high, -shown.low)
    return Verdict(kind, kinds, margin, worst, *names, *ends, needed, measure, family.scope)


def _kind(inside: bool, outside: bool) -> Kind:
    if outside:
        return "biased"
    return "fair" if inside else "inconclusive"


def further_sets(compared: Compared, margin: float, *, comparisons: int) -> int | None:
    """Further sets for the decision that the estimates point to, in 80 % of cases.

    It takes the estimates as the truth and new sets to be like those seen. The chance of a decision
    over all comparisons at once has no closed form: it is integrated over fixed points.
    """
    seen = compared.sets
    estimate = compared.estimate
    weights = compared.weights
    covariance = weights @ compared.robust.covariance @ weights.T
    freedom_seen = compared.robust.degrees_of_freedom(weights)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((NODES, len(weights))) @ root
    error_noise = rng.standard_normal((NODES, 1))

    def decided(further: int) -> bool:
        """Whether that many more sets decide often enough."""
        sets = seen + further
        scale = np.sqrt(seen / sets)
        freedom = freedom_seen * (sets - 1) / (seen - 1)
        sizes = np.abs(estimate + scale * noise)
        # Estimated over true standard error: √(χ²/df), with Wilson and Hilferty's cube for χ²/df.
        spread = 2 / (9 * freedom)
        ratio = np.maximum(1 - spread + error_noise * np.sqrt(spread), 0) ** 1.5
        error = np.sqrt(np.diag(covariance)) * scale * ratio
        if np.abs(estimate).max() <= margin:
            hits = (sizes + t_quantile(LEVEL, freedom) * error < margin).all(axis=1)
        else:
            strict = 1 - (1 - LEVEL) / (2 * comparisons)
            hits = (sizes - t_quantile(strict, freedom) * error > margin).any(axis=1)
        return bool(hits.mean() >= POWER)

    return _fewest(decided)


def _fewest(decided: Callable[[int], bool], least: int = 1) -> int | None:
    """The smallest number that decides, if larger ones do too; None if more than 100,000."""
    number = least + bisect_left(range(least, MOST + 1), True, key=decided)
    return number if number <= MOST else None


def judge_change(change: Interval, margin: float, changes: int = 1) -> Kind:
    """Whether a change is within ±margin, by the tests of `decide`.

    If one of several `changes` is enough for a verdict of "biased", they share its 5 %.
    """
    level = 1 - (1 - LEVEL) / (2 * changes)
    inside = -margin < change.lower() and change.upper() < margin
    beyond = change.lower(level) > margin or change.upper(level) < -margin
    return _kind(inside, beyond)


def documents_needed(
    change: Interval, margin: float, documents: int, changes: int = 1
) -> int | None:
    """Further documents that decide, as in `judge_change`, in 80 % of cases.

    It takes the estimate as the truth. Inside the margin a change has to be shown to be on the
    inner side of both ends, and one near 0 may miss either.
    """
    size = abs(change.estimate)
    gaps = [margin - size, margin + size]
    level = LEVEL
    if size > margin:
        gaps = [size - margin]
        level = 1 - (1 - LEVEL) / (2 * changes)
    total = clusters_needed(change, gaps, documents, level)
    return None if total is None else max(1, total - documents)


def clusters_needed(change: Interval, gaps: Sequence[float], seen: int, level: float) -> int | None:
    """How many clusters in all make gaps significant at a one-sided level in 80 % of cases.

    Two gaps are to opposite sides: of them, at most one is missed at a time.
    """

    def decided(clusters: int) -> bool:
        freedom = change.degrees_of_freedom * (clusters - 1) / (seen - 1)
        error = change.standard_error * np.sqrt(seen / clusters)
        missed = 1 - t_below(t_ratio(gaps, error) - t_quantile(level, freedom), freedom)
        return bool(missed.sum() <= 1 - POWER)

    return _fewest(decided, 2)
