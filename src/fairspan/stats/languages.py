"""Position, language and length in one model, which is what tells them apart (`JointModel`).

And two languages inside the same mixed documents, in both orders, with the verdict on them (`LanguageEffects`).
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

Cell = tuple[int, str, str]
"""A position, a language and its company; the company is empty where the model knows of none."""

Level = tuple[int | str, str]
"""A position or a language, with its company."""

Plan = tuple[str, str]
"""The language of the first segment of a document, and that of the others."""

Role = Literal["lead", "later", ""]
"""Position 1, the later positions, or all of them."""

# The least standard deviation of log(tokens) inside cells. Below it, one token in fifty, what doubling does would be
# extrapolated from single tokens.
LEAST_DEVIATION = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class AveragedEffect:
    """The effect of one factor averaged over the levels of the other.

    Attributes:
        names: what each contrast compares with the baseline: positions 2…n, or languages.
        baseline: position 1, or the first language.
        over: for each name the levels averaged over, each with the same weight: those at which it and the baseline
            both occur.
        contrasts: one for each name.
        p_value: of the test that all of them are 0.
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

    The company of a row is what else its document consists of, as far as that matters: a segment that alone is in
    its language is not compared with one among others in the same language. The coefficients are the means of the
    occupied cells at the mean log length, and then the slope. Cells without rows are left out of the model; what
    would need them is refused.

    Attributes:
        positions: n.
        cells: the occupied ones, in the order of the coefficients.
        no_slope: why there is no slope of log(tokens); empty if there is.
        sets: how many there are.
    """

    positions: int
    cells: tuple[Cell, ...]
    no_slope: str
    sets: int
    robust: Robust = field(repr=False)

    def mean(self, cell: Cell) -> Interval:
        """The mean of one cell at the mean log length."""
        return self.robust.contrasts(self.weights(cell)[None])[0]

    def slope(self) -> Interval:
        """The change of value with one unit of log(tokens), of a model that has it."""
        return self.robust.contrasts(np.eye(len(self.cells) + 1)[-1:])[0]

    def effect(self, factor: Literal["position", "language"]) -> AveragedEffect:
        """Positions 2…n against position 1, or languages against the first, each averaged over what both share."""
        place = 0 if factor == "position" else 1
        companies = list(dict.fromkeys(company for _, _, company in self.cells))
        rows: dict[int | str, dict[Level, Cell]] = {
            name: {} for name in sorted({cell[place] for cell in self.cells})
        }
        for cell in self.cells:
            rows[cell[place]][cell[1 - place], cell[2]] = cell
        (baseline, first), *rest = rows.items()
        weights, over = {}, []
        for name, own in rest:
            both = sorted(
                own.keys() & first.keys(), key=lambda level: (companies.index(level[1]), level[0])
            )
            if both:
                pairs = [self.weights(own[level]) - self.weights(first[level]) for level in both]
                weights[name] = np.mean(pairs, axis=0)
                over.append(tuple(both))
        if not weights:
            why = "no language is at position 1 and at a later one"
            why = why if factor == "position" else f"no other language is where {baseline} is"
            raise DesignError(
                f"not estimable: {why}{' in the same company' if len(companies) > 1 else ''}."
            )
        table = np.stack([*weights.values()])
        refused = tuple(name for name, _ in rest if name not in weights)
        numbers = self.robust.contrasts(table), self.robust.joint(table)
        return AveragedEffect(tuple(weights), baseline, tuple(over), *numbers, refused)

    def weights(self, cell: Cell) -> Floats:
        """The weights [K] of the mean of one cell on the coefficients."""
        return np.asarray(np.eye(len(self.robust.clustered.coefficients))[self.cells.index(cell)])


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
    """Fit value ~ position × language × company + log(tokens), clustered by set.

    `tokens` are the segments' lengths. Where they hardly vary inside the cells, the model has no slope and says why.
    `companies` are numbers and what each of them is called.
    """
    numbers, spoken = np.asarray(positions), np.asarray(languages).astype(str)
    names, codes = np.unique(spoken, return_inverse=True)
    company, called = (np.zeros(len(spoken), np.int64), [""]) if companies is None else companies
    parts = numbers, codes, np.asarray(company)
    shape = (int(numbers.max()) + 1, len(names), len(called))
    occupied, columns = np.unique(np.ravel_multi_index(parts, shape), return_inverse=True)
    places = np.transpose(np.unravel_index(occupied, shape))
    cells = tuple((int(place), str(names[code]), called[one]) for place, code, one in places)
    logs, no_slope = _log_lengths(tokens, columns, spoken)
    column = np.asarray(values, np.float64)
    judged = regress(column, Groups(columns, len(cells)), sets, segments, logs, inference=inference)
    count = len(judged.clustered.scores)
    return JointModel(shape[0] - 1, cells, no_slope, count, judged)


def _log_lengths(
    tokens: ArrayLike | None, cells: Codes, languages: NDArray[np.str_]
) -> tuple[Floats | None, str]:
    """log(tokens) around its mean; or None, with the reason, where it hardly varies inside any cell."""
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
        told = ", ".join(f"{name} {mean:.0f}" for name, mean in means.items())
        reason += f"; differences between languages include that of their mean lengths ({told})"
    return None, reason


@dataclass(frozen=True, slots=True, eq=False)
class LanguageEffects:
    """value ~ position × plan + log(tokens) over mixed plans, clustered by set.

    Two languages are compared in the documents that consist of just these two, one of them leading and the other one:
    at each position the first language in one plan minus the second in the other, with equal weights for positions.

    Attributes:
        plans: in order of appearance.
        model: with a company for each language that a segment is beside, so that its cells are those of each plan.
    """

    plans: tuple[Plan, ...]
    model: JointModel

    @property
    def languages(self) -> tuple[str, ...]:
        """In order of appearance."""
        return tuple(dict.fromkeys(language for plan in self.plans for language in plan))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The languages that lead each other; a difference is that of the first minus that of the second."""
        there = set(self.plans)
        return tuple(
            pair for pair in combinations(self.languages, 2) if {pair, pair[::-1]} <= there
        )

    def differences(self, role: Role = "") -> Intervals:
        """One for each pair."""
        return self.model.robust.contrasts(self._differences(role))

    def compared(self) -> Compared:
        """Every pair over all positions. The verdict names the favoured language of the worst pair first."""
        return Compared(
            self.model.robust, self._differences(""), self.pairs, self.model.sets, either_way=True
        )

    def role(self, language: str, role: Role) -> tuple[tuple[str, ...], dict[str, Interval]] | None:
        """A language where it leads others or follows them; None where it never does.

        Returns:
            the languages beside it, and means over these with equal weights: its `own`, that of the `others` in the
            same documents, and the `gap` between position 1 and later positions of these documents.
        """
        own_side, other_side = (0, 1) if role == "lead" else (1, 0)
        plans = [plan for plan in self.plans if plan[own_side] == language]
        if not plans:
            return None
        first = np.mean([self._mean(lead, later, "lead") for lead, later in plans], axis=0)
        rest = np.mean([self._mean(later, lead, "later") for lead, later in plans], axis=0)
        own, others = (first, rest) if role == "lead" else (rest, first)
        found = self.model.robust.contrasts(np.stack([own, others, first - rest]))
        return tuple(plan[other_side] for plan in plans), {
            "own": found[0],
            "others": found[1],
            "gap": found[2],
        }

    def _differences(self, role: Role) -> Floats:
        """Weights of each pair on the coefficients of the model."""
        return np.stack(
            [self._mean(one, two, role) - self._mean(two, one, role) for one, two in self.pairs]
        )

    def _mean(self, language: str, other: str, role: Role) -> Floats:
        """Weights of the mean of a language over the positions of a role, beside another language."""
        first, last = {
            "lead": (1, 1),
            "later": (2, self.model.positions),
            "": (1, self.model.positions),
        }[role]
        rows = [self.model.weights((place, language, other)) for place in range(first, last + 1)]
        return np.asarray(np.mean(rows, axis=0))


def language_effects(
    values: ArrayLike,
    positions: ArrayLike,
    plans: tuple[ArrayLike, Sequence[Plan]],
    sets: ArrayLike,
    tokens: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> LanguageEffects:
    """Fit the model of mixed documents.

    Args:
        plans: numbers, and the plan that each of them is.
        tokens: lengths of segments; None compares languages as they are, whatever their lengths.
        segments: as in `joint_model`.
    """
    codes, named = np.asarray(plans[0]), plans[1]
    spoken = list(dict.fromkeys(language for plan in named for language in plan))
    lead, later = (np.array([spoken.index(plan[side]) for plan in named])[codes] for side in (0, 1))
    first = np.asarray(positions) == 1
    languages, beside = (
        np.array(spoken)[np.where(first, lead, later)],
        (np.where(first, later, lead), spoken),
    )
    model = joint_model(
        values, positions, languages, sets, tokens, segments, companies=beside, inference=inference
    )
    return LanguageEffects(tuple(named), model)
