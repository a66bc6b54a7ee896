"""What an audit shows: verdicts, and a picture and a table for each of its questions."""

from collections.abc import Iterator, Sequence

import polars as pl

from fairspan.report.frames import values_of
from fairspan.report.table import VERDICTS
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import LogKind, RunLog
from fairspan.studies.audit.charts import attention_chart, language_chart, position_chart
from fairspan.studies.audit.measures import POSITION_MEASURES
from fairspan.studies.audit.options import AuditAnalysis
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.audit.summary import summarize
from fairspan.studies.audit.tables import (
    Frames,
    attention_table,
    coefficient_tables,
    fidelity_table,
    language_table,
    verdict_table,
)

METHODS = (
    """The orders of a set of segments are balanced: every segment is at every position equally
    often, so that content is not confused with position.""",
    """Representation is the cosine between the vector of the whole document and the vector of one
    of its segments embedded alone. Least squares on the positions, with errors clustered on the
    sets of segments, give the means, the differences from position 1 and their intervals.""",
    """A treatment is fair if the difference of every two positions is significantly smaller than
    the margin, biased if at least one is significantly larger (after Holm's correction over the
    pairs of positions of all families of documents), and inconclusive otherwise. In documents of
    two languages, position 1 is the only one in its language and is not compared.""",
    """Treatments change attention while the model runs, never its weights. Segments and documents
    are embedded under the same treatment unless the treatment says otherwise.""",
    """Two languages are compared in documents of just these two, in both orders, at the same
    position, and at the same length of segments where lengths vary. They are judged as positions
    are, with Holm's correction over all pairs of languages and all sizes of documents.""",
)


def view_of(log: RunLog) -> View:
    """Everything that an audit has to show."""
    frames, notes = summarize(log, log.analysis)
    model = model_name(log.model)
    sections = [*_position_sections(frames, model), *_document_sections(frames, log)]
    if "families" in frames:
        first, *others = coefficient_tables(frames, model)
        folded = (verdict_table(frames, model, notes), *others)
        sections.append(Section("Tables", tables=(first,), folded=folded))
    methods = METHODS if "languages" in frames else METHODS[:-1]
    return View(
        title=f"How fairly {model} represents each part of a text",
        heading=_heading(log),
        cards=tuple(_cards(frames)),
        sections=tuple(sections),
        frames=frames,
        picture=next((chart.name for section in sections for chart in section.charts), ""),
        notes=tuple(notes),
        methods=tuple(" ".join(method.split()) for method in methods),
    )


def _position_sections(frames: Frames, model: str) -> Iterator[Section]:
    """For each measure its positions, and languages where two lead each other."""
    means = frames.get("means", pl.DataFrame({"measure": []}))
    languages = frames.get("languages", pl.DataFrame({"measure": []}))
    for measure in values_of(means, "measure"):
        words = POSITION_MEASURES[measure]
        yield Section(words.title, words.intro, (position_chart(frames, measure, model),))
        rows = languages.filter(measure=measure)
        if len(rows):
            intro = (
                f"Dots show by how much the first language is better {words.done} than the second "
                "in documents of both, at the same position, averaged over the two orders, with "
                "95 % intervals. Above 0 it is favoured. Differences in the shaded area, within "
                f"±{rows['margin'][0]:g}, count as fair."
            )
            charts = (language_chart(frames, measure, model),)
            tables = (language_table(rows, model),)
            yield Section(f"Which languages are better {words.done}", intro, charts, tables=tables)


def _document_sections(frames: Frames, log: RunLog) -> Iterator[Section]:
    """Where attention goes, and how far treatments move vectors."""
    model = model_name(log.model)
    if "attention" in frames:
        intro = (
            "The mean share of attention that each basket of the text gets from the pooled row, in "
            "the last half of the layers, with 95 % intervals. Special tokens are on the right. "
            "Text with more attention has more influence on the vector."
        )
        chart = attention_chart(frames, log.spec.get("attention_basket_size", 128), model)
        tables = (attention_table(frames["attention"], model),)
        yield Section("Where attention goes", intro, (chart,), tables=tables)
    if "fidelity" in frames:
        first = log.treatments[0]
        intro = (
            f"The cosine of a document's vector under a treatment and under {first}: how little "
            "the treatment moves the vector. 1 is the same vector."
        )
        tables = (fidelity_table(frames["fidelity"], model, first),)
        yield Section("How far treatments move vectors", intro, tables=tables)


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
        sentences = [row["sentence"]]
        key = {"measure": row["measure"], "treatment": row["treatment"]}
        spreads = sorted(frames["families"].filter(**key)["spread_estimate"].drop_nulls())
        ends = dict.fromkeys(map(number, spreads[:1] + spreads[-1:]))
        if ends:
            sentences.append(f"spread between positions {' to '.join(ends)}")
        about = f" · {row['measure']}" if several else ""
        yield _card(row, about, sentences)
    for row in frames.get("language_verdicts", pl.DataFrame()).iter_rows(named=True):
        about = f" · {row['measure']} by language" if several else " · languages"
        yield _card(row, about, [row["sentence"]])


def _card(row: dict[str, str], about: str, sentences: Sequence[str]) -> Card:
    kind = row["verdict"]
    return Card(row["treatment"] + about, kind, VERDICTS[kind], tuple(sentences))


LOG = LogKind(SCHEMA, view_of, AuditAnalysis)
