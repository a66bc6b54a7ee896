"""Tests against a margin, and the verdicts that follow. Fair is a claim of equivalence, so it has to be shown."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairspan.stats.arrays import Floats, round_up
from fairspan.stats.contrasts import Robust
from fairspan.stats.distributions import holm, t_quantile
from fairspan.stats.intervals import Interval

Kind = Literal["fair", "biased", "inconclusive"]
LossKind = Literal["worse", "inconclusive", "not worse", "fairer", "better"]
LEVEL = 0.95
POWER = 0.8
MOST = 100_000
# Points of the numerical integration over what a later run might find.
NODES = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """A family of J differences that one verdict is about, each a row of weights[J, K] on the coefficients of a fit.

    Attributes:
        names: of each difference, what is compared with what.
        sets: how many the fit has seen.
        scope: what a verdict is limited to, if it is.
        either_way: whether a verdict names the larger of two first, whichever that is.
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
    """What the data say about fairness within a margin.

    Attributes:
        kind: of all differences together; fair if all are significantly inside the margin, biased if one is
            significantly outside.
        kinds: of each of them.
        worst: which of them is largest, among the significant ones if biased; `subject` and `against` are its names.
        estimate, low, high: its difference with the plain 95 % interval, as in tables and figures. The decision
            itself is stricter for "biased" (Holm) and is taken at the usual 90 % for "fair".
        sets_needed: for "inconclusive": how many sets beyond those seen give the decision that the estimates point to
            in 80 % of cases; None if more than 100,000.
        measure: what is done to a segment: "represented" or "retained".
        scope: what it is limited to, if it is.
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

    def sentence(self) -> str:
        """The verdict in words.

        >>> Verdict("biased", ("biased",), 0.02, 0, "position 4", "position 1", -0.09, -0.1, -0.08, None).sentence()
        'biased: position 4 is 0.09 less represented than position 1 [−0.10, −0.08]'
        """
        if self.kind == "fair":
            return f"fair within ±{self.margin:g}" + (f" {self.scope}" if self.scope else "")
        if self.kind == "biased":
            size, ends = self._numbers()
            than = f"{'less' if self.estimate < 0 else 'more'} {self.measure} than {self.against}"
            return f"biased: {self.subject} is {size} {than} {ends}"
        if self.sets_needed is None:
            close = f"{self.subject} against {self.against} is too close to the margin of ±{self.margin:g}"
            return f"inconclusive: {close}; no realistic number of sets would decide"
        sets = "set" if self.sets_needed == 1 else "sets"
        return f"inconclusive: about {round_up(self.sets_needed)} more {sets} would decide"

    def _numbers(self) -> tuple[str, str]:
        """The size of the difference, and its interval.

        Two decimals, three for small differences, more where rounding would put a number onto the margin.
        """
        sizes = [abs(number) for number in (self.estimate, self.low, self.high)]
        digits, margin = 2 if sizes[0] >= 0.05 else 3, self.margin
        while digits < 6 and any(
            round(size, digits) == round(margin, digits) and size != margin for size in sizes
        ):
            digits += 1
        ends = ", ".join(f"{end:.{digits}f}".replace("-", "−") for end in (self.low, self.high))
        return f"{sizes[0]:.{digits}f}", f"[{ends}]"


def equivalence(compared: Compared, margin: float) -> tuple[Floats, Floats]:
    """Both tests of each difference, as p-values [J] and [J].

    The first is against |difference| ≥ margin: the larger of two one-sided p-values (TOST). All of them must be small
    for the whole to be fair: an intersection-union test, which needs no correction. The second is against
    |difference| ≤ margin: twice the smaller one-sided p-value. One of them is enough to be biased, so it needs a
    correction over everything that is tested together.
    """
    below_floor, above_floor = compared.robust.tails(compared.weights, -margin)
    below_roof, above_roof = compared.robust.tails(compared.weights, margin)
    return np.maximum(above_floor, below_roof), np.minimum(
        1, 2 * np.minimum(below_floor, above_roof)
    )


def decide(
    families: Sequence[Compared], margin: float = 0.02, *, measure: str = "represented"
) -> list[Verdict]:
    """Fair, biased or inconclusive, of families of differences that are judged together.

    fair: every |difference| is significantly less than the margin. biased: at least one is significantly more, after
    Holm's correction over the differences of all families. So the chance that any family is called biased by mistake
    is at most 5 %. Two positions on either side of the one they are compared with can differ by twice the margin.
    """
    tests = [equivalence(one, margin) for one in families]
    places = np.cumsum([len(beyond) for _, beyond in tests])
    corrected = np.split(holm(np.concatenate([beyond for _, beyond in tests])), places[:-1])
    # Holm's next step is over what is not yet rejected.
    left = sum(int((~(p_values < 1 - LEVEL)).sum()) for p_values in corrected)
    found = []
    for one, (within, _), p_values in zip(families, tests, corrected, strict=True):
        outside, inside = p_values < 1 - LEVEL, within < 1 - LEVEL
        kinds: list[Kind] = [
            "biased" if out else "fair" if fair else "inconclusive"
            for out, fair in zip(outside, inside, strict=True)
        ]
        kind: Kind = "biased" if outside.any() else "fair" if inside.all() else "inconclusive"
        worst = int(np.where(outside | (kind != "biased"), np.abs(one.estimate), -1.0).argmax())
        shown = one.robust.contrasts(one.weights)[worst]
        needed = further_sets(one, margin, comparisons=left) if kind == "inconclusive" else None
        names, ends = one.names[worst], (shown.estimate, shown.low, shown.high)
        if one.either_way and shown.estimate < 0:
            names, ends = names[::-1], (-shown.estimate, -shown.high, -shown.low)
        found.append(
            Verdict(kind, tuple(kinds), margin, worst, *names, *ends, needed, measure, one.scope)
        )
    return found


def further_sets(compared: Compared, margin: float, *, comparisons: int) -> int | None:
    """Further sets for the decision the estimates point to, at 80 % power, if the estimates are the truth.

    Errors shrink with the square root of the number of sets, which takes new sets to be like those seen. The chance
    of a decision over all comparisons at once has no closed form, so it is integrated over 4000 fixed points.

    Args:
        comparisons: how many are corrected for.
    """
    seen, weights, estimate = compared.sets, compared.weights, compared.estimate
    covariance = weights @ compared.robust.covariance @ weights.T
    freedom_seen = compared.robust.degrees_of_freedom(weights)
    values, vectors = np.linalg.eigh(covariance)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((NODES, len(weights))) @ (
        (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    )
    error_noise = rng.standard_normal((NODES, 1))

    def decided(further: int) -> bool:
        """Whether a run of that many more sets decides for what the estimates point to, often enough."""
        sets = seen + further
        scale, freedom = np.sqrt(seen / sets), freedom_seen * (sets - 1) / (seen - 1)
        found = np.abs(estimate + scale * noise)
        # Estimated over true standard error: √(χ²/df), with Wilson and Hilferty's cube for χ²/df.
        spread = 2 / (9 * freedom)
        ratio = np.maximum(1 - spread + error_noise * np.sqrt(spread), 0) ** 1.5
        error = np.sqrt(np.diag(covariance)) * scale * ratio
        if np.abs(estimate).max() <= margin:
            hits = (found + t_quantile(LEVEL, freedom) * error < margin).all(axis=1)
        else:
            strict = 1 - (1 - LEVEL) / (2 * comparisons)
            hits = (found - t_quantile(strict, freedom) * error > margin).any(axis=1)
        return bool(hits.mean() >= POWER)

    return _fewest(decided)


def _fewest(decided: Callable[[int], bool], least: int = 1) -> int | None:
    """The smallest number that decides, if more never decide less; None if more than 100,000."""
    found = least + bisect_left(range(least, MOST + 1), True, key=decided)
    return found if found <= MOST else None


def documents_needed(found: Interval, margin: float, documents: int) -> int | None:
    """Further documents to show a change above or below the margin, as the estimate points to, in 80 % of cases."""
    side = (1 + LEVEL) / 2 if found.estimate > margin else LEVEL
    total = clusters_needed(found, abs(found.estimate - margin), documents, side)
    return None if total is None else max(1, total - documents)


def clusters_needed(found: Interval, gap: float, seen: int, level: float) -> int | None:
    """How many clusters in all make a gap significant at a one-sided level in 80 % of cases.

    If the estimate is the truth, and errors shrink with the square root of the clusters; None if more than 100,000.
    """

    def decided(clusters: int) -> bool:
        freedom = found.degrees_of_freedom * (clusters - 1) / (seen - 1)
        error = found.standard_error * np.sqrt(seen / clusters)
        return bool(gap >= (t_quantile(level, freedom) + t_quantile(POWER, freedom)) * error)

    return _fewest(decided, 2)


def judge_loss(low: float, high: float, margin: float, gain: LossKind) -> LossKind:
    """Judge the interval of a loss, which is positive where things got worse: a test of non-inferiority.

    "not worse" is a claim that has to be shown: the interval ends before the margin. `gain` is what it is called if
    it ends below 0. "worse" is shown where the interval begins above 0. Anything else, NaN included, is
    "inconclusive".

    >>> [judge_loss(*ends, margin=0.01, gain="better") for ends in ((-0.01, 0.005), (0.002, 0.03), (-0.01, 0.03))]
    ['not worse', 'worse', 'inconclusive']
    """
    if high <= margin:
        return gain if high < 0 else "not worse"
    return "worse" if low > 0 else "inconclusive"
