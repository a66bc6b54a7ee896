"""Two treatments on the same documents, from one run or from two."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.report.text import finite
from fairspan.runs.log import RunLog
from fairspan.stats.codes import with_codes
from fairspan.stats.effects import spread
from fairspan.stats.paired import PairedComparison, compare
from fairspan.studies.audit.summary import POSITION_MEASURES

_FAMILY = ["measure", "n", "lead", "later"]
# A document is the same in two runs if the same segments stand in it at the same places.
_PLACE = ["set", "order", "position", "segment", "language"]


@dataclass(frozen=True, slots=True)
class Side:
    """One treatment of one run."""

    log: RunLog
    treatment: str

    def __str__(self) -> str:
        return f"{self.log.run}: {self.treatment}"

    def to_dict(self) -> dict[str, str]:
        return {"run": self.log.run, "model": self.log.model, "treatment": self.treatment}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides on the documents of one measure, size and language plan that both have."""

    first: Side
    second: Side
    measure: str
    n: int
    lead: str
    later: str
    documents: int
    paired: PairedComparison

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"

    @property
    def spreads(self) -> tuple[float, float]:
        """Of the position means, on the first side and on the second."""
        return (
            float(spread(self.paired.first.means.estimate)),
            float(spread(self.paired.second.means.estimate)),
        )

    def to_dict(self) -> dict[str, Any]:
        paired = self.paired
        before, after = self.spreads
        return {
            "first": {"run": self.first.log.run, "model": self.first.log.model, "treatment": self.first.treatment},
            "second": {
                "run": self.second.log.run,
                "model": self.second.log.model,
                "treatment": self.second.treatment,
            },
            "measure": self.measure,
            "n": self.n,
            "lead": self.lead,
            "later": self.later,
            "documents": self.documents,
            "sets": paired.clusters,
            "inference": paired.inference,
            "spread": {"first": before, "second": after, **_plain(asdict(paired.spread), ("low", "high"))},
            "means": _contrasts(paired.means, start=1),
            "effects": _contrasts(paired.effects, start=2),
            "absolute_effects": _contrasts(paired.absolute, start=2),
            "joint_test": _plain(asdict(paired.joint), ("statistic", "df1", "df2", "p_value")),
        }


def compare_sides(first: Side, second: Side) -> list[Comparison]:
    """Second minus first, for every family of documents that both have."""
    before, after = _rows(first), _rows(second)
    joined = before.join(after, on=_FAMILY + _PLACE, suffix="_second", maintain_order="left")
    if joined.is_empty():
        raise LogError(
            f"{first} and {second} have no document in common: paired differences need the same corpus, languages, "
            "sizes, design and seed."
        )
    joined = with_codes(joined, "segment")
    found = []
    for (measure, n, lead, later), rows in joined.partition_by(_FAMILY, as_dict=True, maintain_order=True).items():
        rng = np.random.default_rng(int(first.log.header["seed"]))
        one, two, positions, sets = (rows[name].to_numpy() for name in ("value", "value_second", "position", "set"))
        segments = rows["segment"].to_numpy()
        inference = str(first.log.spec["inference"])
        paired = compare(one, two, positions, sets, segments, rng=rng, inference=inference)
        found.append(Comparison(first, second, measure, n, lead, later, rows["document"].n_unique(), paired))
    return found


def sides_to_compare(first: RunLog, second: RunLog | None) -> list[tuple[Side, Side]]:
    """Within one run every treatment against its first; between two runs each treatment that both have."""
    if second is None:
        baseline, *others = _measured(first)
        if not others:
            raise LogError(
                f"the run {first.run} has one treatment, {baseline}: name a second run to compare it with."
            )
        return [(Side(first, baseline), Side(first, other)) for other in others]
    both = [name for name in _measured(first) if name in _measured(second)]
    if both:
        return [(Side(first, name), Side(second, name)) for name in both]
    if len(first.treatments) == len(second.treatments) == 1:
        return [(Side(first, first.treatments[0]), Side(second, second.treatments[0]))]
    raise LogError(
        f"the runs share no treatment ({', '.join(first.treatments)}; {', '.join(second.treatments)}): name one of "
        "each with --treatments."
    )


def _measured(log: RunLog) -> list[str]:
    """The treatments that have rows: of an interrupted run not all, nor those that were passed over."""
    there = set(log.rows["treatment"].unique().to_list())
    return [name for name in log.treatments if name in there]


def _rows(side: Side) -> pl.DataFrame:
    if side.treatment not in side.log.treatments:
        raise LogError(
            f"the run {side.log.run} has no treatment {side.treatment!r}, only {', '.join(side.log.treatments)}."
        )
    measured = pl.col("measure").is_in(list(POSITION_MEASURES))
    return side.log.rows.filter(measured & (pl.col("treatment") == side.treatment))


def _contrasts(contrasts: Any, start: int) -> list[dict[str, Any]]:
    names = ("estimate", "standard_error", "p_value", "low", "high")
    table = asdict(contrasts)
    return [
        {"position": start + i, **_plain({name: table[name][i] for name in names}, names)}
        for i in range(len(contrasts.estimate))
    ]


def _plain(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, float | None]:
    return {name: finite(values[name]) for name in names}
