"""The tables of a study of length: verdicts, geometry, classification and spectra by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairspan.report.tables.named import NamedTable, Record
from fairspan.report.tables.table import Column, Row, Table
from fairspan.report.tables.text import UNKNOWN, interval, model_name, number
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import SPECTRA, Estimate, LengthSummary

GEOMETRY = {
    "cosine": "Mean pairwise cosine: how alike different texts of one length are",
    "distance": "Mean distance to the centre of the other texts",
    "rank": "Effective rank: how many directions the texts really use",
}
CLASSIFICATION = {"correct": "Accuracy of a classifier", "entropy": "Entropy of a classifier's predictions, in nats"}
LAST_LAYER = {
    "sigma_a": "σ_a of the attention",
    "theorem_3": "Theorem 3's bound on σ_a",
    "sigma_s": "σ_s of the attention scores",
}
TOKENS = "tokens"


def length_tables(summary: LengthSummary) -> list[NamedTable]:
    """All tables of a study, verdicts first."""
    found = [verdict_table(summary)]
    found += [geometry_table(summary, measure) for measure in summary.measures]
    found += [
        classification_table(summary, measure)
        for measure in CLASSIFICATION
        if summary.classified(summary.baseline, measure, summary.lengths[0]) is not None
    ]
    for table in (last_layer_table(summary), filter_table(summary), bounds_table(summary), repeated_table(summary)):
        found += [table] if table is not None else []
    return found


def verdict_table(summary: LengthSummary) -> NamedTable:
    """Whether long texts are more alike than short ones, and what the geometry suggests."""
    rows = [Row((name,), (summary.verdict(name),)) for name in summary.treatments]
    said = [
        f"suggested by geometry alone: {summary.advice()}",
        summary.fitted(),
        summary.theory(),
        *summary.log.notes,
    ]
    columns = (Column("verdict", align="wrap"),)
    notes = tuple(sentence for sentence in said if sentence is not None)
    table = Table(f"Length and likeness ({_where(summary)})", ("treatment",), columns, tuple(rows), notes=notes)
    suggested = {str(length): value for length, value in summary.suggestion()}
    records: list[Record] = [
        {
            "model": summary.log.model,
            "treatment": name,
            "sentence": summary.verdict(name),
            **{f"suggested_{length}": value for length, value in suggested.items()},
        }
        for name in summary.treatments
    ]
    return NamedTable("verdicts", table, tuple(records))


def geometry_table(summary: LengthSummary, measure: str) -> NamedTable:
    """One measure by length, with what each doubling adds."""
    rows = []
    for name in [*summary.treatments, *([WORDS] if summary.value(WORDS, measure, summary.lengths[0]) else [])]:
        cells = [_text(summary.value(name, measure, length)) for length in summary.lengths]
        cells.append(interval(summary.value(name, measure, None, "doubling"), sign=True))
        rows.append(Row(("raw word embeddings" if name == WORDS else name,), tuple(cells)))
    columns = (*_lengths(summary), Column("each doubling [95 %]"))
    title = f"{GEOMETRY.get(measure, measure)} ({_where(summary)})"
    entries = [entry for entry in summary.log.header["geometry"] if entry["measure"] == measure]
    return NamedTable(
        f"geometry-{measure}", Table(title, ("treatment",), columns, tuple(rows)), _entries(summary, entries)
    )


def classification_table(summary: LengthSummary, measure: str) -> NamedTable:
    """Accuracy or entropy by length, with a star where a treatment changes it."""
    rows = []
    for name in summary.treatments:
        cells = []
        for length in summary.lengths:
            change = summary.classified(name, measure, length, summary.baseline)
            star = "*" if change is not None and change.differs else ""
            cells.append(_text(summary.classified(name, measure, length)) + star)
        rows.append(Row((name,), tuple(cells)))
    title = f"{CLASSIFICATION[measure]} ({_where(summary)})"
    note = f"*: differs from {summary.baseline}, 0 lies outside the 95 % interval of the change"
    table = Table(title, ("treatment",), _lengths(summary), tuple(rows), notes=(note,))
    entries = [entry for entry in summary.log.header["classification"] if entry["measure"] == measure]
    return NamedTable(f"classification-{measure}", table, _entries(summary, entries))


def last_layer_table(summary: LengthSummary) -> NamedTable | None:
    """σ by length in the last layer; in the records every quantity of every layer. None where unmeasured."""
    rows = []
    for measure, title in LAST_LAYER.items():
        for name in summary.treatments:
            found = summary.spectrum(measure, name)
            if found.is_empty():
                continue
            last = found.filter(found["layer"] == found["layer"].max())
            by_length = dict(last.select("length", "value").rows())
            cells = tuple(number(by_length.get(length)) for length in summary.lengths)
            rows.append(Row((title, name), cells))
    if not rows:
        return None
    records: list[Record] = [
        {"model": summary.log.model, "treatment": name, "measure": measure, **row}
        for name in summary.treatments
        for measure in SPECTRA
        for row in summary.spectrum(measure, name).to_dicts()
    ]
    title = f"Spread of attention in the last layer ({_where(summary)})"
    notes = ("the less σ_a, the more alike attention makes the tokens",)
    table = Table(title, ("", "treatment"), _lengths(summary), tuple(rows), grouped=1, notes=notes)
    return NamedTable("spectra", table, tuple(records))


def filter_table(summary: LengthSummary) -> NamedTable | None:
    """What each layer leaves of the differences between tokens; None where unmeasured."""
    rows: list[Row] = []
    records: list[Record] = []
    found = {name: summary.spectrum("filter_rate", name) for name in summary.treatments}
    layers = sorted({layer for rates in found.values() for layer in rates["layer"].unique().to_list()})
    for name, rates in found.items():
        by_place = {(length, layer): value for length, layer, value, _ in rates.rows()}
        for length in summary.lengths:
            cells = tuple(number(by_place.get((length, layer)), 2, sign=True) for layer in layers)
            if any(cell != UNKNOWN for cell in cells):
                rows.append(Row((name, summary.name(length)), cells))
        records += [{"model": summary.log.model, "treatment": name, **row} for row in rates.to_dicts()]
    if not rows:
        return None
    columns = tuple(Column(str(layer + 1), "layer") for layer in layers)
    title = f"Log of what each layer leaves of the differences between tokens ({_where(summary)})"
    table = Table(title, ("treatment", TOKENS), columns, tuple(rows), grouped=1)
    return NamedTable("filter-rates", table, tuple(records))


def bounds_table(summary: LengthSummary) -> NamedTable | None:
    """In how many layers of texts the theorems' bounds do not hold; None where unmeasured."""
    rows: list[Row] = []
    records: list[Record] = []
    for quantity, bound, title in (
        ("filter_rate", "theorem_2", "Theorem 2: filter rate"),
        ("sigma_a", "theorem_3", "Theorem 3: σ_a"),
    ):
        for name in summary.treatments:
            above, total = summary.exceeded(quantity, bound, name)
            if total:
                rows.append(Row((title, name), (f"{above:,}", f"{total:,}")))
                kept = {"model": summary.log.model, "treatment": name, "quantity": quantity, "bound": bound}
                records.append({**kept, "above": above, "of": total})
    if not rows:
        return None
    columns = (Column("above the bound"), Column("of"))
    title = f"Layers of texts in which a bound does not hold ({_where(summary)})"
    table = Table(title, ("bound", "treatment"), columns, tuple(rows), grouped=1)
    return NamedTable("bounds", table, tuple(records))


def repeated_table(summary: LengthSummary) -> NamedTable | None:
    """The cosine of two repeated words by repetitions; None where unmeasured."""
    found = {name: dict(summary.repeated(name)) for name in summary.treatments}
    times = list(found[summary.baseline])
    if not times:
        return None
    rows = [Row((name,), tuple(number(values.get(count)) for count in times)) for name, values in found.items()]
    columns = tuple(Column(str(count), "repetitions") for count in times)
    title = f"Cosine of “dog dog …” and “cat cat …” ({_where(summary)})"
    records: list[Record] = [
        {"model": summary.log.model, "treatment": name, "times": count, "cosine": cosine}
        for name, values in found.items()
        for count, cosine in values.items()
    ]
    return NamedTable("repeated-words", Table(title, ("treatment",), columns, tuple(rows)), tuple(records))


def _where(summary: LengthSummary) -> str:
    return f"{model_name(summary.log.model)} on {summary.log.header['corpus']['name']}"


def _lengths(summary: LengthSummary) -> tuple[Column, ...]:
    return tuple(Column(summary.name(length), TOKENS) for length in summary.lengths)


def _text(found: Estimate | None) -> str:
    return number(None if found is None else found.estimate)


def _entries(summary: LengthSummary, entries: Sequence[Mapping[str, Any]]) -> tuple[Record, ...]:
    names = ("treatment", "measure", "length", "against", "estimate", "low", "high")
    return tuple({"model": summary.log.model, **{name: entry[name] for name in names}} for entry in entries)
