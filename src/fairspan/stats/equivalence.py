"""Verdicts on fairness. Fair is a claim of equivalence, so it has to be shown, not merely not refuted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, require_level
from fairspan.stats.distributions import holm, t_quantile
from fairspan.stats.positions import PositionEffects, difference_weights

Kind = Literal["fair", "biased", "inconclusive"]
MEASURES = ("represented", "retained")
POWER = 0.8
MOST_SETS = 100_000
# Points of the numerical integration over what a later run might find.
NODES = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Equivalence:
    """Both tests of later positions against an earlier one; arrays of shape [J], for positions 2…n J = n − 1.

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
            digits = self._digits()
            word = "less" if self.estimate < 0 else "more"
            low, high = (f"{end:.{digits}f}".replace("-", "−") for end in (self.low, self.high))
            return (
                f"biased: position {self.position} is {abs(self.estimate):.{digits}f} {word} {self.measure} than "
                f"position {self.against} [{low}, {high}]"
            )
        if self.sets_needed is None:
            return (
                f"inconclusive: position {self.position} is too close to the margin of ±{self.margin:g}; no "
                "realistic number of sets would decide"
            )
        sets = "set" if self.sets_needed == 1 else "sets"
        return f"inconclusive: about {round_up(self.sets_needed)} more {sets} would decide"

    def _digits(self) -> int:
        """Two decimals, three for small differences, more where rounding would put a number onto the margin."""
        numbers = [abs(number) for number in (self.estimate, self.low, self.high)]
        digits = 2 if numbers[0] >= 0.05 else 3
        while digits < 6 and any(
            round(number, digits) == round(self.margin, digits) and number != self.margin for number in numbers
        ):
            digits += 1
        return digits


def equivalence(effects: PositionEffects, margin: float = 0.02, against: int = 1) -> Equivalence:
    """Test every later position against one, for equivalence and for bias."""
    if not margin > 0:
        raise StatisticsError(f"margin must be more than 0, got {margin}: no finite sample shows an exact equality.")
    weights = difference_weights(effects.n, against)
    below_floor, above_floor = effects.robust.tails(weights, -margin)
    below_roof, above_roof = effects.robust.tails(weights, margin)
    beyond = np.minimum(1, 2 * np.minimum(below_floor, above_roof))
    return Equivalence(weights @ effects.estimate, p_fair=np.maximum(above_floor, below_roof), p_beyond=beyond)


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
    require_level(level)
    if measure not in MEASURES:
        raise StatisticsError(f"measure must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}.")
    tests = [equivalence(effects, margin, against) for effects, against in families]
    ends = np.cumsum([len(test.p_beyond) for test in tests])
    corrected = np.split(holm(np.concatenate([test.p_beyond for test in tests])), ends[:-1])
    significant = [p_values < 1 - level for p_values in corrected]
    # Holm's next step is over what is not yet rejected.
    left = int(ends[-1]) - sum(int(found.sum()) for found in significant)
    return [
        _verdict(effects, against, test, found, left, margin, level, measure)
        for (effects, against), test, found in zip(families, tests, significant, strict=True)
    ]


def _verdict(
    effects: PositionEffects,
    against: int,
    tests: Equivalence,
    significant: NDArray[np.bool_],
    left: int,
    margin: float,
    level: float,
    measure: str,
) -> Verdict:
    """The verdict on one family, of whose comparisons those are significant; `left` are not, in all families."""
    kind: Kind = "inconclusive"
    if significant.any():
        kind = "biased"
    elif (tests.p_fair < 1 - level).all():
        kind = "fair"
    size = np.where(significant | (kind != "biased"), np.abs(tests.estimate), -1.0)
    worst = int(size.argmax())
    differences = effects.differences(level, against)
    undecided = kind == "inconclusive"
    return Verdict(
        kind=kind,
        margin=margin,
        position=against + worst + 1,
        estimate=float(differences.estimate[worst]),
        low=float(differences.low[worst]),
        high=float(differences.high[worst]),
        sets_needed=sets_needed(effects, margin, level, against=against, comparisons=left) if undecided else None,
        measure=measure,
        against=against,
    )


def sets_needed(
    effects: PositionEffects,
    margin: float,
    level: float = 0.95,
    *,
    against: int = 1,
    comparisons: int | None = None,
) -> int | None:
    """Further sets for the decision the estimates point to, at 80 % power, if the estimates are the truth.

    Errors shrink with the square root of the number of sets, which takes new sets to be like those seen. The chance
    of a decision over all comparisons at once has no closed form, so it is integrated over 4000 fixed points.

    Args:
        comparisons: how many are corrected for; by default those of these effects.
    """
    seen, weights = effects.clusters, difference_weights(effects.n, against)
    estimate, covariance = weights @ effects.estimate, weights @ effects.covariance @ weights.T
    freedom_seen = effects.robust.degrees_of_freedom(weights)
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
