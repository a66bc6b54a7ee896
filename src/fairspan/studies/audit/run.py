"""`audit`: from a model and a corpus to a log of raw values."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from fairspan.design.documents import Document
from fairspan.encoding.attention_profile import AttentionRow, attention_rows, by_basket
from fairspan.encoding.calling import call_of
from fairspan.runs.log import RunLog
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.runs.treated import Treated
from fairspan.stats.geometry import cosines_of_pairs, representation
from fairspan.studies.audit.measures import POSITION_MEASURES
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.rows import basket_rows, document_rows, position_rows
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
    name = treated.treatment.name
    tables = [
        position_rows(documents, values, treatment=name, measure=measure)
        for measure, values in _values(material, run, treated).items()
    ]
    if "attention" in material.options.measures:
        chosen = _some_of_each(documents, material.options.attention_documents)
        prompt = run.subject.prompts["document"]
        texts = [document.text for document in chosen]
        attention = attention_rows(treated.documents.model, texts, prompt=prompt)
        basket_size = material.options.attention_basket_size
        tables += _attention_rows(chosen, attention, basket_size, name)
    if "fidelity" in material.options.measures:
        first = run.under(material.options.all_treatments[0])
        values = _fidelity(material, run, first, treated)
        tables.append(document_rows(documents, values, treatment=name, measure="fidelity"))
    return pl.concat(tables)


def _fidelity(material: AuditTexts, run: Run, first: Treated, treated: Treated) -> list[float]:
    """By document the cosine of its vector and that under the first treatment."""
    documents = material.documents.documents
    values: list[float] = []
    for start in range(0, len(documents), _AT_ONCE):
        texts = material.texts[start : start + _AT_ONCE]
        before = run.read(first.documents, texts)
        after = run.read(treated.documents, texts)
        values += cosines_of_pairs(before, after).tolist()
    return values


def _values(material: AuditTexts, run: Run, treated: Treated) -> dict[str, list[np.ndarray]]:
    """The [n] values of every document, by measure.

    Vectors are read a part at a time: a whole grid may not fit into memory.
    """
    documents = material.documents.documents
    encoder = treated.documents
    vectors = run.read(treated.segments, material.segments)
    alone = dict(zip(material.documents.segments, vectors, strict=True))
    measures = material.options.measures
    values = {name: list[np.ndarray]() for name in POSITION_MEASURES if name in measures}
    for start in range(0, len(documents), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        texts = material.texts[part]
        keys = [document.keys for document in documents[part]]
        references = [np.stack([alone[key] for key in of_document]) for of_document in keys]
        for vectors, segments in zip(run.read_spans(encoder, texts), references, strict=True):
            whole, *inside = vectors
            if "representation" in values:
                values["representation"].append(representation(whole, segments))
            if "retention" in values:
                values["retention"].append(cosines_of_pairs(inside, segments))
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


def _attention_rows(
    documents: Sequence[Document], rows: Iterable[AttentionRow], basket_size: int, treatment: str
) -> Iterator[pl.DataFrame]:
    """The shares of every document's baskets, which sum to 1 in every layer."""
    for document, row in zip(documents, rows, strict=True):
        profile = by_basket(row, basket_size)
        shares = {f"basket {place}": mass for place, mass in enumerate(profile.parts.T, start=1)}
        yield basket_rows(document, shares | profile.rest, treatment)


STUDY = Study(audit_texts, _rows, LOG)


@call_of(AuditOptions)
def audit(options: AuditOptions) -> RunLog:
    """Measure how well each position and language is represented, plain and calibrated.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
