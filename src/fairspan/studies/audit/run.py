"""`audit`: from a model and a corpus to a log of raw values."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.design.documents import Document
from fairspan.encoding.attention_profile import (
    AttentionRow,
    attention_rows,
    by_basket,
    by_bins,
    by_segment,
)
from fairspan.encoding.calling import call_of
from fairspan.runs.bases import Treated
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA, as_rows, position_rows
from fairspan.runs.running import Run
from fairspan.runs.study import Study
from fairspan.stats.geometry import representation, retention
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.prepare import PreparedAudit, prepare_audit
from fairspan.studies.audit.view import view_of

_AT_ONCE = 2000
BASKET_SIZE = 128
BINS = 20


def _measure(prepared: PreparedAudit, run: Run) -> None:
    segments, documents, treatments = (
        prepared.segments,
        prepared.texts,
        prepared.options.all_treatments,
    )
    own = sum(text.length for text in segments + documents)
    run.announce(pair for treatment in treatments for pair in prepared.pairs(treatment, run.under))
    run.progress.start(sum(own + prepared.fit.tokens(treatment) for treatment in treatments))
    for treatment in treatments:
        run.progress.stage(treatment.name)
        treated = run.under(treatment)
        run.prove_whole(treated.documents, documents)
        run.fill(treated.segments, segments)
        run.fill(treated.documents, documents)
        run.add(_rows(prepared, run, treated))


def _rows(prepared: PreparedAudit, run: Run, treated: Treated) -> pl.DataFrame:
    """Every measure of one treatment. Vectors are read a part at a time: a whole grid may not fit into memory."""
    documents, texts, measures = (
        prepared.documents.documents,
        prepared.texts,
        prepared.options.measures,
    )
    encoder, label = treated.documents, {**run.label, "treatment": treated.treatment.name}
    vectors = run.read([treated.segments.key(text) for text in prepared.segments])
    alone = dict(zip(prepared.documents.segments, vectors, strict=True))
    values: dict[str, list[np.ndarray]] = {"representation": [], "retention": []}
    for start in range(0, len(documents), _AT_ONCE):
        part, keys = documents[start : start + _AT_ONCE], texts[start : start + _AT_ONCE]
        references = [np.stack([alone[key] for key in document.keys]) for document in part]
        if "representation" in measures:
            whole = run.read([encoder.key(text) for text in keys])
            values["representation"] += [
                representation(*pair) for pair in zip(whole, references, strict=True)
            ]
        if "retention" in measures:
            inside = run.read([encoder.span_key(text) for text in keys])
            pairs = zip(inside, references, strict=True)
            values["retention"] += [
                retention(flat.reshape(segments.shape), segments) for flat, segments in pairs
            ]
    tables = [
        position_rows(documents, own, **label, measure=measure)
        for measure, own in values.items()
        if own
    ]
    if "attention" in measures:
        chosen = _some_of_each(documents, prepared.options.attention_documents)
        prompt = run.subject.prompts["document"]
        attention = attention_rows(
            encoder.model, [document.text for document in chosen], prompt=prompt
        )
        tables.append(_profile_rows(chosen, attention, label))
    return pl.concat(tables)


def _some_of_each(documents: Sequence[Document], count: int) -> list[Document]:
    """The first documents of each size and plan, from different sets as far as there are."""
    families: dict[tuple[int, str], list[Document]] = {}
    for document in documents:
        families.setdefault((document.n, str(document.plan)), []).append(document)
    by_order = (
        sorted(own, key=lambda document: (document.order, document.set))
        for own in families.values()
    )
    return [document for own in by_order for document in own[:count]]


def _profile_rows(
    documents: Sequence[Document], rows: Iterable[AttentionRow], label: Mapping[str, str]
) -> pl.DataFrame:
    """One row for each document, layer and part; the parts of one measure sum to 1 in every layer."""
    tables = []
    for document, row in zip(documents, rows, strict=True):
        where = {
            "set": document.set,
            "order": document.order,
            "document": document.name,
            "n": document.n,
        }
        where |= {"lead": document.plan.lead, "later": document.plan.later}
        for name, profile in (
            ("segment", by_segment(row, document.spans)),
            ("basket", by_basket(row, BASKET_SIZE)),
            ("bin", by_bins(row, BINS)),
        ):
            parts = {f"{name} {place}": mass for place, mass in enumerate(profile.parts.T, start=1)}
            for place, (part, masses) in enumerate([*parts.items(), *profile.rest.items()]):
                own = {**label, "measure": f"attention_{name}", **where, "part": part}
                if name == "segment" and place < document.n:
                    segment, language = document.keys[place]
                    own |= {"position": place + 1, "segment": segment, "language": language}
                    own |= {"tokens": document.tokens[place]}
                values = np.asarray(masses, np.float64).tolist()
                tables.append(as_rows({**own, "layer": list(range(len(values))), "value": values}))
    return pl.concat(tables) if tables else pl.DataFrame(schema=SCHEMA)


STUDY = Study(prepare_audit, _measure, view_of)


@call_of(AuditOptions)
def audit(options: AuditOptions) -> RunLog:
    """Measure how well each position, language and length is represented, before and after calibration.

    Returns:
        The log, with `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
