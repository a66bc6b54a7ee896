"""What an evaluation shows: advice first, then quality by position, overall, by index and by length."""

from fairspan.report.text import model_name, with_bounds
from fairspan.report.view import FEW_BARS, Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate import charts, tables
from fairspan.studies.evaluate.findings import Findings, findings_of
from fairspan.studies.evaluate.language_view import language_section

SEARCH = (
    "Every query is searched among all documents of its index by exact inner products; equal scores are always "
    "ranked in the same way. A position is where the evidence of a query is in its document."
)
TESTS = (
    "Treatments are compared with the first one on the same queries. Clusters of queries share a page, an article or "
    "a document. Intervals of means resample whole clusters. Intervals of changes are t intervals with the jackknife "
    "error over clusters, which hold with few clusters as well. p values come from exchanging the two sides at "
    "random and are corrected by Holm for the number of arms."
)
ADVICE = (
    "The advice requires an overall gain that chance does not explain, and looks at the weakest position as well. A "
    "treatment is measured on documents and queries, and on documents only. On fewer than 30 clusters it says so."
)


LANGUAGES = (
    "Across languages, the advice looks at the weakest pair of languages in place of the weakest position. PEER is "
    "the p value of the Kruskal–Wallis test that documents in all languages have the same expected rank, averaged "
    "over queries; it is taken over the documents that do not answer the query. Rank ratios are of geometric means."
)


def view_of(log: RunLog, *, lengths: bool = False) -> View:
    """Everything an evaluation has to show.

    Args:
        lengths: whether the terminal shows the search by length as well; then one that cannot be had is an error.
    """
    found = findings_of(log, lengths=lengths)
    across = None if found.languages is None else language_section(found, found.languages)
    sections = [across, _by_position(found), _overall(found), _by_index(found), _by_length(found, brief=lengths)]
    shown = tuple(section for section in (_temperatures(found), *sections) if section is not None)
    return View(
        title=f"What search finds with {model_name(log.model)}",
        heading=_heading(log),
        cards=_cards(found),
        sections=shown,
        frames=found.frames,
        picture="temperature-grid" if found.grid else _first_drawn(shown[0]),
        notes=tuple(log.notes),
        switch=tuple(str(arm) for arm in found.summary.arms),
        all_first=len(found.summary.arms) <= FEW_BARS,
        methods=(SEARCH, TESTS, ADVICE, *((LANGUAGES,) if across else ())),
    )


def _first_drawn(section: Section) -> str:
    return section.heats[0].name if section.heats else section.charts[0].name


def _heading(log: RunLog) -> str:
    task, seconds = log.header["task"], log.header["timings"].get("seconds")
    counted = [f"{task[what]:,} {what}" for what in ("queries", "documents") if task.get(what)]
    counted += [f"{task['indexes']} indexes"] if task["indexes"] > 1 else []
    counted += [f"{seconds:.0f} s"] if seconds is not None else []
    return f"{log.model} on {task['source']}: {', '.join(counted)}"


def _cards(found: Findings) -> tuple[Card, ...]:
    """The baseline, then what to do with each treatment."""
    result = found.summary.result(found.summary.baseline)
    words = f"{result.metric} {with_bounds(result.effects.overall)}"
    advised = [Card(one.treatment, *one.badge, (one.sentence,)) for one in found.advice]
    return (Card(str(result.arm), "baseline", "plain", (words,)), *advised)


def _temperatures(found: Findings) -> Section | None:
    grid = found.grid
    if grid is None:
        return None
    return Section(
        "Temperatures",
        "The first row changes documents only, the first column queries only.",
        charts=(charts.sides_chart(found, grid),),
        heats=(charts.grid_map(found, grid),),
        tables=(tables.grid_table(found, grid),),
        heats_first=True,
    )


def _by_position(found: Findings) -> Section | None:
    drawn, (_, *plans) = charts.position_charts(found), found.summary.plans
    if not drawn:
        return None
    by_plan = [tables.position_table(found, plans)] if plans else []
    before, table = charts.tokens_before_chart(found), tables.tokens_before_table(found)
    return Section(
        "Search by position",
        f"Bars are the mean {found.summary.metrics[0]} of the queries with evidence there, with 95 % intervals "
        "from resampling whole clusters of queries. Lower bars mean that evidence there is harder to find.",
        charts=(*drawn, *([before] if before else [])),
        folded=(tables.position_table(found), *by_plan, *([table] if table else [])),
    )


def _overall(found: Findings) -> Section:
    _, *plans = found.summary.plans
    by_plan = [tables.quality_table(found, plans)] if plans else []
    advice = [tables.advice_table(found)] if found.advice else []
    # A single arm with a grid is the grid's cell (1, 1).
    alone = found.grid is not None and len(found.summary.arms) == 1
    return Section(
        "Search overall",
        "Means over all queries, with 95 % intervals.",
        charts=() if alone else (charts.overall_chart(found),),
        tables=(tables.quality_table(found),),
        folded=(*by_plan, *advice),
    )


def _by_index(found: Findings) -> Section | None:
    if "costs" not in found.frames:
        return None
    chart = charts.index_chart(found)
    return Section("Indexes and their costs", charts=(chart,) if chart else (), tables=(tables.cost_table(found),))


def _by_length(found: Findings, *, brief: bool) -> Section | None:
    if not found.lengths:
        return None
    intro = "The shortest and longest fifth of the queries, and the longest fifth of the documents that answer one."
    chart, table = charts.length_chart(found), tables.length_table(found, brief=brief)
    return Section("Search by length", intro, charts=(chart,), tables=(table,))
