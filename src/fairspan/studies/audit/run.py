"""`audit`: from a model and a corpus to a log of raw values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.design.documents import Document
from fairspan.encoding.attention_profile import AttentionRow, attention_rows, by_basket
from fairspan.encoding.calling import call_of
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA, as_rows, document_columns, position_rows
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.runs.treated import Treated
from fairspan.stats.geometry import cosines_of_pairs, representation
from fairspan.studies.audit.measures import ATTENTION, POSITION_MEASURES
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.texts import AuditTexts, audit_texts
from fairspan.studies.audit.view import LOG

_AT_ONCE = 2000


def _rows(material: AuditTexts, run: Run) -> Iterator[pl.DataFrame]:
    """Embed everything under each treatment, and measure it."""
    for treatment in material.options.all_treatments:
        run.progress.stage(treatment.name)
        treated = run.under(treatment)
        run.prove_whole(treated.documents, material.texts)
        run.fill(treated.segments, material.segments)
        run.fill(treated.documents, material.texts)
        yield _rows_of(material, run, treated)


def _rows_of(material: AuditTexts, run: Run, treated: Treated) -> pl.DataFrame:
    """Every measure of one treatment."""
    documents = material.documents.documents
    label = {"treatment": treated.treatment.name}
    tables = [
        position_rows(documents, values, **label, measure=measure)
        for measure, values in _values(material, run, treated).items()
    ]
    if "attention" in material.options.measures:
        chosen = _some_of_each(documents, material.options.attention_documents)
        prompt = run.subject.prompts["document"]
        texts = [document.text for document in chosen]
        attention = attention_rows(treated.documents.model, texts, prompt=prompt)
        basket_size = material.options.attention_basket_size
        tables.append(_profile_rows(chosen, attention, basket_size, label))
    if "fidelity" in material.options.measures:
        first = run.under(material.options.all_treatments[0])
        tables.append(_fidelity_rows(material, run, first, treated, label))
    return pl.concat(tables)


def _fidelity_rows(
    material: AuditTexts, run: Run, first: Treated, treated: Treated, label: Mapping[str, str]
) -> pl.DataFrame:
    """One row for each document: the cosine of its vector and that under the first treatment."""
    documents = material.documents.documents
    values: list[float] = []
    for start in range(0, len(documents), _AT_ONCE):
        texts = material.texts[start : start + _AT_ONCE]
        before = run.read([first.documents.key(text) for text in texts])
        after = run.read([treated.documents.key(text) for text in texts])
        values += cosines_of_pairs(before, after).tolist()
    columns = pl.DataFrame([document_columns(document) for document in documents])
    about = {**label, "measure": "fidelity", "part": "document", "value": values}
    return as_rows({**about, **columns.to_dict()})


def _values(material: AuditTexts, run: Run, treated: Treated) -> dict[str, list[np.ndarray]]:
    """The [n] values of every document, by measure.

    Vectors are read a part at a time: a whole grid may not fit into memory.
    """
    documents = material.documents.documents
    encoder = treated.documents
    vectors = run.read([treated.segments.key(text) for text in material.segments])
    alone = dict(zip(material.documents.segments, vectors, strict=True))
    measures = material.options.measures
    values = {name: list[np.ndarray]() for name in POSITION_MEASURES if name in measures}
    for start in range(0, len(documents), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        texts = material.texts[part]
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


STUDY = Study(audit_texts, _rows, LOG)


@call_of(AuditOptions)
def audit(options: AuditOptions) -> RunLog:
    """Measure how well each position and language is represented, plain and calibrated.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
