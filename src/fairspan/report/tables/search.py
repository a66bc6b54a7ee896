"""The tables of an evaluation: advice, quality, quality by position and by length, and what each index costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fairspan.errors import StatisticsError
from fairspan.report.numbers import finite
from fairspan.report.tables.named import NamedTable, Record, Value
from fairspan.report.tables.table import Column, Row, Table
from fairspan.report.tables.text import bounds, interval, model_name, number, p_value
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.by_length import LengthGroup, by_length
from fairspan.studies.evaluate.summary import Arm, Change, Result, RetrievalSummary
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid

ARMS = "documents and queries"
TEST = "p: randomisation test over clusters of queries, Holm-corrected over the arms"


def search_tables(summary: RetrievalSummary) -> list[NamedTable]:
    """All tables of an evaluation, advice first."""
    found = [advice_table(summary)] if summary.advice else []
    for plan in summary.plans:
        found.append(quality_table(summary, plan))
        if summary.result(summary.baseline, summary.metrics[0], plan).groups:
            found.append(position_table(summary, plan))
    if summary.runs:
        found.append(runs_table(summary))
    found += length_group_tables(summary.log.model, _by_length(summary))
    if summary.log.header.get("costs"):
        found.append(cost_table(summary))
    return found


def advice_table(summary: RetrievalSummary) -> NamedTable:
    """What to do with each treatment."""
    rows = [Row((one.treatment,), (one.kind, one.sentence.partition(": ")[2])) for one in summary.advice]
    columns = (Column("advice", align="left"), Column("because", align="wrap"))
    title = f"What to do ({_where(summary)})"
    table = Table(title, ("treatment",), columns, tuple(rows), notes=tuple(summary.log.notes))
    records: list[Record] = [
        {"model": summary.log.model, "treatment": one.treatment, "advice": one.kind, "sentence": one.sentence}
        for one in summary.advice
    ]
    return NamedTable("advice", table, tuple(records))


def quality_table(summary: RetrievalSummary, plan: str = "") -> NamedTable:
    """Every arm over all queries: the first metric with its change, and the means of the others."""
    first, *others = summary.metrics
    positions = bool(summary.result(summary.baseline, first, plan).groups)
    columns = [Column(name, first) for name in ("mean", "change [95 %]", "p")]
    columns += [Column(name, first) for name in ("PSI", "harmonic")] if positions else []
    columns += [Column(metric) for metric in others]
    rows = []
    for arm in summary.arms:
        effects = summary.result(arm, first, plan).effects
        cells = [number(effects.overall.estimate), *_changed(summary.change(arm, first, plan))]
        cells += [number(effects.psi.estimate, 2), number(effects.harmonic.estimate)] if positions else []
        cells += [number(summary.result(arm, metric, plan).effects.overall.estimate) for metric in others]
        rows.append(Row((str(arm),), tuple(cells)))
    notes = [TEST] if len(summary.arms) > 1 else []
    if positions:
        notes.append(
            "PSI: 1 − smallest/largest mean of a position; harmonic: the harmonic mean of the positions' means"
        )
    table = Table(f"Search ({_where(summary, plan)})", (ARMS,), tuple(columns), tuple(rows), notes=tuple(notes))
    records = [
        _quality_record(summary, summary.result(arm, metric, plan))
        for arm in summary.arms
        for metric in summary.metrics
    ]
    return NamedTable("quality" + (f"-{plan}" if plan else ""), table, tuple(records))


def position_table(summary: RetrievalSummary, plan: str = "") -> NamedTable:
    """The first metric at each position of the evidence, with its change."""
    metric = summary.metrics[0]
    rows: list[Row] = []
    records: list[Record] = []
    for arm in summary.arms:
        for one in _groups(summary, summary.result(arm, metric, plan)):
            change = "" if one.change is None else interval(one.change, sign=True)
            cells = (str(one.queries), number(one.mean.estimate), bounds(one.mean), change)
            rows.append(Row((str(arm), one.name), cells))
        for name in summary.metrics:
            result = summary.result(arm, name, plan)
            records += [_group_record(summary, result, one) for one in _groups(summary, result)]
    where = summary.log.header["task"]["positions"]
    columns = (Column("queries"), Column("mean"), Column("95 %"), Column("change [95 %]"))
    heads = (ARMS, "segment" if where == "segments" else "fifth")
    title = f"{metric} by position of the evidence ({_where(summary, plan)})"
    table = Table(title, heads, columns, tuple(rows), grouped=1)
    return NamedTable("positions" + (f"-{plan}" if plan else ""), table, tuple(records))


def runs_table(summary: RetrievalSummary) -> NamedTable:
    """The first metric by how many tokens lie before the evidence."""
    names = list(dict.fromkeys(name for one in summary.runs for name in one.groups))
    rows = []
    for one in summary.runs:
        means = dict(zip(one.groups, one.effects.groups, strict=True))
        rows.append(Row((str(one.arm),), tuple(number(means[n].estimate) if n in means else "" for n in names)))
    counts = dict(zip(summary.runs[0].groups, summary.runs[0].effects.counts.group_queries, strict=True))
    columns = tuple(Column(name, "tokens before the evidence") for name in names)
    notes = ("queries: " + ", ".join(f"{name}: {count}" for name, count in counts.items()),)
    title = f"{summary.metrics[0]} by tokens before the evidence ({_where(summary)})"
    table = Table(title, (ARMS,), columns, tuple(rows), notes=notes)
    records = [
        _group_record(summary, one, _Group(name, count, mean, None))
        for one in summary.runs
        for name, count, mean in zip(one.groups, one.effects.counts.group_queries, one.effects.groups, strict=True)
    ]
    return NamedTable("tokens-before", table, tuple(records))


def length_group_tables(model: str, groups: Sequence[LengthGroup]) -> list[NamedTable]:
    """The shortest and longest queries, and the ranks of the longest documents; none where lengths are not known."""
    if not groups:
        return []
    rows = []
    for name in dict.fromkeys(group.group for group in groups):
        for one in (group for group in groups if group.group == name):
            digits = 1 if one.measure == "rank" else 3
            what = "mean rank" if one.measure == "rank" else one.measure
            change = "" if one.change is None else interval(one.change, digits, sign=True)
            told = f"{name} ({one.count} of {one.tokens[0]}–{one.tokens[1]} tokens)"
            rows.append(Row((told, str(one.arm)), (what, number(one.value.estimate, digits), change)))
    columns = (Column("measure", align="left"), Column("mean"), Column("change [95 %]"))
    title = f"Search by length ({model_name(model)})"
    table = Table(title, ("queries or documents", ARMS), columns, tuple(rows), grouped=1)
    records: list[Record] = [
        {
            "model": model,
            "treatment": one.arm.treatment,
            "index": one.arm.index,
            "group": one.group,
            "measure": one.measure,
            "count": one.count,
            "tokens_from": one.tokens[0],
            "tokens_to": one.tokens[1],
            **_ends("", one.value),
            **_ends("change_", one.change),
        }
        for one in groups
    ]
    return [NamedTable("by-length", table, tuple(records))]


def cost_table(summary: RetrievalSummary) -> NamedTable:
    """What each index costs beside what it finds."""
    metric = summary.metrics[0]
    rows: list[Row] = []
    records: list[Record] = []
    for arm in summary.arms:
        cost, quality = summary.cost(arm), summary.result(arm, metric).effects.overall.estimate
        seconds = "stored" if cost["seconds"] is None else f"{'~' if cost['estimated'] else ''}{cost['seconds']:.0f}"
        each = cost["vectors"] / cost["searched_documents"]
        cells = (f"{each:.1f}", f"{cost['bytes'] / 2**20:.1f}", f"{cost['tokens']:,}", seconds, number(quality))
        rows.append(Row((str(arm),), cells))
        records.append({"model": summary.log.model, **cost, "metric": metric, "estimate": finite(quality)})
    columns = tuple(Column(name) for name in ("vectors a document", "MiB", "tokens read", "seconds", metric))
    notes = ("seconds: to embed the documents; stored: not embedded in this run; ~: told from another index's speed",)
    table = Table(f"What an index costs ({_where(summary)})", (ARMS,), columns, tuple(rows), notes=notes)
    return NamedTable("index-costs", table, tuple(records))


def grid_table(grid: TemperatureGrid) -> NamedTable:
    """Every pair of a query's and a document's temperature."""
    rows = [
        Row(
            (f"{cell.query:g}", f"{cell.document:g}"),
            (interval(cell.value), interval(cell.change, sign=True), p_value(cell.p_value)),
        )
        for cell in grid.cells
    ]
    columns = (Column(grid.metric), Column("change [95 %]"), Column("p"))
    note = f"p: randomisation test against {grid.base}, corrected by Holm for all arms of the evaluation"
    title = f"Every pair of temperatures ({model_name(grid.model)})"
    table = Table(title, ("query", "document"), columns, tuple(rows), grouped=1, notes=(note,))
    records: list[Record] = [
        {
            "model": grid.model,
            "metric": grid.metric,
            "query": cell.query,
            "document": cell.document,
            "treatment": cell.arm.treatment,
            **_ends("", cell.value),
            **_ends("change_", cell.change),
            "p_value": None if cell.p_value is None else finite(cell.p_value),
        }
        for cell in grid.cells
    ]
    return NamedTable("temperature-grid", table, tuple(records))


def change_table(changes: Sequence[Change], first: str, second: str) -> NamedTable:
    """Two evaluations query by query; `first` and `second` say what they are."""
    rows = [
        Row(
            (str(one.arm), one.metric),
            (str(one.change.counts.queries), *_changed(one), interval(one.change.psi, sign=True)),
        )
        for one in changes
    ]
    columns = tuple(Column(name) for name in ("queries", "change [95 %]", "p", "change of PSI [95 %]"))
    title = f"Changes between two evaluations, on the same queries ({first} → {second})"
    table = Table(title, ("treatment", "metric"), columns, tuple(rows), grouped=1)
    records: list[Record] = [
        {
            "first": first,
            "second": second,
            "treatments": one.arm.treatment,
            "index": one.arm.index,
            "metric": one.metric,
            "queries": one.change.counts.queries,
            **_ends("change_", one.change.overall),
            "p_value": finite(one.p_value),
            **_ends("psi_change_", one.change.psi),
            "p_psi": finite(one.p_psi),
        }
        for one in changes
    ]
    return NamedTable("search-changes", table, tuple(records))


@dataclass(frozen=True, slots=True)
class _Group:
    """One position group of a result, with its change where there is one."""

    name: str
    queries: int
    mean: Interval
    change: Interval | None


def _by_length(summary: RetrievalSummary) -> list[LengthGroup]:
    """None where there are too few clusters for an interval."""
    try:
        return by_length(summary.log)
    except StatisticsError:
        return []


def _groups(summary: RetrievalSummary, result: Result) -> list[_Group]:
    change = summary.change(result.arm, result.metric, result.plan)
    changes = {} if change is None else dict(zip(change.groups, change.change.groups, strict=True))
    told = zip(result.groups, result.effects.counts.group_queries, result.effects.groups, strict=True)
    return [_Group(name, queries, mean, changes.get(name)) for name, queries, mean in told]


def _where(summary: RetrievalSummary, plan: str = "") -> str:
    task = summary.log.header["task"]
    names = task.get("names") or []
    source = names[0] if len(names) == 1 else PurePath(str(task["source"])).name
    return f"{model_name(summary.log.model)} on {source}" + (f", {plan}" if plan else "")


def _changed(change: Change | None) -> list[str]:
    return ["", ""] if change is None else [interval(change.change.overall, sign=True), p_value(change.p_value)]


def _arm(summary: RetrievalSummary, arm: Arm) -> dict[str, Value]:
    return {"model": summary.log.model, "treatment": arm.treatment, "index": arm.index}


def _quality_record(summary: RetrievalSummary, result: Result) -> Record:
    effects, change = result.effects, summary.change(result.arm, result.metric, result.plan)
    return {
        **_arm(summary, result.arm),
        "metric": result.metric,
        "plan": result.plan,
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **_ends("", effects.overall),
        **_ends("change_", None if change is None else change.change.overall),
        "p_value": None if change is None else finite(change.p_value),
        **_ends("psi_", effects.psi),
        **_ends("psi_change_", None if change is None else change.change.psi),
        "p_psi": None if change is None else finite(change.p_psi),
        **_ends("harmonic_", effects.harmonic),
    }


def _group_record(summary: RetrievalSummary, result: Result, one: _Group) -> Record:
    return {
        **_arm(summary, result.arm),
        "metric": result.metric,
        "plan": result.plan,
        "group": one.name,
        "queries": one.queries,
        **_ends("", one.mean),
        **_ends("change_", one.change),
    }


def _ends(prefix: str, found: Interval | None) -> dict[str, Value]:
    names = ("estimate", "low", "high")
    return {f"{prefix}{name}": None if found is None else finite(getattr(found, name)) for name in names}
