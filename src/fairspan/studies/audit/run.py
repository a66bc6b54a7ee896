"""`audit`: from a model and a corpus to a log of raw values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.design.documents import Document
from fairspan.design.plan import languages_of
from fairspan.encoding.attention_rows import attention_rows
from fairspan.encoding.encoder import AnyEncoder, Encodes, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store, default_store
from fairspan.encoding.whole import refuse_unread_end
from fairspan.errors import DesignError
from fairspan.runs.bases import embed_through
from fairspan.runs.log import AuditLog, LogWriter
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.rows import position_rows
from fairspan.runs.runner import DEFAULT_RUNS, batch_budget, described, finished, write_run
from fairspan.stats.cosines import representation, retention
from fairspan.studies.audit.prepare import Prepared, encoders, prepare
from fairspan.studies.audit.profile import profile_rows
from fairspan.studies.audit.spec import AuditSpec, make_spec

_AT_ONCE = 2000


def audit(
    model: SentenceTransformer | Encodes | str | None = None,
    *,
    spec: AuditSpec | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> AuditLog:
    """Measure how well each position, language and length is represented, before and after calibration.

    Args:
        model: a SentenceTransformer, its name or folder, None for the small default model; or, for representation
            without treatments, any object with `encode(list[str])`.
        spec: what to measure; or give its fields as `options`: corpus, languages, mixed, sizes, sets, treatments …
        name: what the log calls the model.
        out: the run's folder; by default one in `fairspan-runs` that belongs to this model and spec, so that the same
            call finds what it left.
        store: the file that keeps every vector; by default one in the user's cache folder.
        batch_tokens: tokens in a batch, padding included.
        fresh: measure again although the folder holds a complete run.

    Returns:
        The log. Its `folder` holds run.json and rows.parquet.
    """
    progress = progress or Silent()
    if spec is not None and options:
        raise DesignError(f"{next(iter(options))} belongs to the spec: set it there, or leave spec away.")
    prepared = prepare(model, spec or make_spec(**options), name=name, progress=progress)
    return run(prepared, out=out, store=store, batch_tokens=batch_tokens, fresh=fresh, progress=progress)


def run(
    prepared: Prepared,
    *,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> AuditLog:
    """Embed what the store does not have, measure, and write the log."""
    progress = progress or Silent()
    budget = batch_budget(prepared.model, batch_tokens)
    folder = Path(out) if out is not None else DEFAULT_RUNS / prepared.run
    done = finished(folder, prepared.run, fresh=fresh or prepared.fingerprint is None)
    if done is not None:
        return done

    def work(writer: LogWriter, tally: Tally) -> None:
        with Store(":memory:" if prepared.fingerprint is None else store or default_store()) as vectors:
            _measure(prepared, vectors, writer, budget, tally, progress)

    return write_run(folder, _header(prepared), work)


def _measure(
    prepared: Prepared, store: Store, writer: LogWriter, budget: int, tally: Tally, progress: Progress
) -> None:
    segments, documents = prepared.texts()
    treatments = prepared.spec.treatments
    fitted = sum(treatment.whitens for treatment in treatments)
    own = sum(text.length for text in segments + documents)
    progress.start(len(treatments) * own + fitted * prepared.fit.tokens)
    embed = embed_through(store, budget=budget, tally=tally, progress=progress.advance)
    for treatment in treatments:
        progress.stage(treatment.name)
        for_segments, for_documents = encoders(prepared, treatment, embed)
        longest = max(documents, key=lambda text: text.length)
        if store.missing([for_documents.key(longest)]):
            refuse_unread_end(for_documents, longest, tally)
        fill(for_segments, segments, store, budget=budget, tally=tally, progress=progress.advance)
        fill(for_documents, documents, store, budget=budget, tally=tally, progress=progress.advance)
        alone = dict(
            zip(prepared.documents.segments, _read(store, [for_segments.key(t) for t in segments]), strict=True)
        )
        writer.add(_rows(prepared, treatment, alone, documents, for_documents, store, writer.header["run"]))
    progress.stop()


def _rows(
    prepared: Prepared,
    treatment: Treatment,
    alone: dict[tuple[str, str], np.ndarray],
    texts: Sequence[Text],
    encoder: AnyEncoder,
    store: Store,
    run: str,
) -> pl.DataFrame:
    """Every measure of one treatment. Vectors are read a part at a time: a whole grid may not fit into memory."""
    documents, measures = prepared.documents.documents, prepared.spec.measures
    label = {"run": run, "model": prepared.name, "treatment": treatment.name}
    whole, inside = [], []
    for start in range(0, len(documents), _AT_ONCE):
        part, keys = documents[start : start + _AT_ONCE], texts[start : start + _AT_ONCE]
        references = [np.stack([alone[key] for key in document.keys]) for document in part]
        if "representation" in measures:
            vectors = _read(store, [encoder.key(text) for text in keys])
            whole += [representation(vector, segments) for vector, segments in zip(vectors, references, strict=True)]
        if "retention" in measures:
            spans = _read(store, [encoder.span_key(text) for text in keys])
            pairs = zip(spans, references, strict=True)
            inside += [retention(flat.reshape(segments.shape), segments) for flat, segments in pairs]
    tables = []
    if whole:
        tables.append(position_rows(documents, whole, **label, measure="representation"))
    if inside:
        tables.append(position_rows(documents, inside, **label, measure="retention"))
    if "attention" in measures:
        chosen = _some_of_each(documents, prepared.spec.attention_documents)
        attention = attention_rows(encoder.model, [document.text for document in chosen], prompt=prepared.prompt)
        tables.append(profile_rows(chosen, attention, **label))
    return pl.concat(tables)


def _read(store: Store, keys: Sequence[bytes]) -> list[np.ndarray]:
    found = store.get(keys)
    return [found[key] for key in keys]


def _header(prepared: Prepared) -> dict[str, Any]:
    documents = prepared.documents
    details = {"window": prepared.counter.window, "prompt": prepared.prompt}
    return {
        "verb": "audit",
        "run": prepared.run,
        "model": described(prepared.model, prepared.name, prepared.fingerprint, **details),
        "corpus": {
            "name": prepared.corpus.name,
            "fingerprint": prepared.corpus.fingerprint,
            "segments": len(documents.segments),
            "languages": list(languages_of(prepared.plans)),
        },
        "plans": [str(plan) for plan in prepared.plans],
        "documents": len(documents.documents),
        "tokens": documents.length,
        "token_unit": prepared.counter.unit,
        "shared_segments": {str(n): shared for n, shared in documents.shared.items()},
        "seed": prepared.spec.design.seed,
        "spec": prepared.spec.to_dict(),
        "notes": [*prepared.corpus.notes, *documents.notes, *prepared.fit.notes],
    }


def _some_of_each(documents: Sequence[Document], count: int) -> list[Document]:
    """The first documents of each size and plan, from different sets as far as there are."""
    families: dict[tuple[int, str], list[Document]] = {}
    for document in documents:
        families.setdefault((document.n, str(document.plan)), []).append(document)
    chosen = []
    for members in families.values():
        chosen += sorted(members, key=lambda document: (document.order, document.set))[:count]
    return chosen
