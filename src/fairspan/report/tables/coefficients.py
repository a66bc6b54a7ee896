"""Coefficients in IRF's layout: sizes and positions down, languages across; alone, or calibrated beside not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from fairspan.errors import LogError
from fairspan.report.numbers import finite
from fairspan.report.tables.named import Record
from fairspan.report.tables.table import Column, Row, Table
from fairspan.stats.positions import marker
from fairspan.studies.audit.summary import Cell, Summary

MARKERS = ("◇ p < 0.01", "□ p < 0.05", "• not significant")
LEGEND = f"p < 0.001 unless marked: {', '.join(MARKERS)}"
MEANING = "β0: the mean at position 1; βp: the difference of position p from it; n: segments in a document"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One coefficient, measured or printed somewhere; what is not known of it is None.

    Attributes:
        position: 1 for β0, the mean at position 1; otherwise of βp, the difference from it.
        marker: the sign of its p value.
    """

    model: str
    measure: str
    treatment: str
    lead: str
    later: str
    n: int
    position: int
    estimate: float
    marker: str
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    inference: str | None = None
    sets: int | None = None
    documents: int | None = None

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"

    def to_record(self) -> Record:
        """A tidy row."""
        fields = asdict(self)
        fields["coefficient"] = symbol(self.position)
        order = ("model", "measure", "treatment", "plan", "lead", "later", "n", "position", "coefficient", "estimate")
        fields["plan"] = self.plan
        return {name: fields[name] for name in (*order, *(name for name in fields if name not in order))}


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
    return marked(estimate, marker(p_value), digits)


def marked(estimate: float, sign: str, digits: int = 2) -> str:
    """An estimate with a marker that is known already."""
    return f"{estimate:.{digits}f}".replace("-", "−") + sign


def symbol(position: int) -> str:
    """β0, β2, β3, …"""
    return f"β{0 if position == 1 else position}"


def coefficient_table(summary: Summary, measure: str) -> CoefficientTable:
    """The coefficients of one measure of a run."""
    cells = [cell for cell in summary.cells if cell.measure == measure]
    plans = list(dict.fromkeys(cell.plan for cell in cells))
    treatments = summary.treatments(measure)
    columns = tuple((plan, treatment) for plan in plans for treatment in treatments)
    rows = _places(cell.n for cell in cells)
    found = {(cell.n, cell.plan, cell.treatment): cell for cell in cells}
    values = tuple(
        tuple(_value(found.get((n, plan, treatment)), position) for plan, treatment in columns)
        for n, position in rows
    )
    return CoefficientTable(measure, columns, rows, values)


def coefficients_of(summary: Summary, measure: str) -> list[Coefficient]:
    """Every coefficient of one measure of a run, cell by cell."""
    model = summary.log.model
    return [
        _coefficient(model, cell, position)
        for cell in summary.cells
        if cell.measure == measure
        for position in range(1, cell.n + 1)
    ]


def plain_layout(
    found: Sequence[Coefficient], title: str, *, notes: Sequence[str] = (), digits: int = 2, words: bool = True
) -> Table:
    """A column for each plan, as in Tables 1–15; for each treatment where there is one plan and several of these.

    Args:
        words: whether rows say what they compare, as in "β2 (2 vs. 1)".
    """
    plans = list(dict.fromkeys(one.plan for one in found))
    treatments = list(dict.fromkeys(one.treatment for one in found))
    if len(plans) == 1:
        columns = {(plans[0], name): Column(name) for name in treatments}
    else:
        several = len(treatments) > 1
        columns = {
            (plan, name): Column(name, heading(plan)) if several else Column(heading(plan))
            for plan in plans
            for name in treatments
        }
    return _lay_out(found, columns, title, notes, digits, words)


def paired_layout(
    found: Sequence[Coefficient],
    title: str,
    treatment: str,
    baseline: str,
    *,
    notes: Sequence[str] = (),
    digits: int = 2,
) -> Table:
    """Two columns for each plan, calibrated (c.) and uncalibrated (uc.), as in Tables 16–19."""
    there = {one.treatment for one in found}
    for name in (treatment, baseline):
        if name not in there:
            raise LogError(f"there are no coefficients of {name!r}, only of {', '.join(sorted(there))}.")
    plans = dict.fromkeys(one.plan for one in found)
    columns = {
        (plan, name): Column(short, heading(plan))
        for plan in plans
        for name, short in ((treatment, "c."), (baseline, "uc."))
    }
    return _lay_out(found, columns, title, notes, digits, words=False)


def heading(plan: str) -> str:
    """A plan as it stands over a column: a language, or that of the first segment before that of the later ones.

    >>> heading("zh:en")
    '[zh, en, ..., en]'
    """
    lead, _, later = plan.partition(":")
    return f"[{lead}, {later}, ..., {later}]" if later else lead


def legend(found: Iterable[Coefficient]) -> list[str]:
    """What the markers mean that occur; nothing is said of those that do not."""
    there = {one.marker for one in found}
    used = [meaning for meaning in MARKERS if meaning[0] in there]
    return [f"p < 0.001 unless marked: {', '.join(used)}" if used else "p < 0.001 for all"]


def _lay_out(
    found: Sequence[Coefficient],
    columns: dict[tuple[str, str], Column],
    title: str,
    notes: Sequence[str],
    digits: int,
    words: bool,
) -> Table:
    texts = {
        (one.n, one.position, one.plan, one.treatment): marked(one.estimate, one.marker, digits) for one in found
    }
    rows = [
        Row((str(n), _name(position, words)), tuple(texts.get((n, position, *column), "") for column in columns))
        for n, position in _places(one.n for one in found)
    ]
    return Table(title, ("n", ""), tuple(columns.values()), tuple(rows), grouped=1, notes=tuple(notes))


def _name(position: int, words: bool) -> str:
    if not words:
        return symbol(position)
    return f"{symbol(position)} ({'Intercept' if position == 1 else f'{position} vs. 1'})"


def _places(sizes: Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple((n, position) for n in sorted(set(sizes)) for position in range(1, n + 1))


def _coefficient(model: str, cell: Cell, position: int) -> Coefficient:
    effects, place = cell.effects, position - 1
    return Coefficient(
        model=model,
        measure=cell.measure,
        treatment=cell.treatment,
        lead=cell.lead,
        later=cell.later,
        n=cell.n,
        position=position,
        estimate=float(effects.estimate[place]),
        marker=marker(float(effects.p_value[place])),
        standard_error=finite(effects.standard_error[place]),
        degrees_of_freedom=finite(effects.degrees_of_freedom[place]),
        low=finite(effects.low[place]),
        high=finite(effects.high[place]),
        p_value=finite(effects.p_value[place]),
        inference=effects.inference,
        sets=effects.clusters,
        documents=cell.documents,
    )


def _value(cell: Cell | None, position: int) -> tuple[float, float] | None:
    if cell is None:
        return None
    return float(cell.effects.estimate[position - 1]), float(cell.effects.p_value[position - 1])
