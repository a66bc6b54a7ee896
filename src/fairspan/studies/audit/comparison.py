"""Two treatments on the same documents, from one run or from two."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.sides import Side
from fairspan.stats.contrasts import Contrasts
from fairspan.stats.effects import spread
from fairspan.stats.languages import LanguageEffects
from fairspan.stats.paired import PairedComparison, absolute_change, compare
from fairspan.studies.audit.family import Family, with_codes
from fairspan.studies.audit.languages import MIXED, effects_of, plans_of
from fairspan.studies.audit.words import POSITION_MEASURES

_FAMILY = ["measure", "n", "lead", "later"]
# A document is the same in two runs if it has the same segments at the same positions.
_PLACE = ["set", "order", "position", "segment", "language"]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Family):
    """Two sides on the documents of one family that both have."""

    first: Side
    second: Side
    documents: int
    paired: PairedComparison

    @property
    def spreads(self) -> tuple[float, float]:
        """Of the means of the positions that are compared, on the first side and on the second."""
        sides = (self.paired.first, self.paired.second)
        first, second = (float(spread(one.means.estimate[self.first_compared - 1 :])) for one in sides)
        return first, second


def compare_sides(first: Side, second: Side, *, familywise: bool = False) -> list[Comparison]:
    """Second minus first, for every family of documents that both have.

    With `familywise`, all intervals of a measure hold together at 95 % (Bonferroni), for a claim about the worst.
    """
    joined = _joined(first, second)
    parts = with_codes(joined, "segment").partition_by(_FAMILY, as_dict=True, maintain_order=True)
    compared = [family[0] for family in parts if Family(*family).comparisons] if familywise else []
    families = Counter(compared)
    found = []
    for (measure, n, lead, later), rows in parts.items():
        rng = np.random.default_rng(int(first.log.header["seed"]))
        one, two, positions, sets = (rows[name].to_numpy() for name in ("value", "value_second", "position", "set"))
        segments = rows["segment"].to_numpy()
        inference = str(first.log.spec["inference"])
        family = Family(measure, n, lead, later)
        # Without any comparison there are means only, whatever the spread and its test are.
        against = family.first_compared if family.comparisons else 1
        level = 1 - 0.05 / max(1, families[measure])
        paired = compare(
            one, two, positions, sets, segments, rng=rng, inference=inference, level=level, against=against
        )
        found.append(Comparison(measure, n, lead, later, first, second, rows["document"].n_unique(), paired))
    return found


def _joined(first: Side, second: Side) -> pl.DataFrame:
    """The rows that both sides have."""
    before, after = _rows(first), _rows(second)
    joined = before.join(after, on=_FAMILY + _PLACE, suffix="_second", maintain_order="left")
    if joined.is_empty():
        raise LogError(
            f"{first} and {second} have no document in common: paired differences need the same corpus, languages, "
            "sizes, design and seed."
        )
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class LanguageComparison:
    """Two sides on the mixed documents of one size that both have.

    Attributes:
        before, after: the languages on the first side and on the second.
        change: of the difference of each pair.
        absolute: of its absolute value: negative where the second side is fairer. The signs of both are taken as
            known, so the interval is too narrow where a difference is no larger than its own error.
    """

    measure: str
    n: int
    first: Side
    second: Side
    documents: int
    before: LanguageEffects
    after: LanguageEffects
    change: Contrasts
    absolute: Contrasts


def compare_languages(first: Side, second: Side, *, familywise: bool = False) -> list[LanguageComparison]:
    """Second minus first, for the mixed documents of every size that both have, where two languages are compared.

    `familywise` as in `compare_sides`.
    """
    joined = _joined(first, second).filter(MIXED)
    parts = with_codes(joined, "segment").partition_by("measure", "n", as_dict=True, maintain_order=True)
    plans = {group: plans_of(part) for group, part in parts.items()}
    pairs = Counter({group: sum(plan[::-1] in found for plan in found) // 2 for group, found in plans.items()})
    found = []
    for group, rows in parts.items():
        if not pairs[group]:
            continue
        measure, n = group
        together = sum(count for (other, _), count in pairs.items() if other == measure) if familywise else 1
        level = 1 - 0.05 / together
        one, two = (rows[name].to_numpy() for name in ("value", "value_second"))
        how: dict[str, Any] = {
            "inference": str(first.log.spec["inference"]),
            "seed": int(first.log.header["seed"]),
        }
        effects = [effects_of(rows, values, plans[group], **how) for values in (one, two, two - one, two + one)]
        before, after = effects[:2]
        change, total = (one.differences(level=level) for one in effects[2:])
        absolute = absolute_change(before.differences().estimate, after.differences().estimate, change, total)
        documents = rows.height // n
        found.append(LanguageComparison(measure, n, first, second, documents, before, after, change, absolute))
    return found


def _rows(side: Side) -> pl.DataFrame:
    measured = pl.col("measure").is_in(list(POSITION_MEASURES))
    return side.log.rows.filter(measured & (pl.col("treatment") == side.treatment))
