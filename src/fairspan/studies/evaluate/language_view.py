"""What a search across languages shows: a heat map, shares of the first ranks, and tables."""

from dataclasses import replace

import polars as pl

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Series, point
from fairspan.report.frames import interval
from fairspan.report.table import CHANGE, P_VALUE, Column, Table
from fairspan.report.text import number, with_bounds
from fairspan.report.view import Section
from fairspan.runs.search_rows import PEER, SHARE, TOP
from fairspan.studies.evaluate.charts import Shown
from fairspan.studies.evaluate.languages import DISTANCE, ENGLISH_RATIO, OWN_RATIO
from fairspan.studies.evaluate.measures import languages_of

ARMS = "documents and queries"
TEST = "p: randomisation test over clusters of queries, Holm-corrected over the arms"
INTRO = (
    "Every question is asked in every language. In the mixed indexes its document is in one "
    "language, each in turn, among documents in all of them: for a model that is fair to "
    "documents, the numbers of a row are equal. In the parallel index all translations are there, "
    "and all of them are relevant."
)
_FAIRNESS_NOTES = (
    "within: query and document in the same language; gap: best minus weakest document language",
    (
        f"{OWN_RATIO}: of a document's rank in another language to that in the query's; "
        "its change is a factor"
    ),
    (
        f"{DISTANCE}: total variation between languages of the first {TOP} ranks and of what is "
        "relevant"
    ),
    f"{PEER}: probability of equal expected rank, higher is fairer",
)
_ALL_QUERIES = pl.col("query_language") == ""
_ALL_DOCUMENTS = pl.col("document_language") == ""


def language_section(shown: Shown) -> Section:
    """Everything by language, the heat map first."""
    return Section(
        "Search across languages",
        INTRO,
        charts=(_share_chart(shown),),
        heats=(language_map(shown),),
        tables=(_fairness_table(shown), _document_table(shown)),
        folded=(_pair_table(shown),),
        heats_first=True,
    )


def language_map(shown: Shown) -> HeatMap:
    """The first metric by language of query and document, one panel per arm on one scale."""
    names = tuple(languages_of(shown.log))
    metric = shown.metrics[0]
    keys = ["arm", "query_language", "document_language"]
    pairs = shown.of_metric("language_pairs").select(*keys, "estimate")
    means = {row[:3]: row[3] for row in pairs.rows()}
    rows = []
    for query in names:
        cells = [[means[arm, query, document] for arm in shown.drawn] for document in names]
        rows.append((query, tuple(HeatCell(tuple(cell)) for cell in cells)))
    return HeatMap(
        "languages",
        f"{metric} by the language of the query and of the document",
        "query",
        names,
        tuple(rows),
        "language of the document",
        "language of the query",
        subtitle=shown.where,
        entries=tuple(shown.drawn),
        panels=True,
        caption=f"{metric} of the same questions by the language of the query (rows) and of the "
        "document (columns), in indexes of mixed languages.",
    )


def _share_chart(shown: Shown) -> Chart:
    """Which languages the first ranks have, beside the share of each among what is relevant."""
    names = tuple(languages_of(shown.log))
    shares = shown.frame("languages", pl.col("measure") == SHARE, ~_ALL_DOCUMENTS)
    panels = []
    for query in ("", *names):
        series = []
        for arm in shown.drawn:
            rows = shares.filter(arm=arm, query_language=query).to_dicts()
            intervals = [interval(row) for row in rows]
            points = [
                point(share, f"{arm}\nshare {with_bounds(share, '.2f')}") for share in intervals
            ]
            series.append(Series(arm, shown.arms.index(arm), tuple(points)))
        title = f"queries in {query}" if query else "all queries"
        drawn = tuple(series)
        panels.append(Panel(title, names, drawn, reference=1 / len(names), folded=bool(query)))
    return Chart(
        "language-shares",
        f"Languages of the first {TOP} ranks",
        "bars",
        "language of the document",
        f"share of the first {TOP}",
        tuple(panels),
        subtitle=shown.where,
        form=".2f",
        dashes="share of what is relevant",
    )


def _fairness_table(shown: Shown) -> Table:
    """What each arm does within and across languages, and how alike languages are."""
    measures = [
        f"{metric} {where}" for metric in shown.metrics[:2] for where in ("within", "across", "gap")
    ]
    measures += [OWN_RATIO, DISTANCE, PEER]
    frame = shown.frame(
        "languages", pl.col("measure").is_in(measures), _ALL_QUERIES, _ALL_DOCUMENTS
    )
    return Table.from_frame(
        "language-fairness",
        f"Within and across languages ({shown.where})",
        frame.sort(pl.col("measure").cast(pl.Enum(measures)), maintain_order=True),
        heads={"measure": "measure", "arm": ARMS},
        columns={
            "estimate": Column("value [95 %]"),
            **({"change": CHANGE.name, "p_value": P_VALUE} if len(shown.arms) > 1 else {}),
        },
        grouped=1,
        notes=(*_FAIRNESS_NOTES, *([TEST] if len(shown.arms) > 1 else [])),
        brief=True,
    )


def _document_table(shown: Shown) -> Table:
    """The first metric, ranks and the share of the first ranks by language of the document."""
    metric = shown.metrics[0]
    relevant = 1 / len(languages_of(shown.log))
    figures = shown.frame("languages", _ALL_QUERIES, ~_ALL_DOCUMENTS)
    keys = ["arm", "document_language"]
    frame = figures.filter(measure=metric).select("model", *keys, pl.col("^change_.*$"))
    for measure in (metric, OWN_RATIO, ENGLISH_RATIO, SHARE):
        ends = {end: f"{measure}_{end}" for end in ("estimate", "low", "high")}
        columns = figures.filter(measure=measure).select(*keys, *ends).rename(ends)
        frame = frame.join(columns, on=keys, how="left", maintain_order="left")
    return Table.from_frame(
        "document-languages",
        f"By language of the document ({shown.where})",
        frame,
        heads={"arm": ARMS, "document_language": "document"},
        columns={
            metric: Column("mean [95 %]", metric),
            "change": replace(CHANGE, group=metric),
            OWN_RATIO: Column("to the query's language", "rank ratio", form=".2f"),
            ENGLISH_RATIO: Column("to English", "rank ratio", form=".2f"),
            SHARE: Column(f"share of the first {TOP}", "parallel", form=".2f"),
        },
        grouped=1,
        notes=(f"share of what is relevant: {number(relevant, '.2f')} for every language",),
    )


def _pair_table(shown: Shown) -> Table:
    """The numbers of the heat map, with the change of each pair."""
    return Table.from_frame(
        "language-pairs",
        f"{shown.metrics[0]} by language of query and document ({shown.where})",
        shown.of_metric("language_pairs"),
        heads={"arm": ARMS, "query_language": "query", "document_language": "document"},
        columns={"estimate": "mean [95 %]", "change": CHANGE},
        grouped=2,
    )
