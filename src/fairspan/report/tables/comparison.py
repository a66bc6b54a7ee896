"""Two treatments or two runs on the same documents, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from fairspan.report.beside_published import Beside
from fairspan.report.numbers import finite
from fairspan.report.tables.coefficients import marked, symbol
from fairspan.report.tables.named import NamedTable, Record
from fairspan.report.tables.table import Column, Row, Table
from fairspan.report.tables.text import bounds, model_name, number, p_value
from fairspan.stats.bootstrap import Interval
from fairspan.studies.audit.comparison import Comparison

SHARED = "sets share segments; p allows for it, the interval of the change resamples sets and does not"


def comparison_tables(found: Sequence[Comparison], *, positions: bool = True, digits: int = 3) -> list[NamedTable]:
    """For each measure the spread between positions before and after, and where asked every coefficient."""
    tables = []
    for measure in dict.fromkeys(one.measure for one in found):
        own = _by_plan([one for one in found if one.measure == measure])
        tables.append(_spreads(own, digits))
        if positions:
            tables.append(_positions(own, digits))
    return tables


def beside_table(beside: Sequence[Beside], model: str, *, digits: int = 3) -> NamedTable:
    """Measured coefficients beside the published ones."""
    rows = [
        Row(
            (one.measure, one.treatment, one.plan, str(one.n), symbol(one.position)),
            (
                marked(one.measured, one.marker, digits),
                bounds(Interval(one.measured, one.low, one.high), digits),
                (one.printed + one.published_marker).replace("-", "−"),
                str(one.table),
                "yes" if one.agrees else "no",
            ),
        )
        for one in beside
    ]
    columns = tuple(Column(name) for name in ("measured", "95 %", "published", "table", "agrees"))
    agreeing = sum(one.agrees for one in beside)
    notes = (
        *dict.fromkeys(one.note for one in beside if one.note),
        f"agrees: the interval reaches what was printed, rounding included; {agreeing} of {len(beside)} do",
    )
    heads = ("measure", "treatment", "plan", "n", "")
    title = f"Measured and published coefficients ({model_name(model)})"
    table = Table(title, heads, columns, tuple(rows), grouped=4, notes=notes)
    records = [{"model": model, **one.to_dict()} for one in beside]
    return NamedTable("beside-published", table, tuple(records))


def _spreads(found: Sequence[Comparison], digits: int) -> NamedTable:
    measure = found[0].measure
    rows = []
    for one in found:
        before, after = one.spreads
        change = one.paired.spread
        shown = f"{number(after - before, digits, sign=True)} {bounds(change, digits, sign=True)}"
        cells = (str(one.documents), number(before, digits), number(after, digits), shown)
        rows.append(Row((_sides(one), one.plan, str(one.n)), (*cells, p_value(one.paired.joint.p_value))))
    columns = tuple(Column(name) for name in ("documents", "before", "after", "change [95 %]", "p"))
    title = f"Spread of {measure} between positions, on the same documents ({_models(found[0])})"
    notes = ["p: of the test that no difference from position 1 has changed", *_notes(found)]
    table = Table(title, ("treatment", "plan", "n"), columns, tuple(rows), grouped=2, notes=tuple(notes))
    return NamedTable(f"{measure}-changes", table, tuple(_spread_record(one) for one in found))


def _positions(found: Sequence[Comparison], digits: int) -> NamedTable:
    measure = found[0].measure
    rows, records = [], []
    for one in found:
        first, second, paired = one.paired.first, one.paired.second, one.paired
        for place in range(one.n):
            # β0 is the mean at position 1; the others have their own differences.
            contrast, at = (paired.means, 0) if place == 0 else (paired.effects, place - 1)
            ends = Interval(float(contrast.estimate[at]), float(contrast.low[at]), float(contrast.high[at]))
            p = float(contrast.p_value[at])
            cells = (
                number(float(first.estimate[place]), digits),
                number(float(second.estimate[place]), digits),
                f"{number(ends.estimate, digits, sign=True)} {bounds(ends, digits, sign=True)}",
                p_value(p),
            )
            rows.append(Row((_sides(one), one.plan, str(one.n), symbol(place + 1)), cells))
            records.append(
                {
                    **_family(one),
                    "position": place + 1,
                    "first": finite(first.estimate[place]),
                    "second": finite(second.estimate[place]),
                    "change": finite(ends.estimate),
                    "standard_error": finite(contrast.standard_error[at]),
                    "low": finite(ends.low),
                    "high": finite(ends.high),
                    "p_value": finite(p),
                }
            )
    columns = tuple(Column(name) for name in ("before", "after", "change [95 %]", "p"))
    title = f"Changes of the coefficients of {measure}, on the same documents ({_models(found[0])})"
    heads = ("treatment", "plan", "n", "")
    table = Table(title, heads, columns, tuple(rows), grouped=3, notes=tuple(_notes(found)))
    return NamedTable(f"{measure}-coefficient-changes", table, tuple(records))


def _by_plan(found: Sequence[Comparison]) -> list[Comparison]:
    """By sides and then by plan, each in the order of their first."""
    sides = list(dict.fromkeys(_sides(one) for one in found))
    plans = list(dict.fromkeys(one.plan for one in found))
    return sorted(found, key=lambda one: (sides.index(_sides(one)), plans.index(one.plan), one.n))


def _sides(one: Comparison) -> str:
    same = one.first.treatment == one.second.treatment
    return one.first.treatment if same else f"{one.first.treatment} → {one.second.treatment}"


def _models(one: Comparison) -> str:
    first, second = (model_name(side.log.model) for side in (one.first, one.second))
    return first if first == second else f"{first} → {second}"


def _notes(found: Sequence[Comparison]) -> list[str]:
    one = found[0]
    across = one.first.log.run != one.second.log.run
    notes = [f"before: {one.first.log.run}; after: {one.second.log.run}"] if across else []
    return [*notes, *([SHARED] if any(one.paired.inference == "two-way" for one in found) else [])]


def _family(one: Comparison) -> dict[str, str | int]:
    sides = {
        f"{which}_{what}": value
        for which, side in (("first", one.first), ("second", one.second))
        for what, value in side.to_dict().items()
    }
    plan = {"plan": one.plan, "lead": one.lead, "later": one.later}
    counts = {"n": one.n, "documents": one.documents, "sets": one.paired.clusters}
    return {"measure": one.measure, **sides, **plan, **counts}


def _spread_record(one: Comparison) -> Record:
    before, after = one.spreads
    return {
        **_family(one),
        "first_spread": before,
        "second_spread": after,
        "change": after - before,
        "low": finite(one.paired.spread.low),
        "high": finite(one.paired.spread.high),
        "joint_p": finite(one.paired.joint.p_value),
        "inference": one.paired.inference,
    }
