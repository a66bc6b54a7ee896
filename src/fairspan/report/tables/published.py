"""The published tables, rebuilt from the published numbers by what lays out measured ones."""

from __future__ import annotations

from collections.abc import Sequence

from fairspan.errors import LogError
from fairspan.published.coefficients import SOURCE, PublishedCoefficient, published_coefficients
from fairspan.report.tables.coefficients import (
    MEANING,
    Coefficient,
    heading,
    legend,
    paired_layout,
    plain_layout,
    symbol,
)
from fairspan.report.tables.named import NamedTable
from fairspan.report.tables.table import Table


def published_table(number: int) -> Table:
    """One of IRF's Tables 1–19."""
    return published_named(number).table


def published_named(number: int) -> NamedTable:
    """One of IRF's Tables 1–19, with its numbers; they have no errors there."""
    printed = [one for one in published_coefficients() if one.table == number]
    if not printed:
        numbers = sorted({one.table for one in published_coefficients()})
        raise LogError(f"there is no published table {number!r}, only {numbers[0]} to {numbers[-1]}.")
    found = [_coefficient(one) for one in printed]
    first = printed[0]
    alone = all(one.lead == one.later for one in found)
    setting = "monolingual" if alone else f"mixed-language, later segments in {first.later}"
    title = f"OLS coefficients of {first.measure} ({setting}, {first.model}), published as Table {number}"
    said = _remarks(printed)
    treatments = list(dict.fromkeys(one.treatment for one in found))
    if len(treatments) == 1:
        notes = [MEANING, *legend(found), *said, SOURCE]
        table = plain_layout(found, title, notes=notes)
    else:
        [treatment] = [name for name in treatments if name != "none"]
        unmarked = "printed without signs of significance"
        notes = [f"c.: {treatment}; uc.: none", MEANING, unmarked, *said, SOURCE]
        table = paired_layout(found, title, treatment, "none", notes=notes)
    return NamedTable(f"published-table-{number}", table, tuple(one.to_record() for one in found))


def _remarks(printed: Sequence[PublishedCoefficient]) -> list[str]:
    """What is remarked of single numbers, and of which."""
    remarks = []
    for note in dict.fromkeys(one.note for one in printed if one.note):
        where = [
            f"{heading(one.plan)} n={one.n} {symbol(one.position)}{'' if one.treatment == 'none' else ' c.'}"
            for one in printed
            if one.note == note
        ]
        remarks.append(f"{'; '.join(where)}: {note}")
    return remarks


def _coefficient(printed: PublishedCoefficient) -> Coefficient:
    return Coefficient(
        model=printed.model,
        measure=printed.measure,
        treatment=printed.treatment,
        lead=printed.lead,
        later=printed.later,
        n=printed.n,
        position=printed.position,
        estimate=printed.estimate,
        marker=printed.marker,
    )
