"""Measured coefficients beside the published ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fairspan.errors import LogError
from fairspan.published.coefficients import PublishedCoefficient, published_coefficients, published_model
from fairspan.stats.positions import marker
from fairspan.studies.audit.summary import Cell, Summary


@dataclass(frozen=True, slots=True)
class Beside:
    """One coefficient, as measured and as published."""

    measure: str
    treatment: str
    plan: str
    n: int
    position: int
    measured: float
    low: float
    high: float
    marker: str
    published: float
    printed: str
    published_marker: str
    table: int
    note: str

    @property
    def agrees(self) -> bool:
        """Whether the interval of the measured one reaches what was printed, rounding included."""
        half = 0.5 * 10.0 ** -len(self.printed.partition(".")[2])
        return self.low - half <= self.published <= self.high + half

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def beside_published(summary: Summary, like: str | None = None) -> list[Beside]:
    """Every coefficient of a run that the tables have as well, under the calibration they used.

    Args:
        like: the tables' model to compare with, where the run's own is not among theirs.
    """
    model = published_model(like or summary.log.model)
    table = _index(model)
    names = {treatment["name"]: _published_treatment(treatment) for treatment in summary.log.spec["treatments"]}
    found = []
    for cell in summary.cells:
        for position in range(1, cell.n + 1):
            printed = table.get((cell.measure, names[cell.treatment], cell.plan, cell.n, position))
            if printed is not None:
                p_value = float(cell.effects.p_value[position - 1])
                found.append(_beside(cell, position, marker(p_value), printed))
    if not found:
        raise LogError(
            f"the published tables of {model} have none of this run's cells: they have n = 3 to 6, the treatments "
            "none and 128-last_half, and the languages en, zh, de, it, ko, hi."
        )
    return found


def _index(model: str) -> dict[tuple[str, str | None, str, int, int], PublishedCoefficient]:
    """The first table that has a number wins."""
    index: dict[tuple[str, str | None, str, int, int], PublishedCoefficient] = {}
    for printed in published_coefficients():
        if printed.model == model:
            key = (printed.measure, printed.treatment, printed.plan, printed.n, printed.position)
            index.setdefault(key, printed)
    return index


def _published_treatment(treatment: dict[str, Any]) -> str | None:
    """The tables' name of a treatment; None if they have none like it."""
    if treatment.get("baseline"):
        return None
    fields = dict(treatment["calibration"])
    if fields["strength"] == 0 and fields["temperature"] == 1:
        return "none"
    plain = (fields["strength"], fields["temperature"], fields["sides"], fields["short_texts"]) == (
        1,
        1,
        "both",
        "calibrate",
    )
    own = (fields["bos"], fields["eos"], fields["rows"]) == ("auto", "auto", "auto")
    return f"{fields['basket_size']}-{fields['layers']}" if plain and own else None


def _beside(cell: Cell, position: int, mark: str, printed: PublishedCoefficient) -> Beside:
    effects, place = cell.effects, position - 1
    return Beside(
        measure=cell.measure,
        treatment=cell.treatment,
        plan=cell.plan,
        n=cell.n,
        position=position,
        measured=float(effects.estimate[place]),
        low=float(effects.low[place]),
        high=float(effects.high[place]),
        marker=mark,
        published=printed.estimate,
        printed=printed.printed,
        published_marker=printed.marker,
        table=printed.table,
        note=printed.note,
    )
