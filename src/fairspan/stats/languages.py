"""`LanguageEffects`: two languages inside the same mixed documents, in both orders, with the verdict on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, group
from fairspan.stats.contrasts import Contrast, Contrasts
from fairspan.stats.equivalence import Compared, Decision, decide, numbers_beside, undecided
from fairspan.stats.joint import JointModel, joint_model

Plan = tuple[str, str]
"""The language of the first segment of a document, and that of the others."""

Pair = tuple[str, str]
"""Two languages; an effect is that of the first minus that of the second."""

Role = Literal["lead", "later", ""]
"""Position 1, the later positions, or all of them."""


@dataclass(frozen=True, slots=True)
class RoleMeans:
    """A language in one role, averaged over the languages beside it with equal weights.

    Attributes:
        own, others: its mean, and that of the other languages in the same documents.
        gap: position 1 minus the mean of later positions of these documents.
    """

    beside: tuple[str, ...]
    own: Contrast
    others: Contrast
    gap: Contrast


@dataclass(frozen=True, slots=True, eq=False)
class LanguageEffects:
    """value ~ position × plan + log(tokens) over mixed plans, clustered by set.

    Two languages are compared in the documents that consist of just these two, one of them leading and the other one:
    at each position the first language in one plan minus the second in the other, with equal weights for positions.

    Attributes:
        plans: in order of appearance.
        model: with a company for each language that a segment is beside, so that its cells are those of each plan.
        sets: how many there are.
    """

    plans: tuple[Plan, ...]
    model: JointModel
    sets: int

    @property
    def n(self) -> int:
        return self.model.positions

    @property
    def languages(self) -> tuple[str, ...]:
        """In order of appearance."""
        return tuple(dict.fromkeys(language for plan in self.plans for language in plan))

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The languages that lead each other."""
        there = set(self.plans)
        return tuple(pair for pair in combinations(self.languages, 2) if {pair, pair[::-1]} <= there)

    @property
    def missing(self) -> tuple[Plan, ...]:
        """The plans without which two languages in one document are not compared."""
        return tuple(plan[::-1] for plan in self.plans if plan[::-1] not in self.plans)

    def differences(self, role: Role = "", level: float = 0.95) -> Contrasts:
        """One for each pair."""
        return self.model.robust.contrasts(self.weights(role), level)

    def weights(self, role: Role = "") -> Floats:
        """Of each pair on the coefficients of the model."""
        rows = [self._role(first, second, role) - self._role(second, first, role) for first, second in self.pairs]
        return np.stack(rows)

    def role(self, language: str, role: Role) -> RoleMeans | None:
        """A language where it leads others or follows them, averaged over these; None where it never does."""
        plans = [plan for plan in self.plans if plan[0 if role == "lead" else 1] == language]
        if not plans:
            return None
        first = np.mean([self._role(lead, later, "lead") for lead, later in plans], axis=0)
        rest = np.mean([self._role(later, lead, "later") for lead, later in plans], axis=0)
        own, others = (first, rest) if role == "lead" else (rest, first)
        beside = tuple(plan[1 if role == "lead" else 0] for plan in plans)
        return RoleMeans(beside, *(self.model.robust.contrast(row) for row in (own, others, first - rest)))

    @property
    def compared(self) -> Compared:
        return Compared(self.model.robust, self.weights(), self.sets)

    def _role(self, language: str, other: str, role: Role) -> Floats:
        """Weights of the mean of a language over the positions of a role, beside another language."""
        first = {"lead": [1], "later": [], "": [1]}[role]
        later = [] if role == "lead" else range(2, self.n + 1)
        rows = [self.model.cell_weights((place, language, other)) for place in (*first, *later)]
        mean: Floats = np.mean(rows, axis=0)
        return mean


def language_effects(
    values: ArrayLike,
    positions: ArrayLike,
    plans: tuple[ArrayLike, Sequence[Plan]],
    sets: ArrayLike,
    tokens: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
    rng: np.random.Generator | None = None,
    draws: int = 9999,
) -> LanguageEffects:
    """Fit the model of mixed documents.

    Args:
        plans: numbers, and the plan that each of them is.
        tokens: lengths of segments; None compares languages as they are, whatever their lengths.
        segments, inference, rng, draws: those of `position_effects`.
    """
    codes, named = np.asarray(plans[0]), plans[1]
    spoken = list(dict.fromkeys(language for plan in named for language in plan))
    number = {language: place for place, language in enumerate(spoken)}
    lead, later = (np.array([number[plan[side]] for plan in named])[codes] for side in (0, 1))
    first = np.asarray(positions) == 1
    languages = np.array(spoken)[np.where(first, lead, later)]
    beside = (np.where(first, later, lead), spoken)
    model = joint_model(
        values,
        positions,
        languages,
        sets,
        tokens,
        segments,
        companies=beside,
        inference=inference,
        rng=rng,
        draws=draws,
    )
    return LanguageEffects(tuple(named), model, group(sets).count)


@dataclass(frozen=True, slots=True)
class LanguageVerdict:
    """What the data say about fairness between languages within a margin, over all pairs of one size of documents.

    Attributes:
        kind, kinds: of all pairs together, and of each.
        language, against: the pair that differs most, the favoured language first; among the significant if biased.
        estimate, low, high: its difference, with the plain interval.
        sets_needed: as in `Verdict`.
        measure: "represented" or "retained".
    """

    kind: str
    kinds: tuple[str, ...]
    margin: float
    language: str
    against: str
    estimate: float
    low: float
    high: float
    sets_needed: int | None
    measure: str = "represented"

    def sentence(self) -> str:
        """The verdict in words.

        >>> LanguageVerdict("biased", ("biased",), 0.02, "en", "de", 0.042, 0.031, 0.053, None).sentence()
        'biased: en is 0.042 more represented than de [0.031, 0.053]'
        """
        if self.kind == "fair":
            return f"fair within ±{self.margin:g}"
        if self.kind == "biased":
            size, ends = numbers_beside(self.margin, self.estimate, self.low, self.high)
            return f"biased: {self.language} is {size} more {self.measure} than {self.against} {ends}"
        return undecided(f"{self.language} and {self.against} are", self.margin, self.sets_needed)


def language_verdicts(
    families: Sequence[LanguageEffects], margin: float = 0.02, level: float = 0.95, *, measure: str = "represented"
) -> list[LanguageVerdict]:
    """Fair, biased or inconclusive, of documents of several sizes that are judged together.

    fair: every pair of languages differs by significantly less than the margin. biased: at least one pair differs by
    significantly more, after Holm's correction over the pairs of all sizes.
    """
    decided = decide([one.compared for one in families], margin, level)
    return [_verdict(one, found, margin, measure) for one, found in zip(families, decided, strict=True)]


def _verdict(effects: LanguageEffects, found: Decision, margin: float, measure: str) -> LanguageVerdict:
    (first, second), ends = effects.pairs[found.worst], (found.estimate, found.low, found.high)
    if found.estimate < 0:
        (first, second), ends = (second, first), (-found.estimate, -found.high, -found.low)
    return LanguageVerdict(found.kind, found.kinds, margin, first, second, *ends, found.sets_needed, measure)
