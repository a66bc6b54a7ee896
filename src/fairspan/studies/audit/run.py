"""`audit`: from a model and a corpus to a log of raw values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl

from fairspan.calibration.treatment import AnyTreatment
from fairspan.design.design import Design
from fairspan.design.documents import Document
from fairspan.encoding.attention_rows import attention_rows
from fairspan.encoding.encoder import Text
from fairspan.model.loading import Loading
from fairspan.runs.bases import Treated
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.request import request_of
from fairspan.runs.rows import position_rows
from fairspan.runs.runner import Run, RunOptions, run_study
from fairspan.runs.subject import AnyModel, default_treatments, open_subject
from fairspan.stats.cosines import representation, retention
from fairspan.studies.audit.family import by_family
from fairspan.studies.audit.prepare import Prepared, prepare
from fairspan.studies.audit.profile import profile_rows
from fairspan.studies.audit.spec import make_spec
from fairspan.studies.audit.view import view_of

_AT_ONCE = 2000


def audit(
    model: AnyModel = None,
    *,
    corpus: str = "sample",
    languages: Sequence[str] | None = None,
    mixed: str | Sequence[str] = (),
    treatments: Sequence[AnyTreatment] | None = None,
    measures: Sequence[str] = ("representation",),
    design: Design | str = "latin",
    sizes: Sequence[int] = (4,),
    sets: int = 40,
    documents: Mapping[int, int] | None = None,
    min_tokens: int | None = None,
    max_tokens: int | None = None,
    length_language: str | None = None,
    length_ratio: float | None = None,
    opening: int | None = None,
    too_long: str = "redraw",
    partial: bool = False,
    prompt: str | None = None,
    fit_corpus: str | None = None,
    attention_documents: int = 20,
    margin: float = 0.02,
    inference: str = "auto",
    seed: int = 0,
    name: str | None = None,
    window: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: bool | Progress = True,
) -> RunLog:
    """Measure how well each position, language and length is represented, before and after calibration.

    Args:
        model: a SentenceTransformer, its name or folder, None for all-MiniLM-L6-v2; or, for representation, an
            `Endpoint` or any object with `encode(list[str])`, under the treatments "none" and "chunk-mean". Vectors
            of an object are kept if it has an `identity`: text that names everything that decides them.
        corpus: "sample", a folder, a file or the name of a dataset.
        languages: monolingual plans; by default English if the corpus has it, otherwise its first language.
        mixed: plans such as "de:en" (the first segment German, all later ones English), or "all".
        treatments: what is compared: names of presets such as "none" and "paper", calibrations, or tables of fields.
            By default "none" and "tiles", or "none" and "chunk-mean" for a model that is not a SentenceTransformer.
        measures: of "representation", "retention" and "attention".
        design: how each set is ordered: "latin", "permutations" or "williams"; or a whole `Design`.
        sizes: numbers of segments per document.
        sets: number of sets of segments for each size.
        documents: number of documents by size, in place of `sets`: {4: 1008} makes at least 1008 documents.
        min_tokens, max_tokens: omit segments that are shorter or longer.
        length_language: apply these limits to this language only.
        length_ratio: how far the lengths of other languages may be from that one, as a share of it.
        opening: number of tokens to use from the start of every segment.
        too_long: what to do with sets that are longer than any treatment reads: "redraw" or "error".
        partial: omit segments that lack a translation, instead of refusing the corpus.
        prompt: put before every text; by default the model's own document prompt.
        fit_corpus: what whitening and corrections of languages are fitted on; by default what `corpus` has in no
            document.
        attention_documents: number of documents of each size and plan whose attention is read.
        margin: differences from position 1 below it count as fair.
        inference: how intervals are made: "auto", "cr1", "z", "cr2", "cr3", "wild" or "two-way".
        seed: of the draw and the orders.
        name: what the log calls the model.
        window: longest text to read, in tokens, of a model that is given by its name. Beyond the model's positions
            only treatments in tiles read on; other treatments cut, and the log says how many documents.
        device: where to load such a model: "cpu", "cuda" or "mps".
        dtype: its number format: "float32", "bfloat16" or "float16".
        trust_remote_code: run code that comes with such a model.
        out: the run's folder; by default one in `fairspan-runs` that belongs to this model and these settings, so
            that the same call finds what it left.
        store: the file that keeps every vector; by default one in the user's cache folder.
        batch_tokens: number of tokens in a batch, padding included; of characters for an `Endpoint`.
        fresh: measure again although the folder holds a complete run.
        progress: True for a bar, False for none, or an object that shows it.

    Returns:
        The log. Its `folder` holds run.json and rows.parquet.
    """
    shown = as_progress(progress)
    spec = make_spec(
        corpus=corpus,
        languages=languages,
        mixed=mixed,
        treatments=default_treatments(model) if treatments is None else treatments,
        measures=measures,
        design=design,
        sizes=sizes,
        sets=sets,
        documents=documents or {},
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        length_language=length_language,
        length_ratio=length_ratio,
        opening=opening,
        too_long=too_long,
        partial=partial,
        prompt=prompt,
        fit_corpus=fit_corpus,
        attention_documents=attention_documents,
        margin=margin,
        inference=inference,
        seed=seed,
    )
    loading = Loading(window, device, dtype, trust_remote_code)
    request = request_of("audit", spec, model, name=name, **asdict(loading))
    options = RunOptions(out, store, batch_tokens, fresh, shown, request)
    known = options.answer(name or model, view_of)
    if known is not None:
        return known
    subject = open_subject(model, name=name, loading=loading, progress=shown)
    return run(prepare(subject, spec, shown), options)


def run(prepared: Prepared, options: RunOptions) -> RunLog:
    """Embed what the store does not have, measure, and write the log."""
    return run_study(prepared, lambda run: _measure(prepared, run), options, view_of)


def _measure(prepared: Prepared, run: Run) -> None:
    segments, documents = prepared.texts()
    treatments = prepared.spec.treatments
    own = sum(text.length for text in segments + documents)
    run.announce(prepared.embedded(run.under))
    run.progress.start(sum(prepared.fit.tokens(treatments, [own] * len(treatments))))
    for treatment in treatments:
        run.progress.stage(treatment.name)
        run.begin(treatment)
        treated = run.under(treatment)
        run.prove_whole(treated.documents, documents)
        run.fill(treated.segments, segments)
        run.fill(treated.documents, documents)
        vectors = run.read([treated.segments.key(text) for text in segments])
        alone = dict(zip(prepared.documents.segments, vectors, strict=True))
        run.add(_rows(prepared, run, treated, alone, documents))


def _rows(
    prepared: Prepared, run: Run, treated: Treated, alone: Mapping[tuple[str, str], np.ndarray], texts: Sequence[Text]
) -> pl.DataFrame:
    """Every measure of one treatment. Vectors are read a part at a time: a whole grid may not fit into memory."""
    documents, measures = prepared.documents.documents, prepared.spec.measures
    encoder, label = treated.documents, {**run.label, "treatment": treated.treatment.name}
    whole, inside = [], []
    for start in range(0, len(documents), _AT_ONCE):
        part, keys = documents[start : start + _AT_ONCE], texts[start : start + _AT_ONCE]
        references = [np.stack([alone[key] for key in document.keys]) for document in part]
        if "representation" in measures:
            vectors = run.read([encoder.key(text) for text in keys])
            whole += [representation(vector, segments) for vector, segments in zip(vectors, references, strict=True)]
        if "retention" in measures:
            spans = run.read([encoder.span_key(text) for text in keys])
            pairs = zip(spans, references, strict=True)
            inside += [retention(flat.reshape(segments.shape), segments) for flat, segments in pairs]
    tables = []
    if whole:
        tables.append(position_rows(documents, whole, **label, measure="representation"))
    if inside:
        tables.append(position_rows(documents, inside, **label, measure="retention"))
    if "attention" in measures:
        chosen = _some_of_each(documents, prepared.spec.attention_documents)
        prompt = run.subject.prompts["document"]
        attention = attention_rows(encoder.model, [document.text for document in chosen], prompt=prompt)
        tables.append(profile_rows(chosen, attention, **label))
    return pl.concat(tables)


def _some_of_each(documents: Sequence[Document], count: int) -> list[Document]:
    """The first documents of each size and plan, from different sets as far as there are."""
    chosen = []
    for members in by_family(documents).values():
        chosen += sorted(members, key=lambda document: (document.order, document.set))[:count]
    return chosen
