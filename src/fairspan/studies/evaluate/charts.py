"""The charts of an evaluation: what is found by position, by length, by index, and by temperature."""

from collections.abc import Sequence

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, point
from fairspan.report.style import COLOURS
from fairspan.report.text import model_name, p_value, with_bounds
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.advice import twin_of
from fairspan.studies.evaluate.by_length import RANK
from fairspan.studies.evaluate.findings import Findings
from fairspan.studies.evaluate.summary import DOCUMENTS_ONLY, Arm, Result
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid


def drawn_arms(found: Findings, arms: Sequence[Arm]) -> list[Arm]:
    """All of them, or as many as can be told apart: each treatment in the form that is advised, then the best."""
    if len(arms) <= len(COLOURS):
        return list(arms)
    summary, advised = found.summary, {one.treatment: one.kind for one in found.advice}

    def other_form_is_advised(arm: Arm) -> bool:
        name = arm.treatment.removesuffix(DOCUMENTS_ONLY)
        if name not in advised or twin_of(summary, Arm(name, arm.index)) is None:
            return False
        return (advised[name] == "documents only") == (arm.treatment == name)

    kept = [arm for arm in arms if not other_form_is_advised(arm)]
    kept.sort(
        key=lambda arm: (arm.index != "whole", -summary.result(arm).effects.overall.estimate * (arm.index != "whole"))
    )
    return kept[: len(COLOURS)]


def position_charts(found: Findings) -> list[Chart]:
    """Quality by where the evidence lies: whole documents, then the other indexes beside the baseline."""
    summary = found.summary
    whole = [arm for arm in summary.arms if arm.index == summary.baseline.index]
    others = [arm for arm in summary.arms if arm.index != summary.baseline.index]
    if not any(result.groups for result in summary.results):
        return []
    charts = [
        _by_position(found, whole, "search-by-position", "What is found, by where the evidence lies", brief=True)
    ]
    if others:
        title = "What is found in other indexes, by where the evidence lies"
        charts.append(_by_position(found, [summary.baseline, *others], "search-by-position-and-index", title))
    return charts


def _by_position(found: Findings, arms: Sequence[Arm], name: str, title: str, *, brief: bool = False) -> Chart:
    summary = found.summary
    panels, together = [], "all queries" if len(summary.plans) == 1 else "all plans"
    for plan in summary.plans:
        results = [summary.result(arm, plan=plan) for arm in drawn_arms(found, arms)]
        if results[0].groups:
            queries = f"{results[0].effects.counts.queries:,} queries"
            series = tuple(_groups(found, result, results[0].groups) for result in results)
            panels.append(Panel(plan or together, results[0].groups, series, detail=queries))
    segments = found.log.header["task"]["positions"] == "segments"
    return Chart(
        name,
        title,
        f"{summary.metrics[0]} by where the evidence lies, with 95 % intervals.",
        "bars",
        "segment with the evidence" if segments else "fifth with the evidence",
        summary.metrics[0],
        tuple(panels),
        subtitle=_subtitle(found),
        brief=brief,
    )


def tokens_before_chart(found: Findings) -> Chart | None:
    """Quality by how many tokens stand before the evidence; None where there is one range only."""
    results = {result.arm: result for result in found.summary.tokens_before}
    if not any(len(result.groups) > 1 for result in results.values()):
        return None
    names = tuple(dict.fromkeys(name for result in results.values() for name in result.groups))
    drawn = drawn_arms(found, list(results))
    queries = f"{results[drawn[0]].effects.counts.queries:,} queries"
    panel = Panel("all queries", names, tuple(_groups(found, results[arm], names) for arm in drawn), detail=queries)
    return Chart(
        "search-by-tokens-before",
        "What is found, by how much text stands before it",
        f"{found.summary.metrics[0]} by the number of tokens before the evidence, with 95 % intervals.",
        "lines",
        "tokens before the evidence",
        found.summary.metrics[0],
        (panel,),
        subtitle=_subtitle(found),
    )


def overall_chart(found: Findings) -> Chart:
    """Every metric over all queries."""
    summary = found.summary
    series = []
    for arm in drawn_arms(found, summary.arms):
        results = [summary.result(arm, metric) for metric in summary.metrics]
        points = tuple(_overall(found, result, result.metric) for result in results)
        series.append(Series(str(arm), summary.arms.index(arm), points))
    queries = summary.result(summary.baseline).effects.counts.queries
    panel = Panel("all queries", tuple(summary.metrics), tuple(series), detail=f"{queries:,} queries")
    return Chart(
        "search-overall",
        "What is found, over all queries",
        "Every metric over all queries, with 95 % intervals.",
        "bars",
        "metric",
        "quality",
        (panel,),
        subtitle=_subtitle(found),
    )


def index_chart(found: Findings) -> Chart | None:
    """Whole documents against chunks, above the size of each index; None where there is one index."""
    summary = found.summary
    sizes = {arm.index: summary.cost(arm)["bytes"] / 2**20 for arm in summary.arms if found.log.header.get("costs")}
    if len(sizes) < 2:
        return None
    indexes = sorted(sizes, key=lambda index: (sizes[index], index != summary.baseline.index))
    series = []
    for treatment in dict.fromkeys(arm.treatment for arm in drawn_arms(found, summary.arms)):
        own = [Arm(treatment, index) for index in indexes]
        points = tuple(
            _overall(found, summary.result(arm), arm.index) if arm in summary.arms else None for arm in own
        )
        first = next(arm for arm in summary.arms if arm.treatment == treatment)
        series.append(Series(str(Arm(treatment, "whole")), summary.arms.index(first), points))
    panel = Panel("by index", tuple(indexes), tuple(series), strip=tuple(sizes[index] for index in indexes))
    return Chart(
        "search-by-index",
        "What is found in whole documents and in parts of them",
        f"{summary.metrics[0]} of whole documents and of chunks, with 95 % intervals and the size of each index.",
        "bars",
        "index",
        summary.metrics[0],
        (panel,),
        subtitle=_subtitle(found),
        strip_label="MiB",
    )


def length_chart(found: Findings) -> Chart | None:
    """The shortest and longest queries, and where the longest documents are found; None where that is not known."""
    if not found.lengths:
        return None
    metric = found.summary.metrics[0]
    panels = []
    for measure, title in ((metric, "queries"), (RANK, "documents")):
        own = {(one.arm, one.group): one for one in found.lengths if one.measure == measure}
        names = list(dict.fromkeys(group for _, group in own))
        arms = drawn_arms(found, list(dict.fromkeys(arm for arm, _ in own)))
        if not own:
            continue
        series = []
        for arm in arms:
            groups = [own[arm, name] for name in names]
            points = tuple(
                _point(found, str(arm), one.group, measure, one.value, one.change, one.count) for one in groups
            )
            series.append(Series(str(arm), found.summary.arms.index(arm), points))
        spans = [own[arms[0], name].tokens for name in names]
        labels = tuple(
            f"{name.split()[0]}, {low}–{high} tokens" for name, (low, high) in zip(names, spans, strict=True)
        )
        axis = "mean rank (lower is better)" if measure == RANK else ""
        panels.append(Panel(title, labels, tuple(series), y_label=axis))
    return Chart(
        "search-by-length",
        "What is found, by length",
        f"{metric} of the shortest and longest queries, and the mean rank of the longest documents.",
        "bars",
        "length",
        metric,
        tuple(panels),
        subtitle=_subtitle(found),
    )


def grid_map(found: Findings, grid: TemperatureGrid) -> HeatMap:
    """Every pair of temperatures; the first row and the first column change one side only."""
    rows = []
    for query in grid.temperatures:
        cells = []
        for cell in grid.row(query):
            note = "unmodified" if cell.change is None else with_bounds(cell.change, "+.3f").replace(" ", "\n", 1)
            cells.append(HeatCell((cell.value.estimate,), note, framed=bool(cell.settled)))
        rows.append((f"query {query:g}", tuple(cells)))
    framed = "; framed: 0 lies outside the interval" if any(cell.settled for cell in grid.cells) else ""
    return HeatMap(
        "temperature-grid",
        f"{grid.metric} by the temperature of queries and of documents",
        f"{grid.metric} and its change from the pair (1, 1) with 95 % interval{framed}.",
        "temperature",
        tuple(f"document {value:g}" for value in grid.temperatures),
        tuple(rows),
        x_label="temperature of documents",
        y_label="temperature of queries",
        subtitle=_grid_subtitle(found, grid),
    )


def sides_chart(found: Findings, grid: TemperatureGrid) -> Chart:
    """How the metric changes with the temperature of each side alone, and of both."""
    panels = []
    for name, cells in grid.sides.items():
        points = [
            Point(0.0, told="temperature 1: unmodified")
            if cell.change is None
            else point(
                cell.change, f"query {cell.query:g}, document {cell.document:g}\n{with_bounds(cell.change, '+.3f')}"
            )
            for cell in cells
        ]
        labels = tuple(f"{value:g}" for value in grid.temperatures)
        panels.append(Panel(name, labels, (Series(f"change of {grid.metric}", -1, tuple(points)),), reference=0.0))
    return Chart(
        "temperature-sides",
        "Softmax temperature of queries, of documents, and of both",
        f"Change of {grid.metric} from temperature 1, for each side alone and for both, with 95 % intervals.",
        "lines",
        "temperature",
        f"change of {grid.metric}",
        tuple(panels),
        subtitle=_grid_subtitle(found, grid),
        form="+.3f",
    )


def _groups(found: Findings, result: Result, names: Sequence[str]) -> Series:
    """One point for each of `names`; None for those that the result does not have."""
    changes = [None] * len(result.groups) if result.change is None else result.change.groups
    counts, means = result.effects.counts.group_queries, result.effects.groups
    told = {
        name: _point(found, str(result.arm), name, result.metric, mean, change, count)
        for name, mean, change, count in zip(result.groups, means, changes, counts, strict=True)
    }
    return Series(str(result.arm), found.summary.arms.index(result.arm), tuple(told.get(name) for name in names))


def _overall(found: Findings, result: Result, label: str) -> Point | None:
    change = None if result.change is None else result.change.overall
    effects = result.effects
    p = result.p_value
    return _point(found, str(result.arm), label, result.metric, effects.overall, change, effects.counts.queries, p)


def _point(
    found: Findings,
    arm: str,
    label: str,
    metric: str,
    mean: Interval,
    change: Interval | None,
    count: int,
    p: float | None = None,
) -> Point | None:
    lines = [f"{arm}, {label}", f"{metric} {with_bounds(mean)}", f"{count:,} queries"]
    if change is not None:
        tested = "" if p is None else f", p {p_value(p)}"
        lines.insert(2, f"against {found.summary.baseline}: {with_bounds(change, '+.3f')}{tested}")
    return point(mean, "\n".join(lines))


def _subtitle(found: Findings) -> str:
    return f"{model_name(found.log.model)}, {found.task}"


def _grid_subtitle(found: Findings, grid: TemperatureGrid) -> str:
    return _subtitle(found) + ("" if grid.base.treatment == "none" else f", under {grid.base}")
