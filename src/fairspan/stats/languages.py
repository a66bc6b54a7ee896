"""Two languages in the same mixed documents, in both orders (`LanguageEffects`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.stats.arrays import Codes, Floats, Groups
from fairspan.stats.equivalence import Compared
from fairspan.stats.estimates import Estimates
from fairspan.stats.jackknife import Fit, fit

Condition = tuple[int, str, str]
"""A position, the language of its segment, and the other language of the document."""
LeadLater = tuple[str, str]
"""The language of the first segment of a document, and that of the others."""

# Of log(tokens) inside conditions. Below it, the effect of doubling a length would be extrapolated
# from single tokens.
LEAST_DEVIATION = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class LanguageEffects:
    """value ~ position × plan + log(tokens) over mixed plans, clustered by set.

    Two languages are compared in the documents that consist of just these two, in both orders: at
    each position the first language in one plan minus the second in the other. The coefficients are
    the means of the conditions that occur (`cells`), at the mean log length, and then the slope;
    `no_slope` is the reason if there is none.
    """

    plans: tuple[LeadLater, ...]
    positions: int
    cells: tuple[Condition, ...]
    no_slope: str
    fit: Fit

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Languages that occur in both orders; differences are the first minus the second."""
        languages = dict.fromkeys(language for plan in self.plans for language in plan)
        pairs = combinations(languages, 2)
        return tuple(pair for pair in pairs if {pair, pair[::-1]} <= set(self.plans))

    def differences(self) -> Estimates[Floats]:
        """One for each pair, over all positions."""
        means = [(self._mean(*pair), self._mean(*pair[::-1])) for pair in self.pairs]
        return self.fit.contrasts(np.stack([first - second for first, second in means]))

    def compared(self) -> Compared:
        """Every pair. The verdict names the favoured language first."""
        return Compared(self.differences(), self.pairs, self.fit.sets, either_way=True)

    def _mean(self, language: str, other: str) -> Floats:
        """Weights [K] of the mean of a language beside another, over all positions."""
        weights = np.zeros(len(self.fit.coefficients))
        for position in range(1, self.positions + 1):
            weights[self.cells.index((position, language, other))] = 1 / self.positions
        return weights


def language_effects(
    values: ArrayLike,
    positions: ArrayLike,
    plans: tuple[ArrayLike, Sequence[LeadLater]],
    sets: ArrayLike,
    tokens: ArrayLike,
    segments: ArrayLike | None = None,
    *,
    inference: str = "auto",
) -> LanguageEffects:
    """The effects on values[N] in mixed documents.

    `plans` are codes [N], and the plan of each code.
    """
    codes, named = plans
    numbers = np.asarray(positions)
    languages = list(dict.fromkeys(language for plan in named for language in plan))
    by_plan = np.array([[languages.index(language) for language in plan] for plan in named])
    # [N, 2]: the language of each row, and the other one of its document.
    both = by_plan[np.asarray(codes)]
    both = np.where(numbers[:, None] == 1, both, both[:, ::-1])
    shape = (int(numbers.max()) + 1, len(languages), len(languages))
    occupied, columns = np.unique(
        np.ravel_multi_index((numbers, *both.T), shape), return_inverse=True
    )
    cells = tuple(
        (int(position), languages[language], languages[other])
        for position, language, other in np.transpose(np.unravel_index(occupied, shape))
    )
    logs, no_slope = _log_lengths(tokens, columns, np.array(languages)[both[:, 0]])
    groups = Groups(columns, len(cells))
    fitted = fit(values, groups, sets, segments, logs, inference=inference)
    return LanguageEffects(tuple(named), shape[0] - 1, cells, no_slope, fitted)


def _log_lengths(
    tokens: ArrayLike, cells: Codes, languages: NDArray[np.str_]
) -> tuple[Floats | None, str]:
    """Centred log(tokens) [N]; or None, with the reason, if it hardly varies inside any cell."""
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
