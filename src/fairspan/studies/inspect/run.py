"""`inspect`: one document before and after calibration (IRF's Figure 2)."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.calibration.treatment import (
    DEFAULT_TREATMENTS,
    PLAIN,
    AnyTreatment,
    as_treatments,
)
from fairspan.calibration.words import in_words
from fairspan.corpus.marked_text import NAMES
from fairspan.encoding.encoder import AnyModel, ModelEncoder, Text, refuse_other_spaces
from fairspan.encoding.fill import Tally, reads_to_end
from fairspan.encoding.part_vectors import tokens_that_fit
from fairspan.encoding.parts import PartRule
from fairspan.encoding.store import Store
from fairspan.errors import DesignError, FairspanError, require_whole
from fairspan.model.loading import Loading
from fairspan.model.transformer import calibrated_transformers
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.subject import Embed, Embedder, Subject, Treated, batch_budget, open_subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.windows import limit_note
from fairspan.stats.geometry import cosines_of_pairs, representation
from fairspan.studies.inspect.inspection import Inspection, Reading
from fairspan.studies.inspect.lens import AnyDocument, Lens, focus
from fairspan.studies.inspect.view import inspection_page, view_of

ReadStored = Callable[[Sequence[bytes]], list[np.ndarray]]
UNREAD = (
    "the vector stays the same without the last words: the model does not read all of this text"
)


def inspect(
    model: AnyModel,
    document: AnyDocument,
    *,
    treatments: Sequence[AnyTreatment] | None = None,
    borders: str = "auto",
    parts: int | None = None,
    vectors: int | None = None,
    prompt: str | None = None,
    name: str = "document",
    model_name: str | None = None,
    max_seq_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
    progress: bool | Progress = True,
) -> Inspection:
    """Measure how much of each segment is in the vector of one document, under every treatment.

    Args:
        model: a SentenceTransformer, its name or folder, None for all-MiniLM-L6-v2; or any object
            with `encode(list[str])`, which has no treatments.
        document: a text; or its segments, as texts or tables with `text`, `title` and `language`;
            or what `fairspan.corpus.document_file.read_document` read.
        treatments: as in `audit`; the first is "before". By default plain and fair.
        borders: how the segments of a text are found: "heading", "rule", "blank", "line", "parts",
            or "auto".
        parts: number of about equal parts that a text without borders is split into; by default 4,
            or fewer if it has fewer sentences.
        vectors: show the parts that `embed` gives a vector each, for so many per document.
        prompt: put before every text; by default the model's own document prompt.
        name, model_name: what the result calls the document and the model.
        max_seq_length: as in `audit`; by default treatments in tiles read the whole document.
        device, dtype, trust_remote_code: as in `audit`.
        batch_tokens: number of tokens in a batch, padding included.
        progress: True for a bar, False for none, or an object that shows it.
    """
    shown = as_progress(progress)
    for treatment in as_treatments((PLAIN,) if treatments is None else treatments):
        if treatment.chunks:
            raise DesignError(
                f"{treatment.name} has no single pass over a document and cannot be inspected: run "
                "an audit."
            )
    loading = Loading(max_seq_length, device, dtype, trust_remote_code)
    if parts is not None:
        require_whole("parts", parts, least=2)
    rule = None if vectors is None else PartRule(vectors)
    subject = open_subject(model, name=model_name, loading=loading, progress=shown)
    subject = subject.with_prompts(prompt)
    fits = tokens_that_fit(subject.model) if subject.is_open else WIDEST_WINDOW
    lens = focus(document, subject.counter, borders=borders, parts=parts, rule=rule, fits=fits)
    if treatments is None:
        treatments = DEFAULT_TREATMENTS if subject.is_open else (PLAIN,)
    chosen = as_treatments(treatments)
    subject = subject.reading(chosen)
    lens = replace(lens, counter=subject.counter)
    refuse_unsuited(subject, chosen)
    budget = batch_budget(subject.model, batch_tokens)
    with Store(":memory:") as store:
        embedder = Embedder(store, budget, Tally(), shown)
        embed = embedder.embed
        treated = [subject.under(treatment, lasting=False) for treatment in chosen]
        shown.start(len(chosen) * sum(subject.counter.count_whole([lens.text, *lens.texts])))
        try:
            return look_through(lens, subject, treated, embed, name=name, read=embedder.read)
        finally:
            shown.stop()


def look_through(
    lens: Lens,
    subject: Subject,
    treated: Sequence[Treated],
    embed: Embed,
    *,
    name: str,
    read: ReadStored | None = None,
) -> Inspection:
    """What `inspect` finds, of a model that is loaded and treated.

    Retention is measured with what can `read` the vectors that `embed` stored.
    """
    encoders = [item.documents for item in treated]
    windows = [encoder.window or lens.length for encoder in encoders]
    notes = [*filter(None, map(_meaning, treated))]
    notes += limit_note(subject, [min(lens.length, *windows)])
    whole = Text(lens.text, lens.length)
    if not subject.is_open and not all(
        reads_to_end(encoder, whole, Tally()) for encoder in encoders
    ):
        notes.insert(0, UNREAD)
    return Inspection(
        model=subject.name,
        document=name,
        text=lens.text,
        borders=NAMES[lens.borders],
        readings=tuple(_reading(lens, item, embed, read) for item in treated),
        length=lens.length,
        unit=lens.counter.unit,
        prompt=subject.prompts["document"],
        show=view_of,
        write=inspection_page,
        notes=tuple(notes),
    )


def _meaning(treated: Treated) -> str:
    """What a treatment's name stands for in this model; empty where it changes nothing."""
    encoder = treated.documents
    modules = calibrated_transformers(encoder.model) if isinstance(encoder, ModelEncoder) else ()
    treatment = treated.treatment
    words = {
        in_words(module.calibration, by_segments=treatment.by_segments)
        for module in modules
        if module.calibration.acts
    }
    return f"{treatment.name}: {', '.join(sorted(words))}" if words else ""


def _reading(lens: Lens, treated: Treated, embed: Embed, read: ReadStored | None) -> Reading:
    """What a treatment makes of the document, as far as it reads it."""
    lens = lens.up_to(treated.documents.window)
    texts = map(Text, lens.texts, lens.counter.count_whole(lens.texts))
    alone = embed(treated.segments, list(texts))
    borders = tuple(piece.start for piece in lens.pieces)
    document = Text(lens.text, lens.length, borders=borders)
    retained: tuple[float, ...] = ()
    if read is not None and not lens.unseen:
        spans = tuple((piece.start, piece.end) for piece in lens.pieces)
        retained = _retention(replace(document, spans=spans), alone, treated, embed, read)
    if read is not None and retained:
        (whole,) = read([treated.documents.key(document)])
    else:
        (whole,) = embed(treated.documents, [document])
    return Reading(
        treated.treatment.name,
        tuple(representation(whole, alone).tolist()),
        lens.segments(),
        lens.counter.window,
        lens.unseen,
        retained,
    )


def _retention(
    document: Text, alone: np.ndarray, treated: Treated, embed: Embed, read: ReadStored
) -> tuple[float, ...]:
    """How much of alone[n, d] the spans of the document keep; empty where that is not defined.

    It is not for other poolings, and where tokens cannot be assigned to segments.
    """
    if not isinstance(treated.model, SentenceTransformer):
        return ()
    try:
        refuse_other_spaces(treated.model, "retention", of_means=True)
        embed(treated.documents, [document])
    except FairspanError:
        return ()
    (inside,) = read([treated.documents.span_key(document)])
    return tuple(cosines_of_pairs(inside.reshape(alone.shape), alone).tolist())
