"""Tables in the papers' layout: coefficients by size and language plan, with their markers."""

from __future__ import annotations

from dataclasses import dataclass

from fairspan.report.summary import Cell, Summary
from fairspan.stats.positions import marker

LEGEND = "p < 0.001 unless marked: ◇ p < 0.01, □ p < 0.05, • not significant"


@dataclass(frozen=True, slots=True)
class CoefficientTable:
    """Coefficients of one measure: a row for each size and position, a column for each plan and treatment.

    Attributes:
        columns: (plan, treatment) of each column.
        rows: (n, position) of each row; position 1 is β0, the mean there, all others are differences from it.
        values: [rows][columns], None where a size was not measured.
    """

    measure: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[int, int], ...]
    values: tuple[tuple[tuple[float, float] | None, ...], ...]
    """Each an estimate and its p value."""

    def cells(self, digits: int = 2) -> list[list[str]]:
        """What is printed: the estimate with its marker."""
        return [["" if value is None else show(*value, digits) for value in row] for row in self.values]


def show(estimate: float, p_value: float, digits: int = 2) -> str:
    """An estimate with its marker, as in IRF's tables."""
    return f"{estimate:.{digits}f}".replace("-", "−") + marker(p_value)


def coefficient_table(summary: Summary, measure: str) -> CoefficientTable:
    """The coefficients of one measure of a run."""
    cells = [cell for cell in summary.cells if cell.measure == measure]
    plans = list(dict.fromkeys(cell.plan for cell in cells))
    treatments = summary.treatments(measure)
    columns = tuple((plan, treatment) for plan in plans for treatment in treatments)
    sizes = sorted({cell.n for cell in cells})
    rows = tuple((n, position) for n in sizes for position in range(1, n + 1))
    found = {(cell.n, cell.plan, cell.treatment): cell for cell in cells}
    values = tuple(
        tuple(_value(found.get((n, plan, treatment)), position) for plan, treatment in columns)
        for n, position in rows
    )
    return CoefficientTable(measure, columns, rows, values)


def _value(cell: Cell | None, position: int) -> tuple[float, float] | None:
    if cell is None:
        return None
    return float(cell.effects.estimate[position - 1]), float(cell.effects.p_value[position - 1])
