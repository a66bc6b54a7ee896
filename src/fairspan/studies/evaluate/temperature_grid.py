"""`TemperatureGrid`: what a search finds at every pair of a query's and a document's temperature (LC Fig. 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairspan.report.text import finite
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary, interval_dict

SIDES = ("query", "document")


@dataclass(frozen=True, slots=True)
class GridCell:
    """One pair of temperatures.

    Attributes:
        value: the metric.
        change: against (1, 1), query by query; None for that pair itself.
        p_value: of that change, adjusted by Holm for all arms of the evaluation; None for (1, 1).
    """

    query: float
    document: float
    arm: Arm
    value: Interval
    change: Interval | None
    p_value: float | None

    @property
    def settled(self) -> str:
        """ "gain" or "loss" where the interval of the change does not hold 0, else empty."""
        if self.change is None or not (self.change.low > 0 or self.change.high < 0):
            return ""
        return "gain" if self.change.low > 0 else "loss"

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "document": self.document,
            "treatment": self.arm.treatment,
            "value": interval_dict(self.value),
            "change": None if self.change is None else interval_dict(self.change),
            "p_value": None if self.p_value is None else finite(self.p_value),
        }


@dataclass(frozen=True, slots=True)
class TemperatureGrid:
    """One metric at every pair of temperatures.

    Attributes:
        base: the treatment that the temperatures are set on; it is the cell (1, 1).
        temperatures: from 1 downwards, the same for both sides.
        cells: by the query's temperature, then by the document's.
    """

    model: str
    task: str
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
    def queries_only(self) -> tuple[GridCell, ...]:
        """Documents as they come, queries at every temperature."""
        return tuple(self.cell(value, 1.0) for value in self.temperatures)

    @property
    def documents_only(self) -> tuple[GridCell, ...]:
        """Queries as they come, documents at every temperature."""
        return self.row(1.0)

    @property
    def both(self) -> tuple[GridCell, ...]:
        """The same temperature on both sides."""
        return tuple(self.cell(value, value) for value in self.temperatures)

    @property
    def arms(self) -> frozenset[Arm]:
        """The arms that the grid added to the evaluation."""
        return frozenset(one.arm for one in self.cells if one.change is not None)

    @property
    def best(self) -> GridCell:
        """The highest value; of equal ones the pair nearest to (1, 1)."""
        return max(self.cells, key=lambda one: (one.value.estimate, one.query + one.document))

    def verdict(self) -> str:
        """One sentence: whether any pair is better than the model as it comes, beyond what chance gives."""
        best = self.best
        gains = [
            one for one in self.cells if one.p_value is not None and one.p_value < 0.05 and one.settled == "gain"
        ]
        losses = [one for one in self.cells if one.settled == "loss"]
        lost = f"; with {len(losses)} of {len(self.cells) - 1} pairs the interval lies below 0" if losses else ""
        if gains:
            chosen = max(gains, key=lambda one: one.value.estimate)
            return f"use query {chosen.query:g}, document {chosen.document:g}: {_told(self, chosen)}{lost}"
        if best.change is None:
            return f"leave both at 1: no pair finds more{lost}"
        return (
            f"no pair is better beyond chance: the best, query {best.query:g}, document {best.document:g}, has "
            f"{_told(self, best)}{lost}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "base": self.base.treatment,
            "index": self.base.index,
            "metric": self.metric,
            "temperatures": list(self.temperatures),
            "verdict": self.verdict(),
            "cells": [one.to_dict() for one in self.cells],
        }


def temperature_grid(summary: RetrievalSummary) -> TemperatureGrid | None:
    """The grid that an evaluation was asked for; None if there was none."""
    values = tuple(float(value) for value in summary.log.spec.get("temperature_grid", ()))
    if not values:
        return None
    metric, base = summary.metrics[0], summary.baseline
    named = _pairs(summary.log.spec["treatments"], values)
    cells = []
    for query in values:
        for document in values:
            name = base.treatment if (query, document) == (1.0, 1.0) else named[query, document]
            arm = Arm(name, base.index)
            change = summary.change(arm, metric)
            cells.append(
                GridCell(
                    query,
                    document,
                    arm,
                    summary.result(arm, metric).effects.overall,
                    None if change is None else change.change.overall,
                    None if change is None else change.p_value,
                )
            )
    task = str(summary.log.header["task"]["source"])
    return TemperatureGrid(summary.log.model, task, base, metric, values, tuple(cells))


def _pairs(treatments: list[Mapping[str, Any]], values: tuple[float, ...]) -> dict[tuple[float, float], str]:
    """The treatments that are the first one at a pair of temperatures."""
    first = _but_temperature(treatments[0])
    found: dict[tuple[float, float], str] = {}
    for one in treatments[1:]:
        sides = one["calibration"]["temperature"]
        if isinstance(sides, Mapping) and set(sides) == set(SIDES) and _but_temperature(one) == first:
            pair = tuple(sides[side] for side in SIDES)
            if all(value in values for value in pair):
                found.setdefault((float(pair[0]), float(pair[1])), str(one["name"]))
    return found


def _but_temperature(treatment: Mapping[str, Any]) -> dict[str, Any]:
    calibration = {name: value for name, value in treatment["calibration"].items() if name != "temperature"}
    return {**treatment, "name": None, "calibration": calibration}


def _told(grid: TemperatureGrid, cell: GridCell) -> str:
    assert cell.change is not None
    before, change = grid.cell(1.0, 1.0).value.estimate, cell.change
    words = f"{grid.metric} {before:.3f} → {cell.value.estimate:.3f} ({change.estimate:+.3f}"
    words += f" [{change.low:+.3f}, {change.high:+.3f}])" if change.low == change.low else ")"
    return words.replace("-", "−")
