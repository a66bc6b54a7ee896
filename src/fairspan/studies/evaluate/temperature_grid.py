"""`TemperatureGrid`: what a search finds at every pair of a query's and a document's temperature (LC Fig. 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fairspan.report.text import number, with_bounds
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary

SIDES = ("query", "document")


@dataclass(frozen=True, slots=True)
class GridCell:
    """The metric at one pair of temperatures, and its change from (1, 1) on the same queries; None for (1, 1).

    The p value of the change is adjusted by Holm for all arms of the evaluation.
    """

    query: float
    document: float
    arm: Arm
    value: Interval
    change: Interval | None
    p_value: float

    @property
    def settled(self) -> str:
        """ "gain" or "loss" where the interval of the change does not hold 0, else empty."""
        if self.change is None or not (self.change.low > 0 or self.change.high < 0):
            return ""
        return "gain" if self.change.low > 0 else "loss"


@dataclass(frozen=True, slots=True)
class TemperatureGrid:
    """One metric of `base` at every pair of temperatures, from 1 downwards, by the query's, then the document's."""

    base: Arm
    metric: str
    temperatures: tuple[float, ...]
    cells: tuple[GridCell, ...]

    def cell(self, query: float, document: float) -> GridCell:
        return next(one for one in self.cells if (one.query, one.document) == (query, document))

    def row(self, query: float) -> tuple[GridCell, ...]:
        """One temperature of queries with every one of documents."""
        return tuple(self.cell(query, document) for document in self.temperatures)

    @property
    def sides(self) -> dict[str, tuple[GridCell, ...]]:
        """The cells in which one side keeps temperature 1, and those in which both have the same."""
        return {
            "document side only": self.row(1.0),
            "query side only": tuple(self.cell(value, 1.0) for value in self.temperatures),
            "both sides": tuple(self.cell(value, value) for value in self.temperatures),
        }

    @property
    def treatments(self) -> frozenset[str]:
        """The treatments that the grid added to the evaluation."""
        return frozenset(one.arm.treatment for one in self.cells if one.change is not None)

    def verdict(self) -> tuple[str, str, Interval | None]:
        """The kind of advice, one sentence on whether any pair is better than (1, 1), and the change of the best."""
        # Of equal values the pair nearest to (1, 1).
        best = max(self.cells, key=lambda one: (one.value.estimate, one.query + one.document))
        gains = [one for one in self.cells if one.p_value < 0.05 and one.settled == "gain"]
        losses = [one for one in self.cells if one.settled == "loss"]
        lost = f"; for {len(losses)} of {len(self.cells) - 1} pairs the interval is below 0" if losses else ""
        if gains:
            chosen = max(gains, key=lambda one: one.value.estimate)
            sentence = f"query {chosen.query:g}, document {chosen.document:g}: {self._gain(chosen)}{lost}"
            return "use", sentence, chosen.change
        if best.change is None:
            return "leave", f"keep both at 1: no pair finds more{lost}", None
        sentence = (
            f"no pair is better beyond chance: the best, query {best.query:g}, document {best.document:g}, has "
            f"{self._gain(best)}{lost}"
        )
        return "more data", sentence, best.change

    def _gain(self, cell: GridCell) -> str:
        means = " → ".join(number(one.value.estimate) for one in (self.cell(1.0, 1.0), cell))
        return f"{self.metric} {means} ({with_bounds(cell.change, '+.3f')})"


def temperature_grid(summary: RetrievalSummary) -> TemperatureGrid | None:
    """The grid that an evaluation was asked for; None if there was none."""
    values = tuple(float(value) for value in summary.log.spec.get("temperature_grid", ()))
    if not values:
        return None
    base = summary.baseline
    named = {**_pairs(summary.log.spec["treatments"], values), (1.0, 1.0): base.treatment}
    cells = []
    for query, document in product(values, repeat=2):
        result = summary.result(Arm(named[query, document], base.index))
        value, change = result.effects.overall, result.overall_change
        cells.append(GridCell(query, document, result.arm, value, change, result.p_value))
    return TemperatureGrid(base, summary.metrics[0], values, tuple(cells))


def _pairs(treatments: list[Mapping[str, Any]], values: tuple[float, ...]) -> dict[tuple[float, float], str]:
    """The treatments that are the first one at a pair of temperatures."""
    first = _but_temperature(treatments[0])
    found: dict[tuple[float, float], str] = {}
    for one in treatments[1:]:
        sides = one["calibration"]["temperature"]
        if isinstance(sides, Mapping) and set(sides) == set(SIDES) and _but_temperature(one) == first:
            query, document = (sides[side] for side in SIDES)
            if query in values and document in values:
                found.setdefault((float(query), float(document)), str(one["name"]))
    return found


def _but_temperature(treatment: Mapping[str, Any]) -> dict[str, Any]:
    calibration = {name: value for name, value in treatment["calibration"].items() if name != "temperature"}
    return {**treatment, "name": None, "calibration": calibration}
