"""Position, language and length in one model, which separates their effects (`JointModel`).

And two languages in the same mixed documents, in both orders, with the verdict on them
(`LanguageEffects`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import DesignError
from fairspan.stats.arrays import Codes, Floats, Groups
from fairspan.stats.contrasts import Robust, regress
from fairspan.stats.equivalence import Compared
from fairspan.stats.intervals import Interval, Intervals

Condition = tuple[int, str, str]
"""A position, a language and its company, which is empty if the model has none."""
Level = tuple[int | str, str]
"""A position or a language, with its company."""
LeadLater = tuple[str, str]
"""The language of the first segment of a document, and that of the others."""
Role = Literal["lead", "later", ""]
"""Position 1, the later positions, or all of them."""

# Of log(tokens) inside conditions. Below it, the effect of doubling a length would be extrapolated
# from single tokens.
LEAST_DEVIATION = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class AveragedEffect:
    """The effect of one factor averaged over the levels of the other.

    Attributes:
        names: positions 2…n, or languages; each contrast compares one with the baseline.
        over: for each name the levels at which both it and the baseline occur.
        p_value: of the test that all contrasts are 0.
        refused: names that never occur together with the baseline.
    """

    names: tuple[int | str, ...]
    baseline: int | str
    over: tuple[tuple[Level, ...], ...]
    contrasts: Intervals
    p_value: float
    refused: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class JointModel:
    """value ~ position × language × company + log(tokens), clustered by set.

    The company of a row is the rest of its document: a segment that is the only one in its language
    is not compared with one among others in the same language. The coefficients are the means of
    the conditions that occur (`cells`), at the mean log length, and then the slope; `no_slope` is
    the reason if there is none.
    """

    positions: int
    cells: tuple[Condition, ...]
    no_slope: str
    sets: int
    robust: Robust = field(repr=False)

    def mean(self, condition: Condition) -> Interval:
        """The mean of one condition at the mean log length."""
        return self.robust.contrasts(self.weights(condition)[None])[0]

    def slope(self) -> Interval:
        """The change of value with one unit of log(tokens)."""
        return self.robust.contrasts(np.eye(len(self.cells) + 1)[-1:])[0]

    def effect(self, factor: Literal["position", "language"]) -> AveragedEffect:
        """Positions 2…n against position 1, or languages against the first."""
        place = 0 if factor == "position" else 1
        companies = list(dict.fromkeys(company for _, _, company in self.cells))
        levels: dict[int | str, dict[Level, Floats]] = {}
        for cell in sorted(self.cells, key=lambda cell: (companies.index(cell[2]), cell)):
            levels.setdefault(cell[place], {})[cell[1 - place], cell[2]] = self.weights(cell)
        baseline = min(levels)
        first = levels.pop(baseline)
        weights = {}
        over = []
        for name in sorted(levels):
            shared = [level for level in levels[name] if level in first]
            if shared:
                gaps = [levels[name][level] - first[level] for level in shared]
                weights[name] = np.mean(gaps, axis=0)
                over.append(tuple(shared))
        if not weights:
            reason = "no language is at position 1 and at a later one"
            if factor == "language":
                reason = f"no other language is where {baseline} is"
            company = " in the same company" if len(companies) > 1 else ""
            raise DesignError(f"not estimable: {reason}{company}.")
        table = np.stack([*weights.values()])
        return AveragedEffect(
            names=tuple(weights),
            baseline=baseline,
            over=tuple(over),
            contrasts=self.robust.contrasts(table),
            p_value=self.robust.joint(table),
            refused=tuple(name for name in sorted(levels) if name not in weights),
        )

    def weights(self, condition: Condition) -> Floats:
        """The weights [K] of the mean of one condition on the coefficients."""
        place = self.cells.index(condition)
        return np.asarray(np.eye(len(self.robust.clustered.coefficients))[place])


def joint_model(
    values: ArrayLike,
    positions: ArrayLike,
    languages: ArrayLike,
    sets: ArrayLike,
    tokens: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    *,
    companies: tuple[ArrayLike, Sequence[str]] | None = None,
    inference: str = "auto",
) -> JointModel:
    """The model of values[N]; `companies` are a code for each row, and the name of each code."""
    numbers = np.asarray(positions)
    spoken = np.asarray(languages).astype(str)
    names, codes = np.unique(spoken, return_inverse=True)
    if companies is None:
        companies = (np.zeros(len(spoken), np.int64), [""])
    company, company_names = companies
    shape = (int(numbers.max()) + 1, len(names), len(company_names))
    flat = np.ravel_multi_index((numbers, codes, np.asarray(company)), shape)
    occupied, columns = np.unique(flat, return_inverse=True)
    cells = tuple(
        (int(position), str(names[language]), company_names[beside])
        for position, language, beside in np.transpose(np.unravel_index(occupied, shape))
    )
    logs, no_slope = _log_lengths(tokens, columns, spoken)
    outcome = np.asarray(values, np.float64)
    groups = Groups(columns, len(cells))
    robust = regress(outcome, groups, sets, segments, logs, inference=inference)
    return JointModel(shape[0] - 1, cells, no_slope, len(robust.clustered.scores), robust)


def _log_lengths(
    tokens: ArrayLike | None, cells: Codes, languages: NDArray[np.str_]
) -> tuple[Floats | None, str]:
    """Centred log(tokens) [N]; or None, with the reason, if it hardly varies inside any cell."""
    if tokens is None:
        return None, "the model was fitted without token lengths"
    lengths = np.asarray(tokens, np.float64)
    logs: Floats = np.log(lengths)
    cell_means = np.bincount(cells, weights=logs) / np.bincount(cells)
    deviation = float(np.sqrt(np.mean((logs - cell_means[cells]) ** 2)))
    if deviation >= LEAST_DEVIATION:
        return logs - logs.mean(), ""
    hardly = "do not vary" if deviation < 1e-9 else f"vary by only {100 * deviation:.1f} %"
    reason = f"segment lengths {hardly} within a language, so the effect of length is not estimated"
    means = {str(name): float(lengths[languages == name].mean()) for name in np.unique(languages)}
    if max(means.values()) > (1 + LEAST_DEVIATION) * min(means.values()):
        listed = ", ".join(f"{name} {mean:.0f}" for name, mean in means.items())
        reason += f"; differences between languages include that of their mean lengths ({listed})"
    return None, reason


@dataclass(frozen=True, slots=True, eq=False)
class LanguageEffects:
    """value ~ position × plan + log(tokens) over mixed plans, clustered by set.

    Two languages are compared in the documents that consist of just these two, in both orders: at
    each position the first language in one plan minus the second in the other. In the model, the
    company of a segment is the other language.
    """

    plans: tuple[LeadLater, ...]
    model: JointModel

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(language for plan in self.plans for language in plan))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Languages that occur in both orders; differences are the first minus the second."""
        pairs = combinations(self.languages, 2)
        return tuple(pair for pair in pairs if {pair, pair[::-1]} <= set(self.plans))

    def differences(self, role: Role = "") -> Intervals:
        """One for each pair."""
        return self.model.robust.contrasts(self._differences(role))

    def compared(self) -> Compared:
        """Every pair over all positions. The verdict names the favoured language first."""
        weights = self._differences("")
        return Compared(self.model.robust, weights, self.pairs, self.model.sets, either_way=True)

    def role(self, language: str, role: Role) -> tuple[tuple[str, ...], dict[str, Interval]] | None:
        """A language where it leads others or follows them; None if it never does.

        The languages beside it, and means over these with equal weights: its "own", that of the
        "others" in the same documents, and their "gap" between position 1 and later ones.
        """
        side = 0 if role == "lead" else 1
        plans = [plan for plan in self.plans if plan[side] == language]
        if not plans:
            return None
        first = np.mean([self._mean(lead, later, "lead") for lead, later in plans], axis=0)
        rest = np.mean([self._mean(later, lead, "later") for lead, later in plans], axis=0)
        sides = [first, rest] if role == "lead" else [rest, first]
        means = self.model.robust.contrasts(np.stack([*sides, first - rest]))
        beside = tuple(plan[1 - side] for plan in plans)
        return beside, {"own": means[0], "others": means[1], "gap": means[2]}

    def _differences(self, role: Role) -> Floats:
        """Weights [P, K] of each pair on the coefficients of the model."""
        means = [(self._mean(*pair, role), self._mean(*pair[::-1], role)) for pair in self.pairs]
        return np.stack([first - second for first, second in means])

    def _mean(self, language: str, other: str, role: Role) -> Floats:
        """Weights [K] of the mean of a language beside another, over the positions of a role."""
        first = 2 if role == "later" else 1
        last = 1 if role == "lead" else self.model.positions
        rows = [self.model.weights((place, language, other)) for place in range(first, last + 1)]
        return np.asarray(np.mean(rows, axis=0))


def language_effects(
    values: ArrayLike,
    positions: ArrayLike,
    plans: tuple[ArrayLike, Sequence[LeadLater]],
    sets: ArrayLike,
    tokens: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> LanguageEffects:
    """The model of values[N] in mixed documents; `plans` are codes [N], and the plan of each code.

    Without tokens[N], languages are compared at the lengths that they have.
    """
    codes, named = plans
    spoken = list(dict.fromkeys(language for plan in named for language in plan))
    by_plan = np.array([[spoken.index(language) for language in plan] for plan in named])
    # [N, 2]: the language of each row, and the other one of its document.
    both = by_plan[np.asarray(codes)]
    both = np.where(np.asarray(positions)[:, None] == 1, both, both[:, ::-1])
    languages = np.array(spoken)[both[:, 0]]
    rows = (values, positions, languages, sets, tokens, segments)
    model = joint_model(*rows, companies=(both[:, 1], spoken), inference=inference)
    return LanguageEffects(tuple(named), model)
