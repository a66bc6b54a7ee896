"""`JointModel`: position, language and length in one model, which is what tells them apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Codes, Floats, Groups, as_positions, as_values, group, require_same_length
from fairspan.stats.contrasts import Contrast, Contrasts, JointTest, Robust, robust
from fairspan.stats.ols import merge

Cell = tuple[int, str] | tuple[int, str, str]
"""A position and a language, and their company where the model knows of any."""

# The least standard deviation of log(tokens) inside cells. Below it, one token in fifty, what doubling does would be
# extrapolated from single tokens.
LEAST_DEVIATION = 0.02


Level = tuple[int | str, str]
"""A position or a language, with its company."""


@dataclass(frozen=True, slots=True, eq=False)
class AveragedEffect:
    """The effect of one factor averaged over the levels of the other.

    Attributes:
        names: what each contrast compares with the baseline: positions 2…n, or languages.
        baseline: position 1, or the first language.
        over: for each name the levels averaged over, each with the same weight: those at which it and the baseline
            both occur.
        contrasts: one for each name.
        test: that all of them are 0.
        refused: names that never occur together with the baseline.
    """

    names: tuple[int | str, ...]
    baseline: int | str
    over: tuple[tuple[Level, ...], ...]
    contrasts: Contrasts
    test: JointTest
    refused: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class JointModel:
    """value ~ position × language × company + log(tokens), clustered by set.

    The company of a row is what else its document consists of, as far as that matters: a segment that alone is in
    its language is not compared with one among others in the same language. The coefficients are the means of the
    occupied cells at the mean log length, and then the slope. Cells without rows are left out of the model; what
    would need them is refused by name.

    Attributes:
        positions: n.
        languages: in alphabetical order.
        cells: the occupied (position, language, company) triples, in the order of the coefficients.
        missing: the pairs of position and language that do not occur.
        no_slope: why there is no slope of log(tokens); empty if there is.
    """

    positions: int
    languages: tuple[str, ...]
    cells: tuple[tuple[int, str, str], ...]
    missing: tuple[tuple[int, str], ...]
    no_slope: str
    robust: Robust = field(repr=False)
    level: float = 0.95

    @property
    def inference(self) -> str:
        return self.robust.inference

    @property
    def companies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(company for _, _, company in self.cells))

    def contrast(self, first: Cell, second: Cell) -> Contrast:
        """First cell minus second at the same length: ((3, "en"), (3, "de")) is English against German at 3."""
        return self.robust.contrast(self.cell_weights(first) - self.cell_weights(second), self.level)

    def mean(self, cell: Cell) -> Contrast:
        """The mean of one cell at the mean log length."""
        return self.robust.contrast(self.cell_weights(cell), self.level)

    def slope(self) -> Contrast:
        """The change of value with one unit of log(tokens)."""
        if self.no_slope:
            raise StatisticsError(f"there is no slope: {self.no_slope}.")
        return self.robust.contrast(self._unit(len(self.cells)), self.level)

    def position_effect(self) -> AveragedEffect:
        """Positions 2…n against position 1, each averaged over the languages that occur at both."""
        numbers = range(1, self.positions + 1)
        others = [(language, company) for company in self.companies for language in self.languages]
        cells = [[(p, *other) for other in others] for p in numbers]
        why = "the position effect averaged over languages is not estimable: no language occurs at every position"
        return self._averaged(numbers, others, cells, why)

    def language_effect(self) -> AveragedEffect:
        """Every language against the first, averaged over the positions at which both occur."""
        if len(self.languages) < 2:
            raise StatisticsError(
                f"the language effect is not estimable: {self.languages[0]!r} is the only language."
            )
        others = [(p, company) for company in self.companies for p in range(1, self.positions + 1)]
        cells = [[(p, language, company) for p, company in others] for language in self.languages]
        why = "the language effect averaged over positions is not estimable: at no position do all languages occur"
        return self._averaged(self.languages, others, cells, why)

    def _averaged(
        self,
        names: Sequence[int | str],
        others: Sequence[Level],
        cells: list[list[tuple[int, str, str]]],
        why: str,
    ) -> AveragedEffect:
        """Each name against the first, over those others for which both cells of [names, others] are occupied."""
        weights, over = {}, []
        for name, row in zip(names[1:], cells[1:], strict=True):
            pairs = list(zip(row, cells[0], others, strict=True))
            found = [(one, base, other) for one, base, other in pairs if {one, base} <= set(self.cells)]
            if found:
                weights[name] = np.mean(
                    [self.cell_weights(one) - self.cell_weights(base) for one, base, _ in found], axis=0
                )
                over.append(tuple(other for *_, other in found))
        if not weights:
            beside = " in the same company" if len(self.companies) > 1 else ""
            raise StatisticsError(f"{why}{beside} ({self._missing_words() or self._company_words()}).")
        rows = np.stack([*weights.values()])
        contrasts, test = self.robust.contrasts(rows, self.level), self.robust.joint(rows)
        refused = tuple(name for name in names[1:] if name not in weights)
        return AveragedEffect(tuple(weights), names[0], tuple(over), contrasts, test, refused)

    def cell_weights(self, cell: Cell) -> Floats:
        """The weights [K] of the mean of one cell on the coefficients."""
        position, language, *company = cell
        wanted = (position, language, company[0] if company else "")
        if wanted in self.cells:
            return self._unit(self.cells.index(wanted))
        if wanted[:2] in self.missing:
            raise StatisticsError(
                f"not estimable: language {language!r} never occurs at position {position} ({self._missing_words()})."
            )
        raise StatisticsError(
            f"there is no position {position!r} with language {language!r}: positions are 1 to {self.positions}, "
            f"languages {', '.join(map(repr, self.languages))}."
        )

    def _unit(self, index: int) -> Floats:
        unit = np.zeros(len(self.robust.clustered.coefficients))
        unit[index] = 1
        return unit

    def _missing_words(self) -> str:
        listed = ", ".join(f"{language!r} at {position}" for position, language in self.missing)
        return f"missing: {listed}" if listed else ""

    def _company_words(self) -> str:
        places = {one: sorted({p for p, _, company in self.cells if company == one}) for one in self.companies}
        return "; ".join(f"{one} at {', '.join(map(str, positions))}" for one, positions in places.items() if one)


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
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    draws: int = 9999,
) -> JointModel:
    """Fit value ~ position × language × company + log(tokens), clustered by set.

    `tokens` are the segments' lengths. Where they hardly vary inside the cells, the model has no slope and says why.
    `companies` are numbers and what each of them is called. `segments`, `inference`, `rng` and `draws` are those of
    `position_effects`.
    """
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(sets)
    spoken = np.asarray(languages).astype(str)
    company, company_names = (np.zeros(len(spoken), np.int8), [""]) if companies is None else companies
    company = np.asarray(company)
    others = None if segments is None else group(segments)
    require_same_length(
        values=len(column),
        positions=len(numbers),
        languages=len(spoken),
        companies=len(company),
        sets=len(groups.codes),
    )
    names, codes = np.unique(spoken, return_inverse=True)
    kinds, kind = np.unique(company, return_inverse=True)
    occupied, columns = np.unique(((numbers - 1) * len(names) + codes) * len(kinds) + kind, return_inverse=True)
    found = [company_names[int(one)] for one in kinds]
    labels = [(p, str(name), one) for p in range(1, count + 1) for name in names for one in found]
    cells = tuple(labels[code] for code in occupied)
    logs, no_slope = _log_lengths(tokens, columns, spoken)
    known = [others, None if logs is None else group(logs)]
    merged = merge(Groups(columns, len(occupied)), groups, *(one for one in known if one is not None))
    design = np.zeros((len(merged.weights), len(occupied)))
    design[np.arange(len(design)), columns[merged.first]] = 1
    headings = [f"position {p} × {language}" + (f" × {one}" if one else "") for p, language, one in cells]
    if logs is not None:
        design = np.column_stack([design, logs[merged.first]])
        headings.append("log(tokens)")
    fitted = merged.fit(column, design, headings)
    kept = None if others is None else merged.labels(others)
    there = {cell[:2] for cell in cells}
    return JointModel(
        positions=count,
        languages=tuple(map(str, names)),
        cells=cells,
        missing=tuple(label for label in dict.fromkeys(one[:2] for one in labels) if label not in there),
        no_slope=no_slope,
        robust=robust(fitted, merged.labels(groups), kept, inference=inference, rng=rng, draws=draws),
        level=level,
    )


def _log_lengths(tokens: ArrayLike | None, cells: Codes, languages: NDArray[np.str_]) -> tuple[Floats | None, str]:
    """log(tokens) around its mean; or None, with the reason, where it hardly varies inside any cell."""
    if tokens is None:
        return None, "the model was fitted without token lengths"
    lengths = as_values(tokens, "tokens")
    require_same_length(values=len(cells), tokens=len(lengths))
    if lengths.min() <= 0:
        raise StatisticsError(f"tokens must be positive, got {lengths.min()}.")
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
