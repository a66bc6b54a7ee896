"""An audit on a page: verdicts, profiles that switch between treatments, the heat map, attention and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairspan.report.numbers import finite
from fairspan.report.page.charts import Chart, Series, domain_of, point
from fairspan.report.page.sections import Card, Group, HeatMap, Section, Tone, heat_map
from fairspan.report.tables.audit import audit_tables
from fairspan.report.tables.text import interval, number, p_value
from fairspan.stats.bootstrap import Interval
from fairspan.studies.audit.summary import Cell, Summary

TONES: dict[str, Tone] = {"fair": "good", "biased": "bad", "inconclusive": "open"}
TITLES = {"representation": "How well each position is represented", "retention": "How much each position retains"}
INTROS = {
    "representation": (
        "Bars are the mean cosine between a document's vector and the vector of each of its segments alone, with "
        "95 % intervals; in a fair embedding they are level. Below each position stands the"
        " mean length of the segments there, in tokens."
    ),
    "retention": (
        "Bars are the mean cosine between a segment's vector inside the document (late chunking) and its vector "
        "alone, with 95 % intervals."
    ),
}


@dataclass(frozen=True, slots=True)
class Audited:
    """A summary with the name under which its treatments stand on the page; empty where there is one run only."""

    summary: Summary
    label: str = ""

    def name(self, treatment: str) -> str:
        return f"{self.label}: {treatment}" if self.label else treatment

    @property
    def treatments(self) -> list[str]:
        summary = self.summary
        return list(dict.fromkeys(name for measure in summary.measures for name in summary.treatments(measure)))


def switch_of(audits: Sequence[Audited]) -> tuple[str, ...]:
    """What the page's switch offers."""
    return tuple(one.name(treatment) for one in audits for treatment in one.treatments)


def cards(summary: Summary) -> tuple[Card, ...]:
    """The verdict on every treatment, measure by measure."""
    found = []
    for measure in summary.measures:
        for name in summary.treatments(measure):
            kind = summary.worst(measure, name).verdict.kind
            sentence = summary.sentence(measure, name).removeprefix(f"{kind}: ")
            title = name if len(summary.measures) == 1 else f"{name} · {measure}"
            spreads = [cell.secondary.spread.estimate for cell in summary.of(measure, name)]
            means = [cell.mean for cell in summary.of(measure, name)]
            detail = f"spread between positions {_range(spreads)}, mean {_range(means)}"
            found.append(Card(title, kind, TONES[kind], (sentence, detail)))
    return tuple(found)


def profile_section(audits: Sequence[Audited], measure: str) -> Section:
    """Profiles by size and language plan, and the heat map."""
    switch = switch_of(audits)
    families = list(
        dict.fromkeys((cell.n, cell.plan) for one in audits for cell in one.summary.cells if cell.measure == measure)
    )
    sizes = sorted({n for n, _ in families})
    made = {
        family: [
            _series(one, cell, switch)
            for one in audits
            for cell in one.summary.cells
            if (cell.measure, cell.n, cell.plan) == (measure, *family)
        ]
        for family in families
    }
    domain = domain_of(made.values(), zero=True)
    groups = tuple(
        Group(
            f"Documents of {n} segments" if len(sizes) > 1 else "",
            tuple(_chart(audits, measure, family, made[family], domain) for family in families if family[0] == n),
            large=len([family for family in families if family[0] == n]) < 3,
        )
        for n in sizes
    )
    heat = tuple(found for n in sizes if (found := _heat(audits, measure, n, switch)) is not None)
    return Section(TITLES.get(measure, f"{measure.capitalize()} by position"), INTROS.get(measure, ""), groups, heat)


def table_section(summary: Summary) -> Section:
    """The coefficients in the papers' layout, and the rest on demand."""
    tables = [named.table for named in audit_tables(summary) if named.name != "verdicts"]
    first = [table for table in tables if "oefficient" in table.title][:1]
    return Section("Tables", "", tables=tuple(first), folded=tuple(t for t in tables if t not in first))


def _series(one: Audited, cell: Cell, switch: Sequence[str]) -> Series:
    name = one.name(cell.treatment)
    means = cell.effects.means
    points = []
    for p in range(cell.n):
        mean = Interval(means.estimate[p], means.low[p], means.high[p])
        lines = [f"{name}, position {p + 1}", interval(mean)]
        if p:
            effects = cell.effects
            beside = Interval(effects.estimate[p], effects.low[p], effects.high[p])
            lines.append(f"against position 1: {interval(beside, sign=True)}, p {p_value(effects.p_value[p])}")
        lines.append(f"{cell.tokens[p]:.0f} tokens on average, {cell.documents:,} documents")
        points.append(point(mean, "\n".join(lines)))
    return Series(name, switch.index(name), tuple(points))


def _chart(
    audits: Sequence[Audited],
    measure: str,
    family: tuple[int, str],
    series: list[Series],
    domain: tuple[float, float],
) -> Chart:
    n, plan = family
    cell = next(
        cell
        for one in audits
        for cell in one.summary.cells
        if (cell.measure, cell.n, cell.plan) == (measure, n, plan)
    )
    return Chart(
        "bars",
        plan,
        f"n = {n}, {cell.effects.clusters} sets, {cell.documents:,} documents",
        "position in the document",
        f"{measure} (cosine)",
        tuple(str(p) for p in range(1, n + 1)),
        tuple(series),
        domain,
        background=tuple(round(length, 1) for length in cell.tokens),
    )


def _heat(audits: Sequence[Audited], measure: str, n: int, switch: Sequence[str]) -> HeatMap | None:
    """Position × language, with the effect of length taken out where the joint model could be fitted.

    None where there is one language only.
    """
    places = [f"position {p}" for p in range(1, n + 1)]
    for title, rows, found in (
        (f"{measure} by position and language, n = {n}, at the mean length of a segment", "language", _joint_means),
        (f"{measure} by position and language plan, n = {n}", "plan", _plain_means),
    ):
        table: dict[str, list[list[float | None]]] = {}
        for one in audits:
            for treatment, name, position, mean in found(one.summary, measure, n):
                cells = table.setdefault(name, [[None] * len(switch) for _ in places])
                cells[position - 1][switch.index(one.name(treatment))] = finite(mean)
        if len(table) > 1:
            return heat_map(title, rows, places, list(table.items()))
    return None


def _joint_means(summary: Summary, measure: str, n: int) -> Iterator[tuple[str, str, int, float]]:
    for joint in summary.joint:
        if (joint.measure, joint.n) == (measure, n) and joint.model is not None:
            for position, language in joint.model.cells:
                yield joint.treatment, language, position, joint.model.mean((position, language)).estimate


def _plain_means(summary: Summary, measure: str, n: int) -> Iterator[tuple[str, str, int, float]]:
    for cell in summary.cells:
        if (cell.measure, cell.n) == (measure, n):
            for position, mean in enumerate(cell.effects.means.estimate, start=1):
                yield cell.treatment, cell.plan, position, float(mean)


def _range(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"
