"""`inspect`: one document before and after calibration (IRF's Figure 2)."""

from collections.abc import Sequence
from dataclasses import replace

from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import DEFAULT_TREATMENTS, PLAIN, AnyTreatment, as_treatments
from fairspan.corpus.marked_text import NAMES, MarkedText
from fairspan.encoding.encoder import AnyModel
from fairspan.encoding.fill import Tally, reads_to_end
from fairspan.encoding.model_encoder import refuse_other_spaces
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.errors import DesignError, FairspanError, UnsupportedModel, first_line, require_whole
from fairspan.model.loading import Loading
from fairspan.runs.embedder import Embed, Embedder, batch_budget
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.subject import Subject, open_subject
from fairspan.runs.suited import refuse_unsuited
from fairspan.runs.treated import Treated
from fairspan.runs.windows import limit_note
from fairspan.stats.geometry import cosines_of_pairs, representation
from fairspan.studies.inspect.lens import AnyDocument, focus, read_segments
from fairspan.studies.inspect.reading import Reading
from fairspan.studies.inspect.view import Inspection

_UNREAD = (
    "the vector stays the same without the last words: the model does not read all of this text"
)


def inspect(
    model: AnyModel,
    document: AnyDocument,
    *,
    treatments: Sequence[AnyTreatment] | None = None,
    borders: str = "auto",
    parts: int | None = None,
    prompt: str | None = None,
    name: str = "document",
    max_seq_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
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
        prompt: put before every text; by default the model's own document prompt.
        name: what the result calls the document.
        max_seq_length: as in `audit`; by default treatments in tiles read the whole document.
        device, dtype, trust_remote_code: as in `audit`.
        progress: True for a bar, False for none, or an object that shows it.
    """
    shown = as_progress(progress)
    for treatment in as_treatments((PLAIN,) if treatments is None else treatments):
        if treatment.chunks:
            wrong = f"{treatment.name} has no single pass over a document and cannot be inspected"
            raise DesignError(f"{wrong}: run an audit.")
    loading = Loading(max_seq_length, device, dtype, trust_remote_code)
    if parts is not None:
        require_whole("parts", parts, least=2)
    subject = open_subject(model, loading=loading, progress=shown).with_prompts(prompt)
    if treatments is None:
        treatments = DEFAULT_TREATMENTS if subject.is_open else (PLAIN,)
    chosen = as_treatments(treatments)
    subject = subject.reading(chosen)
    marked = focus(document, subject.counter, borders=borders, parts=parts)
    refuse_unsuited(subject, chosen)
    texts = [marked.text, *(marked.text[piece.start : piece.end] for piece in marked.pieces)]
    with Store(":memory:") as store:
        embedder = Embedder(store, batch_budget(subject.model), Tally(), shown)
        treated = [subject.under(treatment, lasting=False) for treatment in chosen]
        shown.start(len(chosen) * sum(subject.counter.count_whole(texts)))
        try:
            return _look_through(marked, subject, treated, embedder.embed, name)
        finally:
            shown.stop()


def _look_through(
    marked: MarkedText,
    subject: Subject,
    treated: Sequence[Treated],
    embed: Embed,
    name: str,
) -> Inspection:
    """What `inspect` finds, of a model that is loaded and treated."""
    counter = subject.counter
    (length,) = counter.count_whole([marked.text])
    spans = tuple((piece.start, piece.end) for piece in marked.pieces)
    texts = [marked.text[slice(*span)] for span in spans]
    parts = [*map(Text, texts, counter.count_whole(texts))]
    document = Text(marked.text, length, borders=tuple(start for start, _ in spans))
    windows = [item.documents.window for item in treated]
    notes = limit_note(subject, [min(length, *(window or length for window in windows))])
    if not subject.is_open and not all(
        reads_to_end(item.documents, document, Tally()) for item in treated
    ):
        notes.append(_UNREAD)
    readings = []
    for item, window in zip(treated, windows, strict=True):
        segments, unseen = read_segments(marked, counter, window or length)
        alone = embed(item.segments, parts)
        (whole,) = embed(item.documents, [document])
        cosines = tuple(representation(whole, alone).tolist())
        treatment = item.treatment.name
        retained: tuple[float, ...] = ()
        if not unseen and _takes_means(item.model):
            try:
                [(_, *inside)] = item.documents.with_spans([replace(document, spans=spans)])
                retained = tuple(cosines_of_pairs(inside, alone).tolist())
            except (FairspanError, RuntimeError) as error:
                notes.append(f"{treatment}: no retention, because {first_line(error)}")
        readings.append(Reading(treatment, cosines, segments, window, unseen, retained))
    return Inspection(
        model=subject.name,
        document=name,
        borders=NAMES[marked.borders],
        readings=tuple(readings),
        length=length,
        unit=counter.unit,
        prompt=subject.prompts["document"],
        notes=tuple(notes),
    )


def _takes_means(model: AnyModel) -> bool:
    """Whether retention is defined: a vector is the mean of the tokens, in their space."""
    if not isinstance(model, SentenceTransformer):
        return False
    try:
        refuse_other_spaces(model, "retention", of_means=True)
    except UnsupportedModel:
        return False
    return True
