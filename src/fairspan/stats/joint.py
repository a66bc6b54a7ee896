"""`JointModel`: position, language and length in one model, which is what tells them apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Codes, Floats, Groups, as_positions, as_values, group, require_same_length
from fairspan.stats.contrasts import Contrast, Contrasts, JointTest, Robust, robust
from fairspan.stats.ols import merge

Cell = tuple[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class AveragedEffect:
    """The effect of one factor averaged over the levels of the other.

    Attributes:
        names: what each contrast compares with the baseline: positions 2…n, or languages.
        baseline: position 1, or the first language.
        over: the levels averaged over: only those at which the factor is complete, each with the same weight.
        contrasts: one for each name.
        test: that all of them are 0.
    """

    names: tuple[int | str, ...]
    baseline: int | str
    over: tuple[int | str, ...]
    contrasts: Contrasts
    test: JointTest


@dataclass(frozen=True, slots=True, eq=False)
class JointModel:
    """value ~ position × language + log(tokens), clustered by set.

    The coefficients are the means of the occupied cells at the mean log length, and then the slope. Cells without
    rows are left out of the model; what would need them is refused by name.

    Attributes:
        positions: n.
        languages: in alphabetical order.
        cells: the occupied (position, language) pairs, in the order of the coefficients.
        missing: the empty ones.
        has_slope: whether token lengths were given.
    """

    positions: int
    languages: tuple[str, ...]
    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    has_slope: bool
    robust: Robust = field(repr=False)
    level: float = 0.95

    @property
    def inference(self) -> str:
        return self.robust.inference

    def contrast(self, first: Cell, second: Cell) -> Contrast:
        """First cell minus second at the same length: ((3, "en"), (3, "de")) is English against German at 3."""
        return self.robust.contrast(self._cell(first) - self._cell(second), self.level)

    def mean(self, cell: Cell) -> Contrast:
        """The mean of one cell at the mean log length."""
        return self.robust.contrast(self._cell(cell), self.level)

    def slope(self) -> Contrast:
        """The change of value with one unit of log(tokens)."""
        if not self.has_slope:
            raise StatisticsError("the model was fitted without token lengths: there is no slope.")
        return self.robust.contrast(self._unit(len(self.cells)), self.level)

    def position_effect(self) -> AveragedEffect:
        """Positions 2…n against position 1, averaged over the languages that occur at every position."""
        numbers = range(1, self.positions + 1)
        cells = [[(p, language) for language in self.languages] for p in numbers]
        why = "the position effect averaged over languages is not estimable: no language occurs at every position"
        return self._averaged(numbers, self.languages, cells, why)

    def language_effect(self) -> AveragedEffect:
        """Every language against the first, averaged over the positions at which all languages occur."""
        if len(self.languages) < 2:
            raise StatisticsError(
                f"the language effect is not estimable: {self.languages[0]!r} is the only language."
            )
        numbers = range(1, self.positions + 1)
        cells = [[(p, language) for p in numbers] for language in self.languages]
        why = "the language effect averaged over positions is not estimable: at no position do all languages occur"
        return self._averaged(self.languages, numbers, cells, why)

    def _averaged(
        self, names: Sequence[int | str], others: Sequence[int | str], cells: list[list[Cell]], why: str
    ) -> AveragedEffect:
        """Names against the first, over those others for which every cell [names, others] is occupied."""
        complete = [place for place in range(len(others)) if all(row[place] in self.cells for row in cells)]
        if not complete:
            raise StatisticsError(f"{why} (missing: {self._missing_words()}).")
        means = [np.mean([self._cell(row[place]) for place in complete], axis=0) for row in cells]
        weights = np.stack([mean - means[0] for mean in means[1:]])
        over = tuple(others[place] for place in complete)
        contrasts = self.robust.contrasts(weights, self.level)
        return AveragedEffect(tuple(names[1:]), names[0], over, contrasts, self.robust.joint(weights))

    def _cell(self, cell: Cell) -> Floats:
        if cell in self.cells:
            return self._unit(self.cells.index(cell))
        position, language = cell
        if cell in self.missing:
            raise StatisticsError(
                f"not estimable: language {language!r} never occurs at position {position} (missing: "
                f"{self._missing_words()})."
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
        return ", ".join(f"{language!r} at {position}" for position, language in self.missing) or "none"


def joint_model(
    values: ArrayLike,
    positions: ArrayLike,
    languages: ArrayLike,
    sets: ArrayLike,
    tokens: ArrayLike | None = None,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
    level: float = 0.95,
    rng: np.random.Generator | None = None,
    draws: int = 9999,
) -> JointModel:
    """Fit value ~ position × language + log(tokens), clustered by set.

    `tokens` are the segments' lengths; `segments`, `inference`, `rng` and `draws` are those of `position_effects`.
    """
    column, (numbers, count), groups = as_values(values), as_positions(positions), group(sets)
    spoken = [str(language) for language in np.asarray(languages).tolist()]
    others = None if segments is None else group(segments)
    require_same_length(values=len(column), positions=len(numbers), languages=len(spoken), sets=len(groups.codes))
    names, codes = (found.tolist() for found in np.unique(spoken, return_inverse=True))
    occupied, columns = np.unique((numbers - 1) * len(names) + codes, return_inverse=True)
    logs = None if tokens is None else _log_lengths(tokens, columns)
    known = [others, None if logs is None else group(logs)]
    merged = merge(Groups(columns, len(occupied)), groups, *(one for one in known if one is not None))
    design = np.zeros((len(merged.weights), len(occupied)))
    design[np.arange(len(design)), columns[merged.first]] = 1
    labels = [(p, name) for p in range(1, count + 1) for name in names]
    cells = tuple(labels[code] for code in occupied)
    headings = [f"position {p} × {language}" for p, language in cells]
    if logs is not None:
        design = np.column_stack([design, logs[merged.first]])
        headings.append("log(tokens)")
    fitted = merged.fit(column, design, headings)
    kept = None if others is None else merged.labels(others)
    return JointModel(
        positions=count,
        languages=tuple(names),
        cells=cells,
        missing=tuple(label for label in labels if label not in cells),
        has_slope=tokens is not None,
        robust=robust(fitted, merged.labels(groups), kept, inference=inference, rng=rng, draws=draws),
        level=level,
    )


def _log_lengths(tokens: ArrayLike, cells: Codes) -> Floats:
    """log(tokens) around its mean."""
    lengths = as_values(tokens, "tokens")
    require_same_length(values=len(cells), tokens=len(lengths))
    if lengths.min() <= 0:
        raise StatisticsError(f"tokens must be positive, got {lengths.min()}.")
    logs: Floats = np.log(lengths)
    cell_means = np.bincount(cells, weights=logs) / np.bincount(cells)
    if np.abs(logs - cell_means[cells]).max() <= 1e-9:
        raise StatisticsError(
            "token lengths do not vary inside any position × language cell, so their slope is not estimable: "
            "omit tokens."
        )
    centred: Floats = logs - logs.mean()
    return centred
