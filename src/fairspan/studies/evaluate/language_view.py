"""What a search across languages shows: a heat map of query and document, shares of the first ranks, and tables."""

from collections.abc import Sequence

import polars as pl

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Series, point
from fairspan.report.table import Cell, Column, Table, row
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import Section
from fairspan.runs.language_rows import PEER, SHARE, TOP
from fairspan.studies.evaluate.charts import drawn_arms
from fairspan.studies.evaluate.findings import Findings
from fairspan.studies.evaluate.languages import (
    DISTANCE,
    ENGLISH_RATIO,
    OWN_RATIO,
    LanguageFigure,
    LanguageSummary,
)
from fairspan.studies.evaluate.tables import ARMS, CHANGE, TEST

INTRO = (
    "Every question is asked in every language. In the mixed indexes its document is in one language, each in turn, "
    "among documents in all of them: for a model that is fair to documents, the numbers of a row are equal. In the "
    "parallel index all translations are there, and all of them are relevant."
)


def language_section(found: Findings, languages: LanguageSummary) -> Section:
    """Everything by language, the heat map first."""
    return Section(
        "Search across languages",
        INTRO,
        charts=(_share_chart(found, languages),),
        heats=(language_map(found, languages),),
        tables=(_fairness_table(found, languages), _document_table(found, languages)),
        folded=(_pair_table(found, languages), _query_table(found, languages)),
        heats_first=True,
    )


def language_map(found: Findings, languages: LanguageSummary) -> HeatMap:
    """The first metric by the language of the query and of the document, one panel per arm on one scale."""
    summary, names = found.summary, languages.languages
    arms = drawn_arms(found, summary.arms)
    means = [[mean.estimate for _, _, mean, _ in summary.result(arm).by_group] for arm in arms]
    rows = []
    for place, query in enumerate(names):
        cells = [HeatCell(tuple(own[place * len(names) + k] for own in means)) for k in range(len(names))]
        rows.append((query, tuple(cells)))
    metric = summary.metrics[0]
    return HeatMap(
        "languages",
        f"{metric} by the language of the query and of the document",
        f"{metric} of the same questions by the language of the query (rows) and of the document (columns), in "
        "indexes of mixed languages.",
        "query",
        names,
        tuple(rows),
        "language of the document",
        "language of the query",
        subtitle=_subtitle(found),
        entries=tuple(str(arm) for arm in arms),
        panels=True,
        brief=True,
    )


def _share_chart(found: Findings, languages: LanguageSummary) -> Chart:
    """Which languages the first ranks have, beside the share of each among what is relevant."""
    panels, names = [], languages.languages
    arms = drawn_arms(found, found.summary.arms)
    for query in ("", *names):
        series = []
        for arm in arms:
            figures = [languages.of(arm, SHARE, query, document) for document in names]
            points = tuple(None if one is None else point(one.value, _told(one)) for one in figures)
            series.append(Series(str(arm), found.summary.arms.index(arm), points))
        title = f"queries in {query}" if query else "all queries"
        panels.append(Panel(title, names, tuple(series), reference=1 / len(names), folded=bool(query)))
    return Chart(
        "language-shares",
        f"Languages of the first {TOP} ranks",
        f"Share of each language in the first {TOP} ranks of the parallel index, with 95 % intervals; every language "
        "has the same share of what is relevant.",
        "bars",
        "language of the document",
        f"share of the first {TOP}",
        tuple(panels),
        subtitle=_subtitle(found),
        form=".2f",
        dashes="share of what is relevant",
    )


def _told(figure: LanguageFigure) -> str:
    asked = f", queries in {figure.query}" if figure.query else ""
    lines = [f"{figure.arm}, {figure.document}{asked}", f"share {with_bounds(figure.value, '.2f')}"]
    if figure.change is not None:
        lines.append(f"change {with_bounds(figure.change, '+.2f')}")
    return "\n".join(lines)


def _fairness_table(found: Findings, languages: LanguageSummary) -> Table:
    """What each arm does within and across languages, and how alike languages are."""
    metric, rows, alone = found.summary.metrics[0], [], len(found.summary.arms) == 1
    reciprocal = next((name for name in found.summary.metrics if name.startswith("mrr")), None)
    measures = [f"{metric} within", f"{metric} across", f"{metric} gap"]
    if reciprocal is not None and reciprocal != metric:
        measures += [f"{reciprocal} within", f"{reciprocal} across"]
    for measure in (*measures, OWN_RATIO, DISTANCE, PEER):
        for arm in found.summary.arms:
            figure = languages.of(arm, measure)
            assert figure is not None
            factor = measure == OWN_RATIO
            change = None if figure.change is None else Cell(figure.change, ".2f" if factor else "+.3f", "×" * factor)
            p_value = None if figure.change is None else Cell(figure.p_value, "p")
            value = Cell(figure.value if alone else figure.value.estimate, ".2f" if factor else ".3f")
            rows.append(row(_words(measure), str(arm), cells=[value] if alone else [value, change, p_value]))
    notes = (
        "within: query and document in the same language; gap: best minus weakest document language",
        f"{OWN_RATIO}: how much larger a document's rank is in another language than the query's, as a factor",
        f"{DISTANCE}: of the languages in the first {TOP} ranks from those of what is relevant, in total variation",
        f"{_words(PEER)}: probability of equal expected rank, higher is fairer",
        *(() if alone else (TEST,)),
    )
    columns = (Column("value [95 %]"),) if alone else (Column("value"), Column(CHANGE), Column("p"))
    title, frame = f"Within and across languages ({found.where})", found.frame("languages")
    heads = ("measure", ARMS)
    return Table("language-fairness", title, heads, columns, tuple(rows), frame, grouped=1, notes=notes, brief=True)


def _document_table(found: Findings, languages: LanguageSummary) -> Table:
    """The first metric, the ranks and the share of the first ranks by the language of the document."""
    metric, rows = found.summary.metrics[0], []
    for arm in found.summary.arms:
        for name in languages.languages:
            own = {
                measure: languages.of(arm, measure, document=name)
                for measure in (metric, OWN_RATIO, ENGLISH_RATIO, SHARE)
            }
            quality = own[metric]
            assert quality is not None
            cells: list[Cell | str | None] = [Cell(quality.value), None]
            if quality.change is not None:
                cells[1] = Cell(quality.change, "+.3f")
            cells += [Cell(None if one is None else one.value, ".2f") for one in list(own.values())[1:]]
            rows.append(row(str(arm), name, cells=cells))
    columns = (
        Column("mean [95 %]", metric),
        Column(CHANGE, metric),
        Column("to the query's language", "rank ratio"),
        Column("to English", "rank ratio"),
        Column(f"share of the first {TOP}", "parallel"),
    )
    notes = (f"share of what is relevant: {number(1 / len(languages.languages), '.2f')} for every language",)
    title, frame = (
        f"By language of the document ({found.where})",
        found.frame("languages", pl.col("document_language") != ""),
    )
    heads = (ARMS, "document")
    return Table("document-languages", title, heads, columns, tuple(rows), frame, grouped=1, notes=notes)


def _pair_table(found: Findings, languages: LanguageSummary) -> Table:
    """The numbers of the heat map, with the change of each pair."""
    names, rows = languages.languages, []
    for arm in found.summary.arms:
        groups = found.summary.result(arm).by_group
        for place, query in enumerate(names):
            own = groups[place * len(names) : (place + 1) * len(names)]
            rows.append(row(str(arm), query, cells=[Cell(mean) for _, _, mean, _ in own]))
            if own[0][3] is not None:
                changes: Sequence[Cell | str | None] = [Cell(change, "+.3f") for *_, change in own]
                rows.append(row(str(arm), f"{query}, change", cells=list(changes)))
    metric = found.summary.metrics[0]
    title = f"{metric} by language of query and document ({found.where})"
    columns = tuple(Column(name, "document") for name in names)
    frame = found.frame("language_pairs")
    return Table("language-pairs", title, (ARMS, "query"), columns, tuple(rows), frame, grouped=1)


def _query_table(found: Findings, languages: LanguageSummary) -> Table:
    """The first metric, the distance of shares and PEER by the language of the query."""
    metric, rows = found.summary.metrics[0], []
    for arm in found.summary.arms:
        for name in languages.languages:
            figures = [languages.of(arm, measure, query=name) for measure in (metric, DISTANCE, PEER)]
            rows.append(row(str(arm), name, cells=[Cell(None if one is None else one.value) for one in figures]))
    columns = tuple(Column(f"{name} [95 %]") for name in (metric, DISTANCE, _words(PEER)))
    frame = found.frame("languages", (pl.col("query_language") != "") & (pl.col("document_language") == ""))
    title = f"By language of the query ({found.where})"
    return Table("query-languages", title, (ARMS, "query"), columns, tuple(rows), frame, grouped=1)


def _words(measure: str) -> str:
    return "PEER" if measure == PEER else measure


def _subtitle(found: Findings) -> str:
    return f"{model_name(found.log.model)}, {found.task}"
