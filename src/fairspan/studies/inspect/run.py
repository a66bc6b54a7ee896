"""`inspect`: one document under the lens, before and after calibration (IRF's Figure 2)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import DEFAULT_TREATMENTS, Treatment, as_treatment
from fairspan.corpus.marked_text import NAMES
from fairspan.encoding.attention_profile import by_segment
from fairspan.encoding.attention_rows import attention_rows
from fairspan.encoding.encoder import Encodes, ModelEncoder, ObjectEncoder, Text, refuse_other_spaces
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters, counter_of, document_prompt
from fairspan.encoding.whole import refuse_unread_end
from fairspan.encoding.window import cutting
from fairspan.errors import DesignError, EncodingError, UnsupportedModel
from fairspan.model.loading import DEFAULT_MODEL, load_model
from fairspan.model.segments import SegmentedText
from fairspan.runs.bases import Embed, base_of, embed_through, refuse_unsuited
from fairspan.runs.fit_part import FitPart
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import batch_budget, name_of
from fairspan.stats.cosines import representation, retention
from fairspan.studies.inspect.inspection import Inspection, Reading, shares
from fairspan.studies.inspect.lens import AnyDocument, Lens, Span, focus

AnyTreatment = Treatment | Calibration | str | Mapping[str, Any]


def inspect(
    model: SentenceTransformer | Encodes | str | None,
    document: AnyDocument,
    *,
    treatments: Sequence[AnyTreatment] = DEFAULT_TREATMENTS,
    borders: str = "auto",
    parts: int | None = None,
    prompt: str | None = None,
    name: str = "document",
    model_name: str | None = None,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """Measure what each segment of one document has in its one vector, under every treatment.

    Args:
        model: a SentenceTransformer, its name or folder, None for the small default model; or, without treatments,
            any object with `encode(list[str])`.
        document: a text; or its segments, as texts or tables with `text`, `title` and `language`; or what
            `fairspan.corpus.document_file.read_document` read.
        treatments: as in an audit; the first is "before".
        borders: what a text's segments are found by: "heading", "rule", "blank", "line", "parts", or "auto".
        parts: how many parts of about equal length a text without borders is split into; by default 4, or fewer if
            it has fewer sentences.
        prompt: what to put before every text; None for the model's own document prompt.
        name: what the result calls the document.
        model_name: what the result calls the model.
        batch_tokens: tokens in a batch, padding included.
    """
    progress = progress or Silent()
    chosen = _treatments(treatments)
    if model is None or isinstance(model, str):
        progress.stage(f"loading {model or DEFAULT_MODEL}")
        loaded: SentenceTransformer | Encodes = load_model(model)
        model_name = model_name or model or DEFAULT_MODEL
    else:
        loaded = model
    if isinstance(loaded, SentenceTransformer):
        prompt = document_prompt(loaded) if prompt is None else prompt
        for treatment in chosen:
            refuse_unsuited(loaded, treatment, compares_tokens=False)
        lens = focus(document, counter_of(loaded, prompt), borders=borders, parts=parts)
    else:
        _refuse_beyond_encode(loaded, chosen)
        prompt = ""
        lens = focus(document, Characters(), borders=borders, parts=parts)
    with Store(":memory:") as store:
        progress.start(len(chosen) * sum(lens.counter.count_whole([lens.text, *lens.texts])))
        embed = embed_through(
            store, budget=batch_budget(loaded, batch_tokens), tally=Tally(), progress=progress.advance
        )
        if isinstance(loaded, SentenceTransformer):
            look = _Look(cutting(loaded, lens.counter.window), lens, prompt, embed)
            readings = []
            for treatment in chosen:
                progress.stage(treatment.name)
                readings.append(look.under(treatment))
            notes = tuple(look.notes)
        else:
            readings, notes = _as_it_comes(loaded, lens, chosen, embed)
        progress.stop()
    segments = lens.segments()
    return Inspection(
        model=model_name or name_of(loaded),
        document=name,
        text=lens.text,
        borders=NAMES[lens.borders],
        segments=segments,
        readings=tuple(readings),
        length=lens.length,
        window=lens.counter.window,
        unit=lens.counter.unit,
        prompt=prompt,
        outside=lens.unseen - sum(segment.unseen for segment in segments),
        notes=notes,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """A model that looks at one document under one treatment after another.

    Attributes:
        model: cuts texts at its window.
        notes: what a reader should know, in the order in which it was found.
    """

    model: SentenceTransformer
    lens: Lens
    prompt: str
    embed: Embed
    notes: dict[str, None] = field(default_factory=dict)

    def under(self, treatment: Treatment) -> Reading:
        lens = self.lens
        base = base_of(self.model, "", treatment, prompt=self.prompt, fit=FitPart(), embed=self.embed)

        def encoder(calibration: Calibration) -> ModelEncoder:
            by_segments = treatment.baskets == "segments" and calibration.acts
            settings: dict[str, Any] = {"prompt": self.prompt, "fingerprint": base.fingerprint}
            return ModelEncoder(base.model, calibration, by_segments=by_segments, **settings)

        for_document = encoder(treatment.for_documents)
        lengths = lens.counter.count_whole(lens.texts)
        alone = self.embed(
            encoder(treatment.for_segments), [Text(*own) for own in zip(lens.texts, lengths, strict=True)]
        )
        with warnings.catch_warnings():
            # What is never seen is told by the result itself.
            warnings.filterwarnings("ignore", message="(?s).*is longer than the model: its segments")
            (whole,) = self.embed(for_document, [Text(lens.text, lens.length, borders=lens.starts)])
        cosines = _plain(representation(whole, alone))
        attention, elsewhere = self._attention(
            for_document.model, by_segments=treatment.baskets == "segments" and treatment.for_documents.acts
        )
        kept = self._retention(for_document, alone)
        return Reading(treatment.name, cosines, shares(cosines), attention, elsewhere, kept)

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
            (row,) = attention_rows(model, [given], prompt=self.prompt)
        except UnsupportedModel as error:
            self.notes[f"no attention: {str(error).rstrip('.')}"] = None
            return None, None
        self._note_prefix("attention")
        profile = by_segment(row, _clipped(self.lens.spans, len(text)))
        return _plain(profile.segments.mean(axis=0)), float((profile.special + profile.other).mean())

    def _retention(self, encoder: ModelEncoder, alone: np.ndarray) -> tuple[float | None, ...] | None:
        """τ of each segment that the model sees; None for models that are not mean-pooled."""
        prefix = self.lens.prefix
        pooled = [module.pooling_mode for module in self.model.children() if isinstance(module, Pooling)]
        if pooled != ["mean"] or prefix is None:
            return None
        spans = _clipped(self.lens.spans, len(prefix))
        there = [number for number, (start, end) in enumerate(spans) if prefix[start:end].strip()]
        text = Text(
            prefix,
            self.lens.counter.count_whole([prefix])[0],
            tuple(spans[number] for number in there),
            tuple(self.lens.starts[number] for number in there),
        )
        try:
            refuse_other_spaces(self.model)
            ((_, inside),) = encoder.with_spans([text])
        except (UnsupportedModel, EncodingError) as error:
            self.notes[f"no retention: {str(error).rstrip('.')}"] = None
            return None
        self._note_prefix("retention")
        found = dict(zip(there, _plain(retention(inside, alone[there])), strict=True))
        return tuple(found.get(number) for number in range(len(spans)))

    def _note_prefix(self, measure: str) -> None:
        if self.lens.prefix is not None and not self.lens.whole:
            tokens = self.lens.counter.count_whole([self.lens.prefix])[0]
            self.notes[f"{measure} is of the first {tokens:,} tokens, up to the end of a word"] = None


def _as_it_comes(
    model: Encodes, lens: Lens, treatments: Sequence[Treatment], embed: Embed
) -> tuple[list[Reading], tuple[str, ...]]:
    """Any object that embeds: nothing is known of its inside."""
    encoder, notes = ObjectEncoder(model), []
    whole = Text(lens.text, lens.length)
    try:
        refuse_unread_end(encoder, whole, Tally())
    except EncodingError:
        notes.append("the vector stays the same without the last words: the model does not read all of this text")
    alone = embed(encoder, [Text(text, len(text)) for text in lens.texts])
    cosines = _plain(representation(embed(encoder, [whole])[0], alone))
    return [Reading(treatment.name, cosines, shares(cosines)) for treatment in treatments], tuple(notes)


def _treatments(given: Sequence[AnyTreatment]) -> list[Treatment]:
    if isinstance(given, str | Treatment | Calibration | Mapping) or not given:
        raise DesignError(f"treatments must be a list, such as ['none', 'paper'], got {given!r}.")
    chosen = [as_treatment(one) for one in given]
    names = [treatment.name for treatment in chosen]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DesignError(f"the treatment {twice[0]!r} is named twice.")
    fitted = [treatment.name for treatment in chosen if treatment.whitens]
    if fitted:
        raise DesignError(f"{fitted[0]} is fitted on a corpus, and this is one document: use fairspan audit.")
    return chosen


def _refuse_beyond_encode(model: Any, treatments: Sequence[Treatment]) -> None:
    kind = type(model).__name__
    if not callable(getattr(model, "encode", None)):
        raise UnsupportedModel(f"{kind} has no encode(list[str]): give a SentenceTransformer or an object that has.")
    acting = [treatment.name for treatment in treatments if treatment.acts]
    if acting:
        raise UnsupportedModel(
            f"{kind} is not a SentenceTransformer, so it can be inspected only as it comes: leave out "
            f"{', '.join(acting)}."
        )


def _clipped(spans: Sequence[Span], end: int) -> list[Span]:
    return [(min(start, end), min(stop, end)) for start, stop in spans]


def _plain(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
