"""The tables of an audit: verdicts, unevenness, coefficients, and what each treatment changes."""

from __future__ import annotations

from collections.abc import Sequence

from fairspan.report.numbers import finite
from fairspan.report.tables.coefficients import (
    MEANING,
    Coefficient,
    coefficients_of,
    legend,
    paired_layout,
    plain_layout,
)
from fairspan.report.tables.comparison import comparison_tables
from fairspan.report.tables.named import NamedTable, Record
from fairspan.report.tables.table import Column, Row, Table
from fairspan.report.tables.text import interval, model_name
from fairspan.studies.audit.comparison import Side, compare_sides
from fairspan.studies.audit.summary import Cell, Summary


def audit_tables(summary: Summary, *, digits: int = 3, changes: bool = True) -> list[NamedTable]:
    """All tables of an audit, verdicts first; none where no position was measured.

    Args:
        changes: whether to compare treatments document by document, which takes about as long as half a summary.
    """
    if not summary.cells:
        return []
    found = [verdict_table(summary)]
    for measure in summary.measures:
        found.append(unevenness_table(summary, measure, digits=digits))
        found += coefficient_tables(summary, measure, digits=digits)
    return [*found, *(change_tables(summary, digits=digits) if changes else [])]


def verdict_table(summary: Summary) -> NamedTable:
    """The verdict on each treatment in words; in the records that on every family of documents."""
    rows = [
        Row((measure, name), (summary.worst(measure, name).verdict.kind, _reason(summary.sentence(measure, name))))
        for measure in summary.measures
        for name in summary.treatments(measure)
    ]
    columns = (Column("verdict", align="left"), Column("in words", align="wrap"))
    title = f"Verdicts on {model_name(summary.log.model)}"
    table = Table(title, ("measure", "treatment"), columns, tuple(rows), grouped=1, notes=tuple(summary.notes))
    return NamedTable("verdicts", table, tuple(_verdict_record(summary, cell) for cell in summary.cells))


def unevenness_table(summary: Summary, measure: str, *, digits: int = 3) -> NamedTable:
    """How far positions differ, in every family of documents under every treatment."""
    cells = sorted(
        (cell for cell in summary.cells if cell.measure == measure),
        key=lambda cell: (_plans(summary).index(cell.plan), cell.n, summary.log.treatments.index(cell.treatment)),
    )
    rows = [
        Row(
            (cell.plan, str(cell.n), cell.treatment),
            (
                interval(cell.secondary.spread, digits),
                interval(cell.secondary.gini, digits),
                interval(cell.secondary.psi, digits),
                cell.verdict.kind,
            ),
        )
        for cell in cells
    ]
    names = ("spread [95 %]", "Gini [95 %]", "PSI [95 %]")
    columns = (*(Column(name) for name in names), Column("verdict", align="left"))
    notes = (
        "spread: largest minus smallest position mean; PSI: 1 − smallest/largest; Gini: of the position means",
        f"verdict: on differences between positions within ±{cells[0].verdict.margin:g}",
    )
    title = f"Unevenness of {measure} between positions ({model_name(summary.log.model)})"
    table = Table(title, ("plan", "n", "treatment"), columns, tuple(rows), grouped=2, notes=notes)
    return NamedTable(f"{measure}-unevenness", table, tuple(_unevenness_record(summary, cell) for cell in cells))


def coefficient_tables(summary: Summary, measure: str, *, digits: int = 3) -> list[NamedTable]:
    """IRF's tables of a run: plain ones, then each treatment (c.) beside the first one (uc.).

    Documents in one language stand in one table, and mixed ones in a table for each language of the later segments. A
    run of one plan has all treatments in one plain table.
    """
    found = coefficients_of(summary, measure)
    treatments = summary.treatments(measure)
    settings = _settings(found)
    tables = []
    for setting, suffix, own in settings:
        if len({one.plan for one in found}) == 1:
            tables.append(_plain(f"{measure}-coefficients", summary, setting, own, digits))
            continue
        for name in treatments:
            part = [one for one in own if one.treatment == name]
            if part:
                stem = f"{measure}-coefficients-{name}{suffix}"
                tables.append(_plain(stem, summary, f"{setting}, {name}", part, digits))
    baseline, *others = treatments
    for name in others:
        for setting, suffix, own in settings:
            part = [one for one in own if one.treatment in (baseline, name)]
            if len({one.treatment for one in part}) == 2:
                stem = f"{measure}-calibrated-{name}{suffix}"
                model = model_name(summary.log.model)
                title = f"OLS coefficients of {measure} ({setting}, {model}, {name} beside {baseline})"
                notes = (f"c.: {name}; uc.: {baseline}", *_notes(part))
                table = paired_layout(part, title, name, baseline, notes=notes, digits=digits)
                tables.append(NamedTable(stem, table, tuple(one.to_record() for one in part)))
    return tables


def change_tables(summary: Summary, *, digits: int = 3) -> list[NamedTable]:
    """What each treatment does to the spread between positions, against the first on the same documents."""
    treatments = [name for name in summary.log.treatments if any(cell.treatment == name for cell in summary.cells)]
    sides = [Side(summary.log, name) for name in treatments]
    found = [one for side in sides[1:] for one in compare_sides(sides[0], side)]
    return comparison_tables(found, positions=False, digits=digits) if found else []


def _plain(name: str, summary: Summary, setting: str, found: Sequence[Coefficient], digits: int) -> NamedTable:
    title = f"OLS coefficients of {found[0].measure} ({setting}, {model_name(summary.log.model)})"
    table = plain_layout(found, title, notes=_notes(found), digits=digits)
    return NamedTable(name, table, tuple(one.to_record() for one in found))


def _settings(found: Sequence[Coefficient]) -> list[tuple[str, str, list[Coefficient]]]:
    """What the documents are, what a table's name ends in, and the coefficients: first one language, then mixed."""
    settings = []
    alone = [one for one in found if one.lead == one.later]
    if alone:
        languages = dict.fromkeys(one.lead for one in alone)
        settings.append(("monolingual" if len(languages) > 1 else next(iter(languages)), "", alone))
    for later in dict.fromkeys(one.later for one in found if one.lead != one.later):
        mixed = [one for one in found if one.later == later and one.lead != later]
        settings.append((f"mixed-language, later segments in {later}", f"-mixed-{later}", mixed))
    return settings


def _notes(found: Sequence[Coefficient]) -> tuple[str, ...]:
    kinds = ", ".join(sorted({str(one.inference) for one in found}))
    sets = sorted({one.sets for one in found if one.sets is not None})
    counted = f"{sets[0]}" if len(sets) == 1 else f"{sets[0]} to {sets[-1]}"
    return MEANING, *legend(found), f"sets: {counted}; inference: {kinds}"


def _plans(summary: Summary) -> list[str]:
    return list(dict.fromkeys(cell.plan for cell in summary.cells))


def _reason(sentence: str) -> str:
    """A verdict's sentence without its first word where that stands beside it."""
    for kind in ("biased", "inconclusive"):
        sentence = sentence.removeprefix(f"{kind}: ").removeprefix(f"{kind} ")
    return sentence


def _family(summary: Summary, cell: Cell) -> dict[str, str | int]:
    return {
        "model": summary.log.model,
        "measure": cell.measure,
        "treatment": cell.treatment,
        "plan": cell.plan,
        "lead": cell.lead,
        "later": cell.later,
        "n": cell.n,
        "sets": cell.effects.clusters,
        "documents": cell.documents,
    }


def _verdict_record(summary: Summary, cell: Cell) -> Record:
    verdict = cell.verdict
    return {
        **_family(summary, cell),
        "verdict": verdict.kind,
        "margin": verdict.margin,
        "position": verdict.position,
        "against": verdict.against,
        "estimate": finite(verdict.estimate),
        "low": finite(verdict.low),
        "high": finite(verdict.high),
        "sets_needed": verdict.sets_needed,
        "sentence": verdict.sentence(),
    }


def _unevenness_record(summary: Summary, cell: Cell) -> Record:
    ends = {
        f"{name}{end}": finite(getattr(getattr(cell.secondary, name), field))
        for name in ("spread", "gini", "psi", "first_second", "first_last")
        for end, field in (("", "estimate"), ("_low", "low"), ("_high", "high"))
    }
    joint = finite(cell.effects.joint.p_value)
    return {
        **_family(summary, cell),
        **ends,
        "gini_p": finite(cell.secondary.gini_p),
        "joint_p": joint,
        "verdict": cell.verdict.kind,
    }
