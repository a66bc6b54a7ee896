"""What an evaluation shows: verdicts, then quality by position, overall, by index and by length."""

from dataclasses import replace

import polars as pl

from fairspan.corpus.readers import SAMPLE
from fairspan.report.frames import interval, values_of
from fairspan.report.table import CHANGE, P_VALUE, VERDICTS, Column, Table
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import FEW_BARS, Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.benchmark_view import benchmark_view
from fairspan.studies.evaluate.charts import Shown, depth_chart, overall_chart, position_chart
from fairspan.studies.evaluate.haystack import among_words, drawn_notes
from fairspan.studies.evaluate.language_view import ARMS, TEST, language_section
from fairspan.studies.evaluate.measures import RANK, EvaluateEntries, is_benchmark, references_of
from fairspan.studies.evaluate.summary import frames_of
from fairspan.studies.evaluate.temperatures import grid_section
from fairspan.studies.evaluate.vectors import vectors_section

PSI = (
    "PSI: 1 − smallest/largest mean of a position, or of a pair of languages; harmonic: their "
    "harmonic mean"
)
METHODS = (
    """Every query is searched among all documents of its index by exact inner products; equal
    scores are always ranked in the same way. A position is where the evidence of a query is in its
    document.""",
    """Treatments are compared with the first one on the same queries. Clusters of queries share a
    page, an article or a document. Intervals of means resample whole clusters. Intervals of changes
    are t intervals with the jackknife error over clusters, which hold with few clusters as well.
    p values come from exchanging the two sides at random and are corrected by Holm for the number
    of arms.""",
    """Better needs a significant overall gain, or one at the weakest position. Worse is a loss
    beyond the margin: the whole interval is. Not worse means that such a loss is ruled out, and
    slightly worse that it is and a smaller one is shown.
    Treatments are measured on documents and queries, and on documents only. The verdict says if
    there are fewer than 30 clusters.""",
    """Across languages, the verdict looks at the weakest pair of languages instead of the weakest
    position. PEER is the p value of the Kruskal–Wallis test that documents in all languages have
    the same expected rank, averaged over queries; it is taken over the documents that do not answer
    the query. Rank ratios are of geometric means.""",
)
_MEANS: dict[str, Column | str] = {
    "queries": Column("queries", form=",d"),
    "estimate": "mean [95 %]",
    "change": CHANGE,
}


def view_of(log: RunLog) -> View:
    """Everything an evaluation has to show."""
    frames = frames_of(log)
    if is_benchmark(log):
        return benchmark_view(log, frames)
    shown = Shown(log, frames)
    parts = {
        "vectors": vectors_section,
        "languages": language_section,
        "temperatures": grid_section,
        "depths": _by_depth,
        "positions": _by_position,
        "quality": _overall,
        "costs": _costs,
        "by_length": _by_length,
    }
    if "vectors" in shown.frames:
        # So many arms are readable in tables only.
        parts = {name: parts[name] for name in ("vectors", "costs")}
    sections = [section(shown) for frame, section in parts.items() if frame in shown.frames]
    first = sections[0]
    switch = tuple(shown.treatments if "vectors" in shown.frames else shown.arms)
    methods = METHODS if "languages" in shown.frames else METHODS[:-1]
    entries = log.header.part(EvaluateEntries)
    details = [f"{detail[0].upper()}{detail[1:]}." for detail in entries.details]
    return View(
        title=f"What search finds with {model_name(log.model)}",
        heading=_heading(log),
        cards=_cards(shown),
        sections=tuple(sections),
        frames=shown.frames,
        picture=first.heats[0].name if first.heats else first.charts[0].name,
        notes=(*log.notes, *drawn_notes(log)),
        switch=switch,
        all_first=len(switch) <= FEW_BARS,
        methods=(*(" ".join(words.split()) for words in methods), *details),
    )


def _heading(log: RunLog) -> str:
    """Where, and how much was searched in which time."""
    task = log.header.searched
    seconds = log.header.timings.seconds
    among = among_words(task, log.header.part(EvaluateEntries), log.spec.get("corpus", SAMPLE))
    counted = [f"{task.queries:,} queries {among}"]
    counted += [f"{task.indexes} indexes"] if task.indexes and task.indexes > 1 else []
    counted += [f"{seconds:.0f} s"] if seconds is not None else []
    return f"{log.where}: {', '.join(counted)}"


def _cards(shown: Shown) -> tuple[Card, ...]:
    """The baseline, then the verdict on each treatment."""
    first = shown.of_metric("quality").row(0, named=True)
    words = f"{first['metric']} {with_bounds(interval(first))}"
    verdicts = shown.frames["verdicts"]
    if "temperatures" in shown.frames:
        verdicts = _without_all_but_best(verdicts, shown.frames["temperatures"])
    judged = [
        Card(name, verdict, VERDICTS[verdict], (sentence,))
        for name, verdict, sentence in verdicts.select("treatment", "verdict", "sentence").rows()
    ]
    baseline = Card(first["arm"], "baseline", "plain", (words,))
    references = map(str, references_of(shown.log))
    return (baseline, *judged, *(_reference(shown, arm) for arm in references))


def _reference(shown: Shown, arm: str) -> Card:
    """What one vector per chunk finds and takes, without a verdict."""
    quality = shown.of_metric("quality").filter(arm=arm).row(0, named=True)
    cost = shown.frame("costs").filter(arm=arm).row(0, named=True)
    vectors = number(cost["vectors"] / cost["searched_documents"], ".1f")
    words = (
        f"{quality['metric']} {with_bounds(interval(quality))}, with {vectors} vectors per document"
    )
    return Card(arm, "reference", "plain", (words,))


def _without_all_but_best(verdicts: pl.DataFrame, grid: pl.DataFrame) -> pl.DataFrame:
    """Verdicts without those on temperatures, but for the pair that finds most."""
    best = grid.sort("estimate")["treatment"][-1]
    others = grid.filter(pl.col("treatment") != best)["treatment"]
    return verdicts.filter(~pl.col("treatment").is_in(others.to_list()))


def _by_depth(shown: Shown) -> Section:
    """What is found by how far into the document it is."""
    rows = shown.frame("depths").with_columns(
        depth=pl.format("{}–{}", "tokens_from", pl.col("tokens_to") - 1)
    )
    rows = rows.with_columns(pl.col("depth").fill_null(pl.format("{} and more", "tokens_from")))
    table = _group_table(shown, "depths", rows, {"arm": ARMS, "depth": "tokens before it"})
    intro = (
        "How often search finds the right document, by how many tokens of it come before the "
        "evidence. What a vector does not contain cannot be found."
    )
    return Section("Found by depth", intro, charts=(depth_chart(shown),), folded=(table,))


def _group_table(shown: Shown, name: str, rows: pl.DataFrame, heads: dict[str, str]) -> Table:
    """Means and changes by depth or position."""
    title = f"{rows['metric'][0]} by {name.removesuffix('s')} of the evidence ({shown.where})"
    grouped = len(heads) - 1
    return Table.from_frame(name, title, rows, heads=heads, columns=_MEANS, grouped=grouped)


def _by_position(shown: Shown) -> Section:
    """What is found by the position of the evidence."""
    metric = shown.metrics[0]
    plans = {"plan": "plan"} if shown.plans else {}
    rows = shown.frame("positions", pl.col("metric") == metric)
    heads = {**plans, "arm": ARMS, "position": shown.unit}
    table = _group_table(shown, "positions", rows, heads)
    return Section(
        "Search by position",
        f"Bars are the mean {metric} of the queries with evidence there, with 95 % intervals from "
        "resampling whole clusters of queries. Lower bars mean that evidence there is harder to "
        "find.",
        charts=(position_chart(shown),),
        folded=(table,),
    )


def _overall(shown: Shown) -> Section:
    """Every arm over all queries: the first metric with its change, means of the others."""
    first, *others = shown.metrics
    frame = shown.of_metric("quality")
    frame = frame.with_columns(
        mean="estimate", PSI="psi_estimate", harmonic_mean="harmonic_estimate"
    )
    for metric in others:
        rows = shown.frame("quality", pl.col("metric") == metric, pl.col("plan") == "")
        means = rows.select("arm", pl.col("estimate").alias(metric))
        frame = frame.join(means, on="arm", maintain_order="left")
    columns = {"mean": Column("mean", first)}
    columns |= {"change": replace(CHANGE, group=first), "p_value": replace(P_VALUE, group=first)}
    grouped = frame["PSI"].is_not_nan().any()
    if grouped:
        columns["PSI"] = Column("PSI", first, form=".2f")
        columns["harmonic_mean"] = Column("harmonic", first)
    table = Table.from_frame(
        "quality",
        f"Search ({shown.where})",
        frame,
        heads={"arm": ARMS},
        columns={**columns, **{metric: Column(metric) for metric in others}},
        notes=(*([TEST] if len(shown.arms) > 1 else []), *([PSI] if grouped else [])),
        brief="temperatures" not in shown.frames,
    )
    intro = "Means over all queries, with 95 % intervals."
    return Section("Search overall", intro, charts=(overall_chart(shown),), tables=(table,))


def _costs(shown: Shown) -> Section:
    """What each index costs, and what it finds."""
    frame = shown.frame("costs")
    took = ["stored" if seconds is None else f"{seconds:.0f}" for seconds in frame["seconds"]]
    frame = frame.with_columns(
        (pl.col("vectors") / pl.col("searched_documents")).alias("vectors per document"),
        (pl.col("bytes") / 2**20).alias("MiB"),
        pl.Series("time", took, pl.String),
    )
    table = Table.from_frame(
        "index-costs",
        f"What an index costs ({shown.where})",
        frame,
        heads={"arm": ARMS},
        columns={
            "vectors per document": Column("vectors per document", form=".1f"),
            "MiB": Column("MiB", form=".1f"),
            "tokens": Column("tokens read", form=",d"),
            "time": "seconds",
            "estimate": shown.metrics[0],
        },
        notes=("seconds: to embed the documents; stored: the vectors were already in the store",),
        brief=frame["index"].n_unique() > 1 and "vectors" not in shown.frames,
    )
    return Section("Indexes and their costs", tables=(table,))


def _by_length(shown: Shown) -> Section:
    """The shortest and longest queries, and ranks of the longest documents (LC Table 3, Fig. 7)."""
    frame = shown.frame("by_length")
    measure = pl.col("measure").replace(RANK, "mean rank")
    counted = pl.format(
        "{} of the {} ({} of {}–{} tokens)", measure, "group", "count", "tokens_from", "tokens_to"
    )
    order = pl.Enum(values_of(frame, "group"))
    table = Table.from_frame(
        "by-length",
        f"Search by length ({shown.where})",
        frame.with_columns(counted.alias("measured")).sort(
            pl.col("group").cast(order), maintain_order=True
        ),
        heads={"measured": "measure", "arm": ARMS},
        columns={"estimate": "mean [95 %]", "change": CHANGE},
        grouped=1,
    )
    intro = (
        "The shortest and longest fifth of the queries, and the longest fifth of the documents "
        "that answer one."
    )
    return Section("Search by length", intro, tables=(table,), closed=True)
