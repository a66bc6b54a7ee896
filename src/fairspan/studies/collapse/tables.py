"""The tables of a study of length: geometry, classification and attention by length, bounds, repeated words."""

from collections.abc import Sequence
from itertools import product

import polars as pl

from fairspan.report.table import Cell, Column, Row, Table, row
from fairspan.report.text import model_name
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import LengthSummary

BY_MEASURE = ("measure", "treatment")
LABELS = {
    "cosine": "mean pairwise cosine",
    "distance": "distance to the centre",
    "rank": "effective rank",
    "correct": "accuracy",
    "entropy": "entropy in nats",
    "sigma_a": "σ_a",
    "theorem_3": "Theorem 3's bound on σ_a",
    "sigma_s": "σ_s of the scores",
    "filter_rate": "log filter rate",
    "theorem_2": "Theorem 2's bound on the filter rate",
    "hc_dc": "‖HC‖/‖DC‖",
    WORDS: "raw word embeddings",
}
MEANINGS = {
    "cosine": "how similar different texts of one length are",
    "distance": "mean over texts, each to the mean of the others",
    "rank": "how many directions the texts really use",
    "sigma_a": "the smaller it is, the more similar attention makes the tokens",
    "filter_rate": "how much of the differences between tokens a layer keeps (logarithm)",
    "hc_dc": "how much the tokens of a text differ from their mean",
}


def label(name: str) -> str:
    """The words for a measure or the control; a treatment has its own name."""
    return LABELS.get(name, name)


def meaning(measure: str) -> str:
    """A measure and what it says, in one line."""
    return f"{label(measure)}: {MEANINGS[measure]}"


def caution(summary: LengthSummary, measure: str) -> str:
    """What limits an effective rank where dimensions do not: it is less than the number of documents."""
    most = summary.documents - 1
    if measure != "rank" or 0 < summary.dimensions <= most:
        return ""
    return f"; at most {most} with {summary.documents} documents, so it only compares lengths and treatments"


def tables_of(summary: LengthSummary) -> list[Table]:
    """The tables that the study has numbers for, the most important first."""
    made = (geometry_table, classification_table, last_layer_table, filter_table, bounds_table, repeated_table)
    return [table for make in made if (table := make(summary)).rows]


def where(summary: LengthSummary) -> str:
    """The model and the corpus, for titles."""
    return f"{model_name(summary.log.model)} on {model_name(str(summary.log.header['corpus']['name']))}"


def geometry_table(summary: LengthSummary) -> Table:
    """Every measure of the vectors by length, and what each doubling of length adds."""
    rows = []
    for measure, name in product(summary.measures, summary.controlled):
        values = [summary.value(name, measure, length) for length in summary.lengths]
        doubling = Cell(summary.value(name, measure, None, "doubling"), "+.4f")
        rows.append(
            row(label(measure), label(name), cells=[*(Cell(one and one.estimate) for one in values), doubling])
        )
    title, columns = "Vectors of texts by length", (*_lengths(summary), Column(f"each doubling [{summary.percent}]"))
    notes = [meaning(measure) + caution(summary, measure) for measure in summary.measures]
    return _table(summary, "geometry", title, BY_MEASURE, columns, rows, summary.geometry, notes, brief=True)


def classification_table(summary: LengthSummary) -> Table:
    """Accuracy and entropy of a classifier by length, with a star where a treatment changes them."""
    frame, first = summary.classification, summary.baseline
    rows = []
    for measure, name in product(frame["measure"].unique(maintain_order=True), summary.treatments):
        values = [summary.value(name, measure, length) for length in summary.lengths]
        changes = [summary.value(name, measure, length, first) for length in summary.lengths]
        stars = ["*" if one and (one.low > 0 or one.high < 0) else "" for one in changes]
        cells = [Cell(one and one.estimate, mark=star) for one, star in zip(values, stars, strict=True)]
        rows.append(row(label(measure), name, cells=[*cells]))
    title, columns = "A classifier by length", _lengths(summary)
    notes = [f"*: differs from {first}, 0 is outside the {summary.percent} interval of the change"]
    return _table(summary, "classification", title, BY_MEASURE, columns, rows, frame, notes, brief=True)


def last_layer_table(summary: LengthSummary) -> Table:
    """σ by length in the last layer; the frame has every quantity of every layer."""
    shown = pl.concat([summary.last_layers.filter(measure=one) for one in ("sigma_a", "theorem_3", "sigma_s")])
    rows = _rows(summary, shown, BY_MEASURE, "length", summary.lengths)
    title, columns = "Attention of the last layer by length", _lengths(summary)
    notes = [meaning("sigma_a"), *bound_sentences(summary)]
    return _table(summary, "spectra", title, BY_MEASURE, columns, rows, summary.spectra, notes, brief=True)


def filter_table(summary: LengthSummary) -> Table:
    """What each layer keeps of the differences between tokens."""
    frame = summary.spectra.filter(measure="filter_rate")
    layers = sorted(frame["layer"].unique())
    rows = _rows(summary, frame, ("treatment", "length"), "layer", layers, form="+.2f")
    title, columns = "Log filter rate by layer", [Column(str(layer + 1), "layer") for layer in layers]
    heads, notes = ("treatment", "tokens"), [meaning("filter_rate")]
    return _table(summary, "filter-rates", title, heads, columns, rows, frame, notes)


def bounds_table(summary: LengthSummary) -> Table:
    """In how many layers of texts the theorems' bounds do not hold."""
    rows = [
        row(label(bound), name, cells=[Cell(above, ",d"), Cell(total, ",d")])
        for name, _, bound, above, total in summary.bounds.rows()
    ]
    title, columns = "Layers of texts in which a bound does not hold", (Column("above the bound"), Column("of"))
    return _table(summary, "bounds", title, ("bound", "treatment"), columns, rows, summary.bounds)


def bound_sentences(summary: LengthSummary) -> list[str]:
    """Where the theorems' bounds hold on these weights, and where not."""
    counts = summary.bounds.group_by("bound", maintain_order=True).agg(pl.col("above").sum(), pl.col("of").sum())
    return [
        f"{LABELS[bound]} {f'does not hold in {above:,} of' if above else 'holds in all'} {total:,} layers of the "
        "texts that were measured"
        for bound, above, total in counts.rows()
    ]


def repeated_table(summary: LengthSummary) -> Table:
    """The cosine of two repeated words by repetitions."""
    frame = summary.repeated
    times = frame["times"].unique(maintain_order=True).to_list()
    rows = _rows(summary, frame, ("treatment",), "times", times, value="cosine")
    title, columns = "Cosine of “dog dog …” and “cat cat …”", [Column(str(count), "repetitions") for count in times]
    return _table(summary, "repeated-words", title, ("treatment",), columns, rows, frame)


def _table(
    summary: LengthSummary,
    name: str,
    title: str,
    heads: tuple[str, ...],
    columns: Sequence[Column],
    rows: Sequence[Row],
    frame: pl.DataFrame,
    notes: Sequence[str] = (),
    *,
    brief: bool = False,
) -> Table:
    """A table whose title names the model and the corpus, and whose rows are grouped by the first of two heads."""
    full, grouped = f"{title} ({where(summary)})", len(heads) - 1
    return Table(name, full, heads, tuple(columns), tuple(rows), frame, grouped, tuple(notes), brief)


def _lengths(summary: LengthSummary) -> tuple[Column, ...]:
    return tuple(Column(summary.name(length), "tokens") for length in summary.lengths)


def _rows(
    summary: LengthSummary,
    frame: pl.DataFrame,
    heads: Sequence[str],
    key: str,
    keys: Sequence[int],
    value: str = "estimate",
    form: str = ".3f",
) -> list[Row]:
    """One row for each combination of the columns `heads`, with the value of each of `keys`."""
    found = []
    for names, own in frame.group_by(*heads, maintain_order=True):
        named = [summary.name(name) if isinstance(name, int) else label(str(name)) for name in names]
        values = dict(own.select(key, value).rows())
        found.append(row(*named, cells=[Cell(values.get(one), form) for one in keys]))
    return found
