"""What an evaluation shows: verdicts, then quality by depth, length and overall, and costs."""

from dataclasses import replace
from typing import Any

import polars as pl

from fairspan.report.frames import values_of
from fairspan.report.table import CHANGE, P_VALUE, Column, Table, Tone
from fairspan.report.text import model_name, number, with_ends
from fairspan.report.view import Card, Section, View
from fairspan.retrieval.indexes import KEYWORDS, ONE_PER_CHUNK
from fairspan.retrieval.passages import LEAST_WORDS
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.log import LogKind, RunLog
from fairspan.stats.gains import is_worse
from fairspan.studies.evaluate.charts import Shown, depth_chart, group_chart, overall_chart
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.options import SearchAnalysis
from fairspan.studies.evaluate.ranking import RANK, SCHEMA
from fairspan.studies.evaluate.summary import frames_of
from fairspan.studies.evaluate.vectors import enough_words, vectors_section
from fairspan.studies.evaluate.verdicts import verdicts_of

ARMS = "searched with"
TONES: dict[str, Tone] = {"better": "good", "inconclusive": "open"}
_FEW = 100
"""Search among fewer documents is much easier than in most indexes."""
_NEARLY_ALL = 0.9
METHODS = (
    """Every query is searched among all documents by exact inner products; equal scores are always
    ranked in the same way. Keywords are BM25 (k1 1.5, b 0.75), without stemming. "and keywords":
    both rankings fused by reciprocal ranks (k = 60), as databases do; changes of these are against
    the first treatment with keywords.""",
    """Treatments are compared with the first one on the same queries. Clusters of queries share a
    document. Intervals are t intervals with the jackknife error over clusters. p values are
    corrected by Holm for the number of treatments.""",
    """Better: the interval of the change is above 0 (p < 0.05). Worse: it is below 0, and a loss
    beyond the margin is not ruled out; slightly worse: it is below 0, and all of it is within the
    margin. Not worse: a loss beyond the margin is ruled out, and neither gain nor loss is shown.
    Inconclusive: such a loss is not ruled out. Short documents fit into the plain model's window,
    long ones exceed it: if either are worse, the verdict says so.""",
    """PSI: 1 − smallest/largest mean of a fifth of the documents.""",
)
_MEANS: dict[str, Column | str] = {
    "queries": Column("queries", form=",d"),
    "estimate": "mean [95 %]",
    "change": CHANGE,
}


def view_of(log: RunLog) -> View:
    """Everything an evaluation has to show."""
    _ = log.header.part(EvaluateEntries)  # which runs of older versions lack
    shown = Shown(log, frames_of(log, log.analysis))
    parts = {
        "vectors": vectors_section,
        "depths": _by_depth,
        "quality": _overall,
        "lengths": _by_window,
        "positions": _by_position,
        "languages": _by_language,
        "costs": _costs,
        "by_length": _by_length,
    }
    if "lengths" in shown.frames and shown.frames["lengths"]["length"].n_unique() < 2:
        del parts["lengths"]
    if "vectors" in shown.frames:
        # So many arms are readable in tables only.
        parts = {name: parts[name] for name in ("vectors", "costs")}
    sections = [section(shown) for frame, section in parts.items() if frame in shown.frames]
    return View(
        title=f"What search finds with {model_name(log.model)}",
        heading=_heading(shown),
        cards=_cards(shown),
        sections=tuple(sections),
        frames=shown.frames,
        picture=sections[0].charts[0].name,
        remarks=tuple(enough_words(shown)) if "vectors" in shown.frames else (),
        notes=(*log.notes, *_easy(shown)),
        methods=tuple(" ".join(words.split()) for words in METHODS),
    )


def _heading(shown: Shown) -> str:
    """Where, and how much was searched in which time."""
    log = shown.log
    task = log.header.searched
    drawn = shown.entries.drawn_from
    among = f"{task.documents:,} documents"
    if drawn is not None and shown.entries.drawn not in (None, task.documents):
        among += f" ({shown.entries.drawn:,} and their translations), drawn from {drawn:,}"
    elif drawn is not None:
        among += f", drawn from {drawn:,}"
    seconds = log.header.timings.seconds
    took = "" if seconds is None else f", {seconds:.0f} s"
    return f"{log.where}: {task.queries:,} queries among {among}{took}"


def _easy(shown: Shown) -> list[str]:
    """Notes if few documents make search easy, or if nearly everything is found."""
    if shown.entries.kind != PASSAGES:
        return []
    count = shown.log.header.searched.documents
    notes = []
    if shown.entries.drawn_from is not None or count < _FEW:
        easier = "fewer documents make search easier: expect less in an index of more than"
        notes.append(f"{easier} {count:,}")
    first = shown.of_metric("quality").row(0, named=True)
    words = shown.log.spec.get("query_words", 0)
    if first["estimate"] > _NEARLY_ALL and words > 2 * LEAST_WORDS:
        notes.append(
            f"{first['arm']} finds nearly everything, which leaves little to gain: shorter queries "
            f"show more (`--query-words {words // 2}`)"
        )
    return notes


def tone_of(verdict: str) -> Tone:
    """The colour of a verdict."""
    return "bad" if is_worse(verdict) else TONES.get(verdict, "plain")


def _cards(shown: Shown) -> tuple[Card, ...]:
    """The baseline, the verdict on each treatment, and the references."""
    quality = shown.of_metric("quality")
    first = quality.row(0, named=True)
    cards = [_card(first, "baseline")]
    for verdict in verdicts_of(shown.log, shown.log.analysis.margin):
        sentences = verdict.sentences
        tone = tone_of(verdict.verdict)
        cards.append(Card(verdict.treatment, verdict.verdict, tone, sentences, len(sentences)))
    if "vectors" in shown.frames:
        return tuple(cards)
    references = quality.filter(pl.col("index").is_in([ONE_PER_CHUNK, KEYWORDS]))
    return (*cards, *(_card(row, "reference", _size(shown, row)) for row in references.to_dicts()))


def _card(row: dict[str, Any], badge: str, more: str = "") -> Card:
    """What something finds that has no verdict."""
    words = f"{row['metric']} {with_ends(row['estimate'], row['low'], row['high'])}{more}"
    return Card(str(row["arm"]), badge, "plain", (words,))


def _size(shown: Shown, row: dict[str, Any]) -> str:
    """How many vectors a reference stores, or that passages favour keywords."""
    if row["index"] != ONE_PER_CHUNK:
        drawn = shown.entries.kind == PASSAGES
        return "; a passage shares more words with its document than a question" if drawn else ""
    cost = shown.frame("costs").filter(arm=row["arm"]).row(0, named=True)
    return f", with {number(cost['vectors'] / cost['documents'], '.1f')} vectors per document"


def _by_depth(shown: Shown) -> Section:
    """What is found by how far into the document it is."""
    rows = shown.frame("depths").with_columns(
        depth=pl.format("{}–{}", "tokens_from", pl.col("tokens_to") - 1)
    )
    rows = rows.with_columns(pl.col("depth").fill_null(pl.format("{} and more", "tokens_from")))
    title = f"{rows['metric'][0]} by depth of the evidence"
    table = _group_table(shown, "depths", rows, title, {"depth": "tokens before it"})
    intro = (
        "How often search finds the right document, by the number of its tokens before the "
        "evidence. Search cannot find what a vector does not contain."
    )
    return Section("Found by depth", intro, charts=(depth_chart(shown),), folded=(table,))


def _group_table(
    shown: Shown, name: str, rows: pl.DataFrame, title: str, head: dict[str, str]
) -> Table:
    """Means and changes by groups of queries."""
    heads = {"arm": ARMS, **head}
    title = f"{title} ({shown.where})"
    return Table(name, title, rows, heads=heads, columns=_MEANS, grouped=1)


def _by_window(shown: Shown) -> Section:
    """What is found of short and of long documents."""
    rows = shown.frame("lengths")
    window = shown.entries.window or 0
    table = _group_table(
        shown, "lengths", rows, f"{shown.metrics[0]} of short and long documents", {"length": ""}
    )
    intro = (
        f"Short documents fit into the plain model's window of {window:,} tokens, long ones exceed "
        "it. All are in one index."
    )
    title = "Short and long documents"
    chart = group_chart(shown, "lengths", "length", "documents", title)
    return Section(title, intro, charts=(chart,), tables=(replace(table, brief=True),))


def _by_position(shown: Shown) -> Section:
    """What is found by the position of the evidence."""
    rows = shown.frame("positions")
    title = f"{shown.metrics[0]} by fifth of the document"
    table = _group_table(shown, "positions", rows, title, {"position": "fifth"})
    chart = group_chart(shown, "positions", "position", "fifth with the evidence", "Found by fifth")
    intro = "A lower point means that evidence in this fifth is harder to find."
    return Section("Search by position", intro, charts=(chart,), folded=(table,))


def _by_language(shown: Shown) -> Section:
    """What is found of documents in each language."""
    rows = shown.frame("languages")
    title = f"{shown.metrics[0]} by language of the document"
    table = _group_table(shown, "languages", rows, title, {"language": "language"})
    chart = group_chart(
        shown, "languages", "language", "language of the document", "Found by language"
    )
    intro = "All languages are in one index; translations of the right document are ignored."
    tables = (replace(table, brief=True),)
    return Section("Search by language", intro, charts=(chart,), tables=tables)


def _overall(shown: Shown) -> Section:
    """Every arm over all queries: the first metric with its change, means of the others."""
    first, *others = shown.metrics
    frame = shown.of_metric("quality")
    for metric in others:
        rows = shown.frame("quality", pl.col("metric") == metric)
        means = rows.select("arm", pl.col("estimate").alias(metric))
        frame = frame.join(means, on="arm", maintain_order="left")
    frame = frame.with_columns(mean="estimate")
    columns: dict[str, Column | str] = {"mean": Column("mean", first)}
    columns |= {"change": replace(CHANGE, group=first), "change_p": replace(P_VALUE, group=first)}
    if frame["psi"].is_not_null().any():
        columns["psi"] = Column("PSI", first, form=".2f")
    table = Table(
        "quality",
        f"Search ({shown.where})",
        frame,
        heads={"arm": ARMS},
        columns={**columns, **{metric: Column(metric) for metric in others}},
        brief=True,
    )
    intro = "Means over all queries, with 95 % intervals."
    return Section("Search overall", intro, charts=(overall_chart(shown),), tables=(table,))


def _costs(shown: Shown) -> Section:
    """What each index costs, and what it changes."""
    frame = shown.frame("costs")
    took = ["stored" if seconds is None else f"{seconds:.0f}" for seconds in frame["seconds"]]
    frame = frame.with_columns(
        (pl.col("vectors") / pl.col("documents")).alias("vectors per document"),
        (pl.col("bytes") / 2**20).alias("MiB"),
        pl.Series("time", took, pl.String),
    )
    table = Table(
        "index-costs",
        f"What an index costs ({shown.where})",
        frame,
        heads={"arm": ARMS},
        columns={
            "vectors per document": Column("vectors per document", form=".1f"),
            "MiB": Column("MiB", form=".1f"),
            "tokens": Column("tokens read", form=",d"),
            "time": "seconds",
            "changed": Column("other vectors", form=",d"),
            "distance": Column("mean distance", form=".3f"),
        },
        notes=(
            "seconds: to embed the documents; stored: the vectors were already in the store",
            "other vectors: documents whose vector changes; distance: 1 − cosine",
        ),
    )
    return Section("Indexes and their costs", tables=(table,))


def _by_length(shown: Shown) -> Section:
    """The shortest and longest queries, and ranks of the longest documents (LC Table 3, Fig. 7)."""
    frame = shown.frame("by_length")
    measure = pl.col("measure").replace(RANK, "mean rank")
    counted = pl.format(
        "{} of the {} ({} of {}–{} tokens)", measure, "group", "queries", "tokens_from", "tokens_to"
    )
    order = pl.Enum(values_of(frame, "group"))
    table = Table(
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


LOG = LogKind(SCHEMA, view_of, SearchAnalysis)
