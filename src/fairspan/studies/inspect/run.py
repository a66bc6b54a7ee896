"""`inspect`: one document before and after calibration (IRF's Figure 2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from fairspan.calibration.treatment import DEFAULT_TREATMENTS, AnyTreatment, Treatment, as_treatments
from fairspan.corpus.marked_text import NAMES
from fairspan.encoding.attention_profile import by_segment
from fairspan.encoding.attention_rows import attention_rows
from fairspan.encoding.encoder import Encoder, ObjectEncoder, Text, refuse_other_spaces
from fairspan.encoding.fill import Tally, reads_to_end
from fairspan.encoding.store import Store
from fairspan.errors import DesignError, EncodingError, UnsupportedModel, require_whole
from fairspan.model.loading import Loading
from fairspan.model.segments import SegmentedText
from fairspan.runs.bases import Embed, Treated, embed_through
from fairspan.runs.progress import Progress, Silent, as_progress
from fairspan.runs.subject import AnyModel, Subject, open_subject
from fairspan.runs.windows import limit_note
from fairspan.stats.cosines import representation, retention
from fairspan.studies.inspect.inspection import Inspection, Reading
from fairspan.studies.inspect.lens import AnyDocument, Lens, Span, focus


def inspect(
    model: AnyModel,
    document: AnyDocument,
    *,
    treatments: Sequence[AnyTreatment] = DEFAULT_TREATMENTS,
    borders: str = "auto",
    parts: int | None = None,
    prompt: str | None = None,
    name: str = "document",
    model_name: str | None = None,
    window: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
    progress: bool | Progress = True,
) -> Inspection:
    """Measure how much of one document's vector each of its segments has, under every treatment.

    Args:
        model: a SentenceTransformer, its name or folder, None for all-MiniLM-L6-v2; or, without treatments, any
            object with `encode(list[str])`.
        document: a text; or its segments, as texts or tables with `text`, `title` and `language`; or what
            `fairspan.corpus.document_file.read_document` read.
        treatments: as in `audit`; the first is "before".
        borders: how the segments of a text are found: "heading", "rule", "blank", "line", "parts", or "auto".
        parts: number of parts of about equal length that a text without borders is split into; by default 4, or
            fewer if it has fewer sentences.
        prompt: put before every text; by default the model's own document prompt.
        name: what the result calls the document.
        model_name: what the result calls the model.
        window, device, dtype, trust_remote_code: as in `audit`.
        batch_tokens: number of tokens in a batch, padding included.
        progress: True for a bar, False for none, or an object that shows it.
    """
    shown = as_progress(progress)
    chosen = as_treatments(treatments)
    fitted = [treatment.name for treatment in chosen if treatment.fitted]
    if fitted:
        raise DesignError(f"{fitted[0]} is fitted on a corpus, and this is one document: run an audit.")
    chunked = [treatment.name for treatment in chosen if treatment.chunks]
    if chunked:
        raise DesignError(f"{chunked[0]} has no single pass over a document to inspect: run an audit.")
    loading = Loading(window, device, dtype, trust_remote_code)
    if parts is not None:
        require_whole("parts", parts, least=2)
    subject = open_subject(model, name=model_name, loading=loading, progress=shown).with_prompts(prompt)
    subject = subject.reading(chosen)
    subject.refuse_unsuited(chosen)
    budget = subject.budget(batch_tokens)
    lens = focus(document, subject.counter, borders=borders, parts=parts)
    with Store(":memory:") as store:
        embed = embed_through(store, budget=budget, tally=Tally(), progress=shown.advance)
        treated = [subject.under(treatment, embed=embed, lasting=False) for treatment in chosen]
        return look_through(lens, subject, treated, embed, name=name, progress=shown)


def look_through(
    lens: Lens,
    subject: Subject,
    treated: Sequence[Treated],
    embed: Embed,
    *,
    name: str,
    inside: bool = True,
    progress: Progress | None = None,
) -> Inspection:
    """What `inspect` finds, of a model that is loaded and treated; attention and retention only if `inside`."""
    shown = progress or Silent()
    try:
        shown.start(len(treated) * sum(lens.counter.count_whole([lens.text, *lens.texts])))
        if subject.is_open:
            look = _Look(subject, lens, embed, inside)
            readings = [look.under(one, shown) for one in treated]
            notes = tuple(look.notes)
        else:
            encoder = ObjectEncoder(subject.model, subject.prompts["document"])
            readings, notes = _unmodified(encoder, lens, [one.treatment for one in treated], embed)
    finally:
        shown.stop()
    return Inspection(
        model=subject.name,
        document=name,
        text=lens.text,
        borders=NAMES[lens.borders],
        readings=tuple(readings),
        length=lens.length,
        unit=lens.counter.unit,
        prompt=subject.prompts["document"],
        notes=(*notes, *limit_note(subject, [lens.length])),
    )


def vectors_of(lens: Lens, treated: Treated, embed: Embed) -> tuple[np.ndarray, np.ndarray]:
    """[d], a document's vector, and [n, d], its segments' own."""
    lengths = lens.counter.count_whole(lens.texts)
    alone = embed(treated.segments, [Text(*own) for own in zip(lens.texts, lengths, strict=True)])
    (whole,) = embed(treated.documents, [Text(lens.text, lens.length, borders=lens.starts)])
    return whole, alone


@dataclass(frozen=True, slots=True)
class _Look:
    """A model on one document; notes are in the order in which they were found."""

    subject: Subject
    lens: Lens
    embed: Embed
    inside: bool
    notes: dict[str, None] = field(default_factory=dict)

    def under(self, treated: Treated, progress: Progress) -> Reading:
        progress.stage(treated.treatment.name)
        look = replace(self, lens=self.lens.up_to(treated.documents.window))
        return look.at(treated)

    def at(self, treated: Treated) -> Reading:
        lens, treatment = self.lens, treated.treatment
        whole, alone = vectors_of(lens, treated, self.embed)
        cosines = tuple(representation(whole, alone).tolist())
        seen = _seen(lens, treated.segments.window)
        if not self.inside:
            return Reading(treatment.name, cosines, **seen)
        attention, elsewhere = self._attention(
            treated.documents.model, by_segments=treatment.by_segments and treatment.for_documents.acts
        )
        kept = self._retention(treated.documents, alone)
        return Reading(treatment.name, cosines, attention, elsewhere, kept, **seen)

    def _attention(
        self, model: SentenceTransformer, *, by_segments: bool
    ) -> tuple[tuple[float, ...] | None, float | None]:
        """The mass of each segment and of everything else, averaged over layers; None where it cannot be read."""
        text = self.lens.prefix
        if text is None:
            return None, None
        starts = [start for start in self.lens.starts if start < len(text)]
        given = SegmentedText.cut(text, starts) if by_segments else text
        try:
            (row,) = attention_rows(model, [given], prompt=self.subject.prompts["document"])
        except UnsupportedModel as error:
            self.notes[f"no attention: {str(error).rstrip('.')}"] = None
            return None, None
        self._note_prefix("attention")
        profile = by_segment(row, _clipped(self.lens.spans, len(text)))
        return tuple(profile.segments.mean(axis=0).tolist()), float((profile.special + profile.other).mean())

    def _retention(self, encoder: Encoder, alone: np.ndarray) -> tuple[float | None, ...] | None:
        """τ of each segment that the model sees; None for models that are not mean-pooled."""
        prefix = self.lens.prefix
        model = self.subject.transformer("retention")
        pooled = [module.pooling_mode for module in model.children() if isinstance(module, Pooling)]
        if pooled != ["mean"] or prefix is None:
            return None
        spans = _clipped(self.lens.spans, len(prefix))
        there = [number for number, (start, end) in enumerate(spans) if prefix[start:end].strip()]
        seen, starts = tuple(spans[number] for number in there), tuple(self.lens.starts[number] for number in there)
        text = Text(prefix, self.lens.counter.count_whole([prefix])[0], seen, starts)
        try:
            refuse_other_spaces(model)
            ((_, inside),) = encoder.with_spans([text])
        except (UnsupportedModel, EncodingError) as error:
            self.notes[f"no retention: {str(error).rstrip('.')}"] = None
            return None
        self._note_prefix("retention")
        found = dict(zip(there, retention(inside, alone[there]).tolist(), strict=True))
        return tuple(found.get(number) for number in range(len(spans)))

    def _note_prefix(self, measure: str) -> None:
        if self.lens.prefix is not None and not self.lens.whole:
            tokens, window = self.lens.counter.count_whole([self.lens.prefix])[0], self.lens.counter.window
            where = "" if window == self.subject.counter.window else f" where {window:,} are read"
            self.notes[f"{measure} is of the first {tokens:,} tokens{where}, up to the end of a word"] = None


def _unmodified(
    encoder: Encoder, lens: Lens, treatments: Sequence[Treatment], embed: Embed
) -> tuple[list[Reading], tuple[str, ...]]:
    """Any object that embeds: nothing is known of its inside."""
    notes = []
    whole = Text(lens.text, lens.length)
    if not reads_to_end(encoder, whole, Tally()):
        notes.append("the vector stays the same without the last words: the model does not read all of this text")
    alone = embed(encoder, [Text(text, len(text)) for text in lens.texts])
    cosines = tuple(representation(embed(encoder, [whole])[0], alone).tolist())
    seen = _seen(lens, None)
    return [Reading(treatment.name, cosines, **seen) for treatment in treatments], tuple(notes)


def _seen(lens: Lens, alone: int | None) -> dict[str, Any]:
    """What is read of the document, given the window of segments alone."""
    return {"segments": lens.segments(alone), "window": lens.counter.window, "outside": lens.outside}


def _clipped(spans: Sequence[Span], end: int) -> list[Span]:
    return [(min(start, end), min(stop, end)) for start, stop in spans]
