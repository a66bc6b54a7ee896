"""The charts of an evaluation: what is found by position, by length, by index, and by temperature."""

from collections.abc import Sequence

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, point
from fairspan.report.style import COLOURS
from fairspan.report.text import model_name, p_value, with_bounds
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.findings import Findings
from fairspan.studies.evaluate.summary import RANK, Arm, Result
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid


def drawn_arms(found: Findings, arms: Sequence[Arm]) -> list[Arm]:
    """All of them, or as many as there are colours: each treatment in the form that is advised, then the best."""
    if len(arms) <= len(COLOURS):
        return list(arms)
    summary, advised = found.summary, {one.treatment: one.kind for one in found.advice}

    def other_form_is_advised(arm: Arm) -> bool:
        if arm.name not in advised or summary.twin_of(Arm(arm.name, arm.index)) is None:
            return False
        return (advised[arm.name] == "documents only") == (arm.treatment == arm.name)

    kept = [arm for arm in arms if not other_form_is_advised(arm)]
    others = [arm for arm in kept if arm.index != "whole"]
    others.sort(key=lambda arm: -summary.result(arm).effects.overall.estimate)
    return [*(arm for arm in kept if arm.index == "whole"), *others][: len(COLOURS)]


def position_charts(found: Findings) -> list[Chart]:
    """Quality by position of the evidence: whole documents, then the baseline and the other indexes."""
    summary = found.summary
    whole = [arm for arm in summary.arms if arm.index == summary.baseline.index]
    others = [arm for arm in summary.arms if arm.index != summary.baseline.index]
    if found.languages is not None or not any(result.groups for result in summary.results):
        return []
    charts = [
        _by_position(found, whole, "search-by-position", "What is found, by position of the evidence", brief=True)
    ]
    if others:
        title = "What is found in other indexes, by position of the evidence"
        charts.append(_by_position(found, [summary.baseline, *others], "search-by-position-and-index", title))
    return charts


def _by_position(found: Findings, arms: Sequence[Arm], name: str, title: str, *, brief: bool = False) -> Chart:
    summary, metric = found.summary, found.summary.metrics[0]
    panels, together = [], "all queries" if len(summary.plans) == 1 else "all plans"
    for plan in summary.plans:
        results = [summary.result(arm, plan=plan) for arm in drawn_arms(found, arms)]
        if results[0].groups:
            series = tuple(_groups(found, result, results[0].groups) for result in results)
            panels.append(Panel(plan or together, results[0].groups, series, detail=_queries(results[0])))
    caption = f"{metric} by position of the evidence, with 95 % intervals."
    unit = "segment" if found.log.header["task"]["positions"] == "segments" else "fifth"
    axis, subtitle = f"{unit} with the evidence", _subtitle(found)
    return Chart(name, title, caption, "bars", axis, metric, tuple(panels), subtitle=subtitle, brief=brief)


def tokens_before_chart(found: Findings) -> Chart | None:
    """Quality by the number of tokens before the evidence; None where there is one range only."""
    results = {result.arm: result for result in found.summary.tokens_before}
    if not any(len(result.groups) > 1 for result in results.values()):
        return None
    names = tuple(dict.fromkeys(name for result in results.values() for name in result.groups))
    drawn = [results[arm] for arm in drawn_arms(found, list(results))]
    series = tuple(_groups(found, result, names) for result in drawn)
    panel = Panel("all queries", names, series, detail=_queries(drawn[0]))
    title, metric = "What is found, by tokens before the evidence", found.summary.metrics[0]
    caption = f"{metric} by the number of tokens before the evidence, with 95 % intervals."
    name, axis = "search-by-tokens-before", "tokens before the evidence"
    return Chart(name, title, caption, "lines", axis, metric, (panel,), subtitle=_subtitle(found))


def overall_chart(found: Findings) -> Chart:
    """Every metric over all queries."""
    summary = found.summary
    series = []
    for arm in drawn_arms(found, summary.arms):
        points = tuple(_overall(found, summary.result(arm, metric), metric) for metric in summary.metrics)
        series.append(Series(str(arm), summary.arms.index(arm), points))
    detail = _queries(summary.result(summary.baseline))
    panel = Panel("all queries", tuple(summary.metrics), tuple(series), detail=detail)
    title, caption = "What is found, over all queries", "Every metric over all queries, with 95 % intervals."
    name, subtitle = "search-overall", _subtitle(found)
    return Chart(name, title, caption, "bars", "metric", "quality", (panel,), subtitle=subtitle)


def index_chart(found: Findings) -> Chart | None:
    """Whole documents and chunks, with the size of each index; None where there is one index."""
    summary, metric = found.summary, found.summary.metrics[0]
    sizes = {arm.index: summary.cost(arm)["bytes"] / 2**20 for arm in summary.arms if found.log.header.get("costs")}
    if len(sizes) < 2:
        return None
    indexes = sorted(sizes, key=lambda index: (sizes[index], index != summary.baseline.index))
    series = []
    for treatment in dict.fromkeys(arm.treatment for arm in drawn_arms(found, summary.arms)):
        own = {arm.index: arm for arm in summary.arms if arm.treatment == treatment}
        points = tuple(_overall(found, summary.result(own[i]), i) if i in own else None for i in indexes)
        number = min(summary.arms.index(arm) for arm in own.values())
        series.append(Series(str(Arm(treatment, "whole")), number, points))
    panel = Panel("by index", tuple(indexes), tuple(series), strip=tuple(sizes[index] for index in indexes))
    name, title = "search-by-index", "What is found in whole documents and in parts of them"
    caption = f"{metric} of whole documents and of chunks, with 95 % intervals and the size of each index."
    subtitle = _subtitle(found)
    return Chart(name, title, caption, "bars", "index", metric, (panel,), subtitle=subtitle, strip_label="MiB")


def length_chart(found: Findings) -> Chart:
    """The shortest and longest queries, and the ranks of the longest documents."""
    metric = found.summary.metrics[0]
    panels = []
    for measure, title in ((metric, "queries"), (RANK, "documents")):
        own = {(one.arm, one.group): one for one in found.lengths if one.measure == measure}
        if not own:
            continue
        names = list(dict.fromkeys(group for _, group in own))
        arms = drawn_arms(found, list(dict.fromkeys(arm for arm, _ in own)))
        series = []
        for arm in arms:
            groups = [own[arm, name] for name in names]
            points = tuple(_point(found, arm, g.group, measure, g.value, g.change, g.count) for g in groups)
            series.append(Series(str(arm), found.summary.arms.index(arm), points))
        spans = [(name.split()[0], *own[arms[0], name].tokens) for name in names]
        labels = tuple(f"{name}, {low}–{high} tokens" for name, low, high in spans)
        axis = "mean rank (lower is better)" if measure == RANK else ""
        panels.append(Panel(title, labels, tuple(series), y_label=axis))
    name, title = "search-by-length", "What is found, by length"
    caption = f"{metric} of the shortest and longest queries, and the mean rank of the longest documents."
    return Chart(name, title, caption, "bars", "length", metric, tuple(panels), subtitle=_subtitle(found))


def grid_map(found: Findings, grid: TemperatureGrid) -> HeatMap:
    """Every pair of temperatures; the first row and the first column change one side only."""
    rows = []
    for query in grid.temperatures:
        cells = []
        for cell in grid.row(query):
            note = "unmodified" if cell.change is None else with_bounds(cell.change, "+.3f").replace(" ", "\n", 1)
            cells.append(HeatCell((cell.value.estimate,), note, framed=bool(cell.settled)))
        rows.append((f"query {query:g}", tuple(cells)))
    framed = "; framed: 0 is outside the interval" if any(cell.settled for cell in grid.cells) else ""
    name, title = "temperature-grid", f"{grid.metric} by the temperature of queries and of documents"
    caption = f"{grid.metric} and its change from the pair (1, 1) with 95 % interval{framed}."
    columns, subtitle = tuple(f"document {value:g}" for value in grid.temperatures), _grid_subtitle(found, grid)
    axes = ("temperature of documents", "temperature of queries")
    return HeatMap(name, title, caption, "temperature", columns, tuple(rows), *axes, subtitle=subtitle)


def sides_chart(found: Findings, grid: TemperatureGrid) -> Chart:
    """How the metric changes with the temperature of each side alone, and of both."""
    panels, axis = [], f"change of {grid.metric}"
    for name, cells in grid.sides.items():
        points = []
        for cell in cells:
            words = f"query {cell.query:g}, document {cell.document:g}\n{with_bounds(cell.change, '+.3f')}"
            unmodified = Point(0.0, told="temperature 1: unmodified")
            points.append(unmodified if cell.change is None else point(cell.change, words))
        labels = tuple(f"{value:g}" for value in grid.temperatures)
        panels.append(Panel(name, labels, (Series(axis, -1, tuple(points)),), reference=0.0))
    name, title = "temperature-sides", "Softmax temperature of queries, of documents, and of both"
    caption = f"Change of {grid.metric} from temperature 1, for each side alone and for both, with 95 % intervals."
    subtitle = _grid_subtitle(found, grid)
    return Chart(name, title, caption, "lines", "temperature", axis, tuple(panels), subtitle=subtitle, form="+.3f")


def _groups(found: Findings, result: Result, names: Sequence[str]) -> Series:
    """One point for each of `names`; None for those that the result does not have."""
    arm = result.arm
    points = {
        name: _point(found, arm, name, result.metric, mean, change, count)
        for name, count, mean, change in result.by_group
    }
    return Series(str(arm), found.summary.arms.index(arm), tuple(points.get(name) for name in names))


def _overall(found: Findings, result: Result, label: str) -> Point | None:
    mean, count = result.effects.overall, result.effects.counts.queries
    return _point(found, result.arm, label, result.metric, mean, result.overall_change, count, result.p_value)


def _point(
    found: Findings,
    arm: Arm,
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


def _queries(result: Result) -> str:
    return f"{result.effects.counts.queries:,} queries"


def _subtitle(found: Findings) -> str:
    return f"{model_name(found.log.model)}, {found.task}"


def _grid_subtitle(found: Findings, grid: TemperatureGrid) -> str:
    return _subtitle(found) + ("" if grid.base.treatment == "none" else f", under {grid.base}")
