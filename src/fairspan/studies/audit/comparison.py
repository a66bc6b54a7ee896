"""Two treatments on the same documents, from one run or from two."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.sides import Side
from fairspan.stats.effects import spread
from fairspan.stats.paired import PairedComparison, compare
from fairspan.studies.audit.family import Family, with_codes
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
        """Of the position means, on the first side and on the second."""
        first, second = (float(spread(one.means.estimate)) for one in (self.paired.first, self.paired.second))
        return first, second


def compare_sides(first: Side, second: Side, *, familywise: bool = False) -> list[Comparison]:
    """Second minus first, for every family of documents that both have.

    With `familywise`, all intervals of a measure hold together at 95 % (Bonferroni), for a claim about the worst.
    """
    before, after = _rows(first), _rows(second)
    joined = before.join(after, on=_FAMILY + _PLACE, suffix="_second", maintain_order="left")
    if joined.is_empty():
        raise LogError(
            f"{first} and {second} have no document in common: paired differences need the same corpus, languages, "
            "sizes, design and seed."
        )
    parts = with_codes(joined, "segment").partition_by(_FAMILY, as_dict=True, maintain_order=True)
    families = Counter(measure for measure, *_ in parts) if familywise else {}
    found = []
    for (measure, n, lead, later), rows in parts.items():
        rng = np.random.default_rng(int(first.log.header["seed"]))
        one, two, positions, sets = (rows[name].to_numpy() for name in ("value", "value_second", "position", "set"))
        segments = rows["segment"].to_numpy()
        inference = str(first.log.spec["inference"])
        level = 1 - 0.05 / families.get(measure, 1)
        paired = compare(one, two, positions, sets, segments, rng=rng, inference=inference, level=level)
        found.append(Comparison(measure, n, lead, later, first, second, rows["document"].n_unique(), paired))
    return found


def _rows(side: Side) -> pl.DataFrame:
    measured = pl.col("measure").is_in(list(POSITION_MEASURES))
    return side.log.rows.filter(measured & (pl.col("treatment") == side.treatment))
