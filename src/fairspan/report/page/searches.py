"""An evaluation on a page: advice, quality by position, what indexes cost, and the tables."""

from __future__ import annotations

from dataclasses import replace

from fairspan.report.page.charts import Chart, Series, domain_of, point
from fairspan.report.page.sections import Card, Group, Section, Tone, heat_map
from fairspan.report.tables.search import grid_table, search_tables
from fairspan.report.tables.text import interval, p_value
from fairspan.studies.evaluate.summary import Result, RetrievalSummary
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid

TONES: dict[str, Tone] = {"use": "good", "documents only": "good", "leave": "bad", "more data": "open"}
BADGES = {"use": "use it", "documents only": "documents only", "leave": "leave it", "more data": "more data"}


def switch_of(summary: RetrievalSummary) -> tuple[str, ...]:
    """The arms, the model as it comes first."""
    return tuple(str(arm) for arm in summary.arms)


def cards(summary: RetrievalSummary) -> tuple[Card, ...]:
    """What to do with each treatment."""
    metric = summary.metrics[0]
    overall = summary.result(summary.baseline, metric).effects
    found = [Card(str(summary.baseline), "baseline", "plain", (f"{metric} {interval(overall.overall)}",))]
    for advice in summary.advice:
        sentence = advice.sentence.removeprefix("use it on documents only: ").removeprefix("use it: ")
        sentence = sentence.removeprefix("leave it: ")
        found.append(Card(advice.treatment, BADGES[advice.kind], TONES[advice.kind], (sentence,)))
    return tuple(found)


def position_section(summary: RetrievalSummary) -> Section | None:
    """Quality by where the evidence lies; None where that is not known."""
    metric = summary.metrics[0]
    known = [plan for plan in summary.plans if summary.result(summary.baseline, metric, plan).groups]
    if not known:
        return None
    segments = summary.log.header["task"]["positions"] == "segments"
    x_label = "segment of the page that is looked for" if segments else "fifth of the document with the evidence"
    results = {plan: [summary.result(arm, metric, plan) for arm in summary.arms] for plan in known}
    groups = [_group(summary, "By position", results, x_label)]
    if summary.runs:
        groups.append(_group(summary, "By what comes before", {"": list(summary.runs)}, "tokens before the evidence"))
    intro = (
        f"Bars are the mean {metric} of the queries whose evidence lies there, with 95 % intervals from resampling "
        "whole clusters of queries. Where bars fall off, what lies there is harder to find."
    )
    return Section("Search by position", intro, tuple(groups))


def overall_section(summary: RetrievalSummary) -> Section:
    """Every metric over all queries."""
    found = [
        [_series(summary, summary.result(arm, metric), overall=True) for metric in summary.metrics]
        for arm in summary.arms
    ]
    series = tuple(replace(own[0], points=tuple(one.points[0] for one in own)) for own in found)
    queries = summary.result(summary.baseline, summary.metrics[0]).effects.counts.queries
    chart = Chart(
        "bars",
        "all queries",
        f"{queries:,} queries",
        "metric",
        "quality",
        tuple(summary.metrics),
        series,
        domain_of([series], zero=True),
    )
    return Section(
        "Search overall", "Means over all queries, with 95 % intervals.", (Group("", (chart,), large=True),)
    )


def grid_section(grid: TemperatureGrid) -> Section:
    """Every pair of temperatures; the first row and the first column change one side only."""
    rows = [(f"query {query:g}", [[cell.value.estimate] for cell in grid.row(query)]) for query in grid.temperatures]
    columns = [f"document {value:g}" for value in grid.temperatures]
    title = f"{grid.metric} by the temperature of queries and of documents"
    verdict = grid.verdict()
    intro = (
        f"{verdict[0].upper()}{verdict[1:]}. The first row leaves queries as they are, the first column documents."
    )
    return Section(
        "Temperatures", intro, heat=(heat_map(title, "temperature", columns, rows),), tables=(grid_table(grid).table,)
    )


def table_section(summary: RetrievalSummary) -> Section:
    """All tables, those of quality and position open."""
    tables = [named.table for named in search_tables(summary) if named.name != "advice"]
    return Section("Tables", tables=tuple(tables[:1]), folded=tuple(tables[1:]))


def _group(summary: RetrievalSummary, heading: str, results: dict[str, list[Result]], x_label: str) -> Group:
    metric = summary.metrics[0]
    series = {plan: [_series(summary, result) for result in own] for plan, own in results.items()}
    domain = domain_of(series.values(), zero=True)
    charts = []
    for plan, own in results.items():
        queries = own[0].effects.counts.queries
        title = plan or "all queries"
        detail = f"{queries:,} queries"
        charts.append(Chart("bars", title, detail, x_label, metric, own[0].groups, tuple(series[plan]), domain))
    return Group(heading, tuple(charts), large=len(charts) < 3)


def _series(summary: RetrievalSummary, result: Result, *, overall: bool = False) -> Series:
    effects, name = result.effects, str(result.arm)
    means = (effects.overall,) if overall else effects.groups
    counts = (effects.counts.queries,) if overall else effects.counts.group_queries
    labels = ("all queries",) if overall else result.groups
    change = summary.change(result.arm, result.metric, result.plan)
    points = []
    for place, (mean, count, label) in enumerate(zip(means, counts, labels, strict=True)):
        lines = [f"{name}, {label}", f"{result.metric} {interval(mean)}", f"{count:,} queries"]
        if change is not None and overall:
            against = interval(change.change.overall, sign=True)
            lines.insert(2, f"against {summary.baseline}: {against}, p {p_value(change.p_value)}")
        elif change is not None and labels == change.groups:
            lines.insert(2, f"against {summary.baseline}: {interval(change.change.groups[place], sign=True)}")
        points.append(point(mean, "\n".join(lines)))
    return Series(name, summary.arms.index(result.arm), tuple(points))
