"""`Treated`: a model under one treatment, with the encoders of documents, of segments alone and of queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.temperature import Side
from fairspan.calibration.treatment import CHUNK_TOKENS, Treatment
from fairspan.encoding.chunks import ChunkEncoder
from fairspan.encoding.encoder import CorrectedEncoder, Encoder, Encodes, ModelEncoder, ObjectEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters, counter_of
from fairspan.model.baselines import fit_whitening, last_two, whiten
from fairspan.model.correction import LanguageCorrection
from fairspan.runs.fit_part import FitPart, by_language

Embed = Callable[[Encoder, Sequence[Text]], np.ndarray]
"""[texts, dimension], the vectors of texts to fit on."""

CHUNK_CHARACTERS = 4 * CHUNK_TOKENS
"""A chunk's length for a model without a tokenizer: English has about four characters per token."""


def embed_through(store: Store, *, budget: int, tally: Tally, progress: Callable[[int], None]) -> Embed:
    """Embeds what the store does not have, as everything else is embedded."""

    def embed(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        fill(encoder, texts, store, budget=budget, tally=tally, progress=progress)
        keys = [encoder.key(text) for text in texts]
        found = store.get(keys)
        return np.stack([found[key] for key in keys])

    return embed


@dataclass(frozen=True)
class Treated:
    """A model under a treatment.

    Attributes:
        model: what is calibrated: the plain model, or the baseline made of it.
        fingerprint: what the keys of its vectors begin with.
        prompts: by side.
        normalise: whether chunks and their mean are set to length 1, as a model that compares by cosine wants it.
        correction: of what vectors say about their language; the same on both sides.
    """

    model: SentenceTransformer | Encodes
    fingerprint: str
    treatment: Treatment
    prompts: Mapping[str, str]
    normalise: bool = True
    correction: LanguageCorrection | None = None

    @cached_property
    def documents(self) -> Encoder:
        return self._encoder(self.treatment.for_documents)

    @cached_property
    def segments(self) -> Encoder:
        """Of segments that are embedded alone."""
        return self._encoder(self.treatment.for_segments)

    @cached_property
    def queries(self) -> Encoder:
        return self._encoder(self.treatment.for_queries, side="query")

    def _encoder(self, calibration: Calibration, side: Side = "document") -> Encoder:
        found = self._uncorrected(calibration, side)
        return found if self.correction is None else CorrectedEncoder(found, self.correction)

    def _uncorrected(self, calibration: Calibration, side: Side) -> Encoder:
        whole = self._whole(calibration, side)
        if side == "query" or not self.treatment.chunks:
            return whole
        prompt = self.prompts[side]
        if isinstance(self.model, SentenceTransformer):
            counter, size = counter_of(self.model, prompt), self.treatment.chunk_size()
        else:
            counter, size = Characters(prompt), self.treatment.chunk_size(CHUNK_CHARACTERS)
        by_segments = self.treatment.by_segments
        return ChunkEncoder(whole, counter, size, normalise=self.normalise, by_segments=by_segments)

    def _whole(self, calibration: Calibration, side: Side) -> ModelEncoder | ObjectEncoder:
        if not isinstance(self.model, SentenceTransformer):
            return ObjectEncoder(self.model, self.prompts[side], side)
        by_segments = side == "document" and self.treatment.by_segments and calibration.acts
        by_segments = by_segments and not self.treatment.chunks
        known = {"prompt": self.prompts[side], "fingerprint": self.fingerprint}
        return ModelEncoder(self.model, calibration, **known, side=side, by_segments=by_segments)


def treat(plain: Treated, *, fit: FitPart, embed: Embed) -> Treated:
    """The model under its treatment: a whitening and a correction of languages are fitted on `fit`."""
    base = _baseline(plain, fit, embed)
    if plain.treatment.correction is None:
        return base
    vectors = embed(base.documents, fit.parallel)
    method, found = plain.treatment.correction, by_language(fit.parallel, vectors)
    made = LanguageCorrection.fit(method, found, normalise=plain.normalise)
    return replace(base, correction=made)


def _baseline(plain: Treated, fit: FitPart, embed: Embed) -> Treated:
    """The plain model, or the treatment's baseline; a whitening is fitted on `fit`, embedded as documents are.

    Chunks are embedded by the plain model, so that their vectors are those of an index of chunks.
    """
    treatment, fingerprint = plain.treatment, f"{plain.fingerprint} {plain.treatment.baseline}"
    if treatment.whitens:
        whitening = fit_whitening(embed(plain.documents, fit.texts), dimensions=treatment.dimensions)
        made = whiten(plain.model, whitening)
        return replace(plain, model=made, fingerprint=f"{fingerprint} {whitening.fingerprint}")
    if treatment.baseline == "last2avg":
        return replace(plain, model=last_two(plain.model), fingerprint=fingerprint)
    return plain
