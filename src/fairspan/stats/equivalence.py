"""Verdicts on fairness. Fair is a claim of equivalence, so it has to be shown, not merely not refuted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, require_level
from fairspan.stats.contrasts import Robust
from fairspan.stats.distributions import holm, t_quantile
from fairspan.stats.positions import PositionEffects, difference_weights

Kind = Literal["fair", "biased", "inconclusive"]
MEASURES = ("represented", "retained")
POWER = 0.8
MOST_SETS = 100_000
# Points of the numerical integration over what a later run might find.
NODES = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What is judged together: J differences, each a row of weights[J, K] on the coefficients of a clustered fit.

    Attributes:
        sets: how many the fit has seen.
    """

    robust: Robust
    weights: Floats
    sets: int

    @property
    def estimate(self) -> Floats:
        found: Floats = self.weights @ self.robust.clustered.coefficients
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Equivalence:
    """Both tests of each difference; arrays of shape [J], for positions 2…n against the first J = n − 1.

    Attributes:
        estimate: the difference.
        p_fair: against |difference| ≥ margin: the larger of two one-sided p-values (TOST). All of them must be small
            for the whole to be fair: an intersection-union test, which needs no correction.
        p_beyond: against |difference| ≤ margin: twice the smaller one-sided p-value. One of them is enough to be
            biased, so it needs a correction over everything that is tested together.
    """

    estimate: Floats
    p_fair: Floats
    p_beyond: Floats


@dataclass(frozen=True, slots=True)
class Decision:
    """What the data say about the differences of one family.

    Attributes:
        kind: of all of them together.
        kinds: of each of them.
        worst: which of them is largest, among the significant ones if biased.
        estimate, low, high, sets_needed: as in `Verdict`.
    """

    kind: Kind
    kinds: tuple[Kind, ...]
    worst: int
    estimate: float
    low: float
    high: float
    sets_needed: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data say about fairness within a margin.

    Attributes:
        kind: "fair", "biased" or "inconclusive".
        margin: δ.
        position: the one that differs most from `against`, among the significant ones if biased.
        estimate, low, high: its difference with the plain interval of the given level, as in tables and figures. The
            decision itself is stricter for "biased" (Holm) and is taken at 1 − 2·(1 − level), the usual 90 %, for
            "fair".
        sets_needed: for "inconclusive": how many sets beyond those seen give the decision that the estimates point to
            in 80 % of cases; None if more than 100,000.
        measure: "represented" or "retained".
        against: the position that later ones are compared with. Earlier ones are not compared.
    """

    kind: Kind
    margin: float
    position: int
    estimate: float
    low: float
    high: float
    sets_needed: int | None
    measure: str = "represented"
    against: int = 1

    def sentence(self) -> str:
        """The verdict in words.

        >>> Verdict("biased", 0.02, 4, -0.09, -0.1, -0.08, None).sentence()
        'biased: position 4 is 0.09 less represented than position 1 [−0.10, −0.08]'
        """
        if self.kind == "fair":
            return f"fair within ±{self.margin:g}" + (f" from position {self.against} on" if self.against > 1 else "")
        if self.kind == "biased":
            size, ends = numbers_beside(self.margin, self.estimate, self.low, self.high)
            word = "less" if self.estimate < 0 else "more"
            than = f"{word} {self.measure} than position {self.against}"
            return f"biased: position {self.position} is {size} {than} {ends}"
        return undecided(f"position {self.position} is", self.margin, self.sets_needed)


def numbers_beside(margin: float, estimate: float, low: float, high: float) -> tuple[str, str]:
    """The size of a difference and its interval in words.

    Two decimals, three for small differences, more where rounding would put a number onto the margin.
    """
    sizes = [abs(number) for number in (estimate, low, high)]
    digits = 2 if sizes[0] >= 0.05 else 3
    while digits < 6 and any(round(size, digits) == round(margin, digits) and size != margin for size in sizes):
        digits += 1
    ends = ", ".join(f"{end:.{digits}f}".replace("-", "−") for end in (low, high))
    return f"{sizes[0]:.{digits}f}", f"[{ends}]"


def undecided(subject: str, margin: float, sets_needed: int | None) -> str:
    """What would decide, or that nothing realistic would; `subject` has its verb."""
    if sets_needed is None:
        close = f"{subject} too close to the margin of ±{margin:g}"
        return f"inconclusive: {close}; no realistic number of sets would decide"
    sets = "set" if sets_needed == 1 else "sets"
    return f"inconclusive: about {round_up(sets_needed)} more {sets} would decide"


def equivalence(effects: PositionEffects, margin: float = 0.02, against: int = 1) -> Equivalence:
    """Test every later position against one, for equivalence and for bias."""
    return _tests(_positions(effects, against), margin)


def _positions(effects: PositionEffects, against: int) -> Compared:
    return Compared(effects.robust, difference_weights(effects.n, against), effects.clusters)


def _tests(compared: Compared, margin: float) -> Equivalence:
    if not margin > 0:
        raise StatisticsError(f"margin must be more than 0, got {margin}: no finite sample shows an exact equality.")
    below_floor, above_floor = compared.robust.tails(compared.weights, -margin)
    below_roof, above_roof = compared.robust.tails(compared.weights, margin)
    beyond = np.minimum(1, 2 * np.minimum(below_floor, above_roof))
    return Equivalence(compared.estimate, p_fair=np.maximum(above_floor, below_roof), p_beyond=beyond)


def verdict(
    effects: PositionEffects, margin: float = 0.02, level: float = 0.95, *, measure: str = "represented"
) -> Verdict:
    """Fair, biased or inconclusive, of one family of documents."""
    [found] = verdicts([(effects, 1)], margin, level, measure=measure)
    return found


def verdicts(
    families: Sequence[tuple[PositionEffects, int]],
    margin: float = 0.02,
    level: float = 0.95,
    *,
    measure: str = "represented",
) -> list[Verdict]:
    """Fair, biased or inconclusive, of families of documents that are judged together.

    fair: every |difference| from the position compared with is significantly less than the margin. biased: at least
    one is significantly more, after Holm's correction over the comparisons of all families. So the chance that any
    family is called biased by mistake is at most 1 − level. Two positions on either side of the one that they are
    compared with can differ by twice the margin.

    Args:
        families: the effects of each, and the position that later ones are compared with.
    """
    if measure not in MEASURES:
        raise StatisticsError(f"measure must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}.")
    decided = decide([_positions(effects, against) for effects, against in families], margin, level)
    return [
        Verdict(
            kind=one.kind,
            margin=margin,
            position=against + one.worst + 1,
            estimate=one.estimate,
            low=one.low,
            high=one.high,
            sets_needed=one.sets_needed,
            measure=measure,
            against=against,
        )
        for (_, against), one in zip(families, decided, strict=True)
    ]


def decide(families: Sequence[Compared], margin: float = 0.02, level: float = 0.95) -> list[Decision]:
    """Fair, biased or inconclusive, of families of differences that are judged together, as `verdicts` explains."""
    require_level(level)
    tests = [_tests(one, margin) for one in families]
    ends = np.cumsum([len(test.p_beyond) for test in tests])
    corrected = np.split(holm(np.concatenate([test.p_beyond for test in tests])), ends[:-1])
    significant = [p_values < 1 - level for p_values in corrected]
    # Holm's next step is over what is not yet rejected.
    left = int(ends[-1]) - sum(int(found.sum()) for found in significant)
    return [
        _decision(one, test, found, left, margin, level)
        for one, test, found in zip(families, tests, significant, strict=True)
    ]


def _decision(
    compared: Compared, tests: Equivalence, significant: NDArray[np.bool_], left: int, margin: float, level: float
) -> Decision:
    """The decision on one family, of whose differences those are significant; `left` are not, in all families."""
    inside = tests.p_fair < 1 - level
    kinds: list[Kind] = [
        "biased" if out else "fair" if within else "inconclusive"
        for out, within in zip(significant, inside, strict=True)
    ]
    kind: Kind = "biased" if "biased" in kinds else "fair" if inside.all() else "inconclusive"
    size = np.where(significant | (kind != "biased"), np.abs(tests.estimate), -1.0)
    worst = int(size.argmax())
    found = compared.robust.contrasts(compared.weights, level)
    needed = further_sets(compared, margin, level, comparisons=left) if kind == "inconclusive" else None
    estimate, low, high = (float(values[worst]) for values in (found.estimate, found.low, found.high))
    return Decision(kind, tuple(kinds), worst, estimate, low, high, needed)


def sets_needed(
    effects: PositionEffects,
    margin: float,
    level: float = 0.95,
    *,
    against: int = 1,
    comparisons: int | None = None,
) -> int | None:
    """Further sets for the decision that the estimates of positions point to, as `further_sets` counts them."""
    return further_sets(_positions(effects, against), margin, level, comparisons=comparisons)


def further_sets(
    compared: Compared, margin: float, level: float = 0.95, *, comparisons: int | None = None
) -> int | None:
    """Further sets for the decision the estimates point to, at 80 % power, if the estimates are the truth.

    Errors shrink with the square root of the number of sets, which takes new sets to be like those seen. The chance
    of a decision over all comparisons at once has no closed form, so it is integrated over 4000 fixed points.

    Args:
        comparisons: how many are corrected for; by default those of this family.
    """
    seen, weights = compared.sets, compared.weights
    estimate, covariance = compared.estimate, weights @ compared.robust.covariance @ weights.T
    freedom_seen = compared.robust.degrees_of_freedom(weights)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((NODES, len(weights))) @ _square_root(covariance)
    error_noise = rng.standard_normal((NODES, 1))

    def chance(sets: int) -> float:
        """The chance that a run of that many sets decides for what the estimates point to."""
        scale = np.sqrt(seen / sets)
        freedom = freedom_seen * (sets - 1) / (seen - 1)
        found = np.abs(estimate + scale * noise)
        error = np.sqrt(np.diag(covariance)) * scale * _error_ratio(error_noise, freedom)
        if np.abs(estimate).max() <= margin:
            return float((found + t_quantile(level, freedom) * error < margin).all(axis=1).mean())
        strict = 1 - (1 - level) / (2 * (comparisons or len(estimate)))
        return float((found - t_quantile(strict, freedom) * error > margin).any(axis=1).mean())

    most = seen + MOST_SETS
    if chance(most) < POWER:
        return None
    less, step = seen, 1
    while chance(min(less + step, most)) < POWER:
        less, step = less + step, 2 * step
    enough = min(less + step, most)
    while enough - less > 1:
        middle = (enough + less) // 2
        enough, less = (middle, less) if chance(middle) >= POWER else (enough, middle)
    return enough - seen


def _error_ratio(normal: Floats, freedom: Floats) -> Floats:
    """Estimated over true standard error: √(χ²/df), with Wilson and Hilferty's cube for χ²/df."""
    spread = 2 / (9 * freedom)
    ratio: Floats = np.maximum(1 - spread + normal * np.sqrt(spread), 0) ** 1.5
    return ratio


def _square_root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def round_up(number: int) -> int:
    """To two significant digits, since the estimate deserves no more."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit
