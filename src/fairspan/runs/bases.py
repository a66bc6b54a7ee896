"""`Treated`: a model under one treatment, with its encoders of documents, segments and queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.treatment import CHUNK_TOKENS, Treatment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import ChunkEncoder, chunk_tokens
from fairspan.encoding.encoder import Encoder, Encodes, ModelEncoder, ObjectEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters, counter_of
from fairspan.model.baselines import fit_whitening, last_two, whiten
from fairspan.runs.fit_part import FitPart

Pair = tuple[Encoder, Sequence[Text]]
"""Texts with what embeds them."""
Embed = Callable[[Encoder, Sequence[Text]], np.ndarray]
"""[texts, dimension], the vectors of texts to fit on."""

CHUNK_CHARACTERS = 4 * CHUNK_TOKENS
"""A chunk's length for a model without a tokenizer: English has about four characters per token."""


def embed_through(
    store: Store, *, budget: int, tally: Tally, progress: Callable[[int], None]
) -> Embed:
    """Embeds what the store does not have, as everything else is embedded."""

    def embed(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        fill(encoder, texts, store, budget=budget, tally=tally, progress=progress)
        keys = [encoder.key(text) for text in texts]
        vectors = store.get(keys)
        return np.stack([vectors[key] for key in keys])

    return embed


@dataclass(frozen=True)
class Treated:
    """A model under a treatment.

    Attributes:
        model: what is calibrated: the plain model, or the baseline made of it.
        fingerprint: what the keys of its vectors begin with.
        normalise: whether chunks and their mean are set to length 1, for comparison by cosine.
    """

    model: SentenceTransformer | Encodes
    fingerprint: str
    treatment: Treatment
    prompts: Mapping[str, str]
    normalise: bool

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
        """What embeds the texts of a side under a calibration."""
        prompt = self.prompts[side]
        chunked = self.treatment.chunks and side == "document"
        by_segments = self.treatment.by_segments and side == "document"
        if isinstance(self.model, SentenceTransformer):
            counter: TokenCounter = counter_of(self.model, prompt)
            size = self.treatment.chunk_size()
            encoder: Encoder = ModelEncoder(
                self.model,
                calibration,
                prompt=prompt,
                fingerprint=self.fingerprint,
                side=side,
                by_segments=by_segments and calibration.acts and not chunked,
            )
        else:
            counter = Characters(prompt)
            size = self.treatment.chunk_size(CHUNK_CHARACTERS)
            encoder = ObjectEncoder(self.model, prompt, side)
        if not chunked:
            return encoder
        how = {"normalise": self.normalise, "by_segments": by_segments}
        return ChunkEncoder(encoder, counter, chunk_tokens(size, counter), **how)


def treat(plain: Treated, *, fit: FitPart, embed: Embed) -> Treated:
    """The model under its treatment, of which a whitening is fitted on `fit`.

    Chunks are embedded by the plain model, so that their vectors are those of an index of chunks.
    """
    treatment = plain.treatment
    fingerprint = f"{plain.fingerprint} {treatment.baseline}"
    if treatment.whitens:
        whitening = fit_whitening(embed(plain.documents, fit.texts), dimensions=treatment.number)
        whitened = whiten(plain.model, whitening)
        return replace(plain, model=whitened, fingerprint=f"{fingerprint} {whitening.fingerprint}")
    if treatment.baseline == "last2avg":
        return replace(plain, model=last_two(plain.model), fingerprint=fingerprint)
    return plain


def fit_pairs(
    treatment: Treatment, fit: FitPart, under: Callable[[Treatment], Treated]
) -> list[Pair]:
    """What a treatment is fitted on, with what embeds it."""
    if not treatment.whitens:
        return []
    return [(under(replace(treatment, baseline=None)).documents, fit.texts)]
