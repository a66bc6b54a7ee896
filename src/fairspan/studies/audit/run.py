"""`audit`: from a model and a corpus to a log of raw values."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.design.documents import Document
from fairspan.encoding.attention_profile import AttentionRow, attention_rows, by_basket
from fairspan.encoding.calling import call_of
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA, as_rows, document_columns, position_rows
from fairspan.runs.study import Run, Study
from fairspan.runs.subject import Treated
from fairspan.stats.geometry import cosines_of_pairs, representation
from fairspan.studies.audit.measures import ATTENTION, POSITION_MEASURES
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.prepare import PreparedAudit, prepare_audit
from fairspan.studies.audit.view import view_of

_AT_ONCE = 2000


def _measure(prepared: PreparedAudit, run: Run) -> None:
    """Embed everything under each treatment, and add its rows to the log."""
    segments = prepared.segments
    documents = prepared.texts
    treatments = prepared.options.all_treatments
    run.announce(pair for treatment in treatments for pair in prepared.pairs(treatment, run.under))
    for treatment in treatments:
        run.progress.stage(treatment.name)
        treated = run.under(treatment)
        run.prove_whole(treated.documents, documents)
        run.fill(treated.segments, segments)
        run.fill(treated.documents, documents)
        run.add(_rows(prepared, run, treated))


def _rows(prepared: PreparedAudit, run: Run, treated: Treated) -> pl.DataFrame:
    """Every measure of one treatment."""
    documents = prepared.documents.documents
    label = {**run.label, "treatment": treated.treatment.name}
    tables = [
        position_rows(documents, values, **label, measure=measure)
        for measure, values in _values(prepared, run, treated).items()
    ]
    if "attention" in prepared.options.measures:
        chosen = _some_of_each(documents, prepared.options.attention_documents)
        prompt = run.subject.prompts["document"]
        texts = [document.text for document in chosen]
        attention = attention_rows(treated.documents.model, texts, prompt=prompt)
        basket_size = prepared.options.attention_basket_size
        tables.append(_profile_rows(chosen, attention, basket_size, label))
    if "fidelity" in prepared.options.measures:
        first = run.under(prepared.options.all_treatments[0])
        tables.append(_fidelity_rows(prepared, run, first, treated, label))
    return pl.concat(tables)


def _fidelity_rows(
    prepared: PreparedAudit, run: Run, first: Treated, treated: Treated, label: Mapping[str, str]
) -> pl.DataFrame:
    """One row for each document: the cosine of its vector and that under the first treatment."""
    documents = prepared.documents.documents
    values: list[float] = []
    for start in range(0, len(documents), _AT_ONCE):
        texts = prepared.texts[start : start + _AT_ONCE]
        before = run.read([first.documents.key(text) for text in texts])
        after = run.read([treated.documents.key(text) for text in texts])
        values += cosines_of_pairs(before, after).tolist()
    columns = pl.DataFrame([document_columns(document) for document in documents])
    about = {**label, "measure": "fidelity", "part": "document", "value": values}
    return as_rows({**about, **columns.to_dict()})


def _values(prepared: PreparedAudit, run: Run, treated: Treated) -> dict[str, list[np.ndarray]]:
    """The [n] values of every document, by measure.

    Vectors are read a part at a time: a whole grid may not fit into memory.
    """
    documents = prepared.documents.documents
    encoder = treated.documents
    vectors = run.read([treated.segments.key(text) for text in prepared.segments])
    alone = dict(zip(prepared.documents.segments, vectors, strict=True))
    measures = prepared.options.measures
    values = {name: list[np.ndarray]() for name in POSITION_MEASURES if name in measures}
    for start in range(0, len(documents), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        texts = prepared.texts[part]
        keys = [document.keys for document in documents[part]]
        references = [np.stack([alone[key] for key in of_document]) for of_document in keys]
        if "representation" in values:
            whole = run.read([encoder.key(text) for text in texts])
            values["representation"] += map(representation, whole, references)
        if "retention" in values:
            inside = run.read([encoder.span_key(text) for text in texts])
            values["retention"] += [
                cosines_of_pairs(flat.reshape(segments.shape), segments)
                for flat, segments in zip(inside, references, strict=True)
            ]
    return values


def _some_of_each(documents: Sequence[Document], count: int) -> list[Document]:
    """The first documents of each size and plan, from different sets as far as possible."""
    families: dict[tuple[int, str], list[Document]] = {}
    for document in documents:
        families.setdefault((document.n, str(document.plan)), []).append(document)
    chosen = []
    for family in families.values():
        family.sort(key=lambda document: (document.order, document.set))
        chosen += family[:count]
    return chosen


def _profile_rows(
    documents: Sequence[Document],
    rows: Iterable[AttentionRow],
    basket_size: int,
    label: Mapping[str, str],
) -> pl.DataFrame:
    """One row for each document, layer and part; the parts sum to 1 in every layer."""
    tables = []
    for document, row in zip(documents, rows, strict=True):
        profile = by_basket(row, basket_size)
        parts = {f"basket {place}": mass for place, mass in enumerate(profile.parts.T, start=1)}
        for part, masses in (parts | profile.rest).items():
            values = np.asarray(masses, np.float64).tolist()
            columns = {**label, **document_columns(document), "measure": ATTENTION, "part": part}
            tables.append(as_rows({**columns, "layer": list(range(len(values))), "value": values}))
    return pl.concat(tables) if tables else pl.DataFrame(schema=SCHEMA)


STUDY = Study(prepare_audit, _measure, view_of)


@call_of(AuditOptions)
def audit(options: AuditOptions) -> RunLog:
    """Measure how well each position and language is represented, plain and calibrated.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
