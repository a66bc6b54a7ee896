"""What an audit shows: verdicts, profiles, attention and tables, made from its frames."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log as logarithm

import polars as pl

from fairspan.report.frames import Estimate, in_order, interval
from fairspan.report.table import VERDICTS, Column, Table
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import FEW_BARS, Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.studies.audit.charts import Shown, attention_section, sections_of
from fairspan.studies.audit.summary import summarize
from fairspan.studies.audit.tables import Frames, attention_tables, reason, tables_of

METHODS = (
    """Documents are built from segments that were written independently of each other. The orders
    are balanced: every segment is at every position equally often, so that content is not confused
    with position.""",
    """Representation is the cosine between the vector of the whole document and the vector of one
    of its segments embedded alone. Least squares on the positions, with errors clustered on the
    sets of segments, give the means, the differences from position 1 and their intervals.""",
    """A treatment is fair if the difference of every two positions is significantly smaller than
    the margin, biased if at least one is significantly larger (after Holm's correction over the
    pairs of positions of all families of documents), and inconclusive otherwise. For inconclusive
    ones the number of further sets that would decide is estimated. In documents of two languages,
    position 1 is the only one in its language and is not compared.""",
    """Treatments change attention while the model runs, never its weights. Segments and documents
    are embedded under the same treatment unless the treatment says otherwise.""",
    """Two languages are compared in documents of just these two, in both orders: at each position
    the one minus the other, averaged over positions, at the same length of segments where lengths
    vary. They are judged as positions are, with Holm's correction over all pairs of languages and
    all sizes of documents.""",
)


def view_of(log: RunLog) -> View:
    """Everything that an audit has to show."""
    frames, notes = summarize(log)
    shown = Shown(model_name(log.model), frames)
    sections = list(sections_of(shown))
    if "attention" in frames:
        section = attention_section(shown, log.spec.get("attention_basket_size", 128))
        folded = tuple(attention_tables(frames["attention"]))
        sections.append(replace(section, folded=folded))
    if "fidelity" in frames:
        sections.append(_fidelity_section(frames["fidelity"], log))
    tables = list(tables_of(frames, log.model, notes))
    if tables:
        first = next(table for table in tables if "-coefficients" in table.name)
        folded = tuple(table for table in tables if table is not first)
        sections.append(Section("Tables", tables=(first,), folded=folded))
    methods = METHODS if "languages" in frames else METHODS[:-1]
    return View(
        title=f"How fairly {shown.model} represents each part of a text",
        heading=_heading(log),
        cards=tuple(_cards(frames)),
        sections=tuple(sections),
        frames=frames,
        picture=next((chart.name for section in sections for chart in section.charts), ""),
        remarks=tuple(_joint_sentences(frames)),
        notes=tuple(notes),
        switch=shown.treatments,
        all_first=len(shown.treatments) <= FEW_BARS,
        methods=tuple(" ".join(method.split()) for method in methods),
    )


def _fidelity_section(frame: pl.DataFrame, log: RunLog) -> Section:
    """How far treatments move the vectors of documents."""
    first = log.treatments[0]
    table = Table.from_frame(
        "fidelity",
        f"Cosine of each document's vector and that under {first} ({model_name(log.model)})",
        in_order(frame, "plan", "n", "treatment"),
        heads=("plan", "n", "treatment"),
        columns={"estimate": "mean [95 %]", "documents": Column("documents", form=",d")},
        grouped=2,
        brief=True,
    )
    intro = (
        f"The cosine of a document's vector under a treatment and under {first}: how much of what "
        "the vector said it still says. 1 is the same vector."
    )
    return Section("How far treatments move vectors", intro, tables=(table,))


def together(logs: Sequence[tuple[str, RunLog]]) -> tuple[tuple[str, ...], list[Section]]:
    """The switch for several labelled runs, and their profiles on common axes."""
    frames = {}
    for name in ("verdicts", "means", "coefficients", "languages", "joint"):
        labelled = [
            log.view.frames[name].with_columns(treatment=f"{label}: " + pl.col("treatment"))
            for label, log in logs
            if name in log.view.frames
        ]
        if labelled:
            frames[name] = pl.concat(labelled, how="diagonal_relaxed")
    models = dict.fromkeys(model_name(log.model) for _, log in logs)
    shown = Shown(" and ".join(models), frames)
    return shown.treatments, list(sections_of(shown))


def _heading(log: RunLog) -> str:
    seconds = log.header.timings.seconds
    sizes = ", ".join(map(str, log.spec["sizes"]))
    took = "" if seconds is None else f", {number(seconds, '.0f')} s"
    plans = ", ".join(log.header.plans or ())
    return f"{log.where}: {log.header.documents} documents of {sizes} segments, {plans}{took}"


def _cards(frames: Frames) -> Iterator[Card]:
    """The verdict on every treatment, measure by measure, and then on languages."""
    verdicts = frames["verdicts"]
    several = verdicts["measure"].n_unique() > 1
    for row in verdicts.iter_rows(named=True):
        sentences = [reason(row)]
        if "unevenness" in frames:
            key = {"measure": row["measure"], "treatment": row["treatment"]}
            spreads = sorted(frames["unevenness"].filter(**key)["spread_estimate"])
            ends = dict.fromkeys(map(number, spreads[:1] + spreads[-1:]))
            if ends:
                sentences.append(f"spread between positions {' to '.join(ends)}")
        about = f" · {row['measure']}" if several else ""
        yield _card(row, about, sentences)
    for row in frames.get("language_verdicts", pl.DataFrame()).iter_rows(named=True):
        about = f" · {row['measure']} by language" if several else " · languages"
        yield _card(row, about, [reason(row)])


def _card(row: dict[str, str], about: str, sentences: Sequence[str]) -> Card:
    kind = row["verdict"]
    return Card(row["treatment"] + about, kind, VERDICTS[kind], tuple(sentences))


def _joint_sentences(frames: Frames) -> Iterator[str]:
    """What the model over all plans says about position, language and length."""
    if "joint" not in frames:
        return
    keys = ("measure", "treatment", "n")
    groups = frames["joint"].partition_by(keys, as_dict=True, maintain_order=True)
    for (measure, treatment, n), rows in groups.items():
        parts = []
        for effect in ("model", "position", "language"):
            parts += _effect_words(rows.filter(effect=effect), effect, "mixed" in rows["plans"])
        for slope in rows.filter(effect="log_tokens").iter_rows(named=True):
            words = "the effect of length is not estimated"
            if not slope["reason"]:
                ends = [slope[name] * logarithm(2) for name in ("estimate", "low", "high")]
                words = f"a segment twice as long: {with_bounds(Estimate(*ends), '+.3f')}"
            parts.append(words)
        yield f"{treatment}, n={n}, {measure}, all plans together: {'; '.join(parts)}"


def _effect_words(rows: pl.DataFrame, effect: str, mixed: bool) -> list[str]:
    """The differences that one effect makes, and the reasons for those that are not estimated."""
    words = []
    estimated = rows.filter(pl.col("reason").is_null()).to_dicts()
    if estimated:
        differences = [f"{row[effect]} {with_bounds(interval(row), '+.3f')}" for row in estimated]
        averaged_mixed = any("(mixed)" in row["averaged_over"] for row in estimated)
        where = " in documents of one language" if mixed and not averaged_mixed else ""
        against = estimated[0]["against"]
        words.append(f"{effect} against {against}{where}: {', '.join(differences)}")
    return words + [text.removesuffix(".") for text in rows["reason"].drop_nulls()]
