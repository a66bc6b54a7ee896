"""`Base`: what a treatment's calibration is put upon, the model as it comes or a baseline made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, ModelEncoder, Text
from fairspan.encoding.fill import Progress, Tally, fill
from fairspan.encoding.store import Store
from fairspan.errors import UnsupportedModel
from fairspan.model.last_two import last_two
from fairspan.model.whitening import fit_whitening, refuse_truncated, whiten
from fairspan.runs.fit_part import FitPart

Embed = Callable[[Encoder, Sequence[Text]], np.ndarray]
"""[texts, dimension], the vectors of texts to fit on."""


@dataclass(frozen=True, slots=True)
class Base:
    """A model, and what keys of its vectors begin with."""

    model: SentenceTransformer
    fingerprint: str


def base_of(
    model: SentenceTransformer, fingerprint: str, treatment: Treatment, *, prompt: str, fit: FitPart, embed: Embed
) -> Base:
    """The model that a treatment calibrates.

    Args:
        fingerprint: of the plain model.
        prompt: what documents, and so the texts to fit on, are embedded with.
    """
    if treatment.whitens:
        calibration = treatment.for_documents
        by_segments = treatment.baskets == "segments" and calibration.acts
        plain = ModelEncoder(model, calibration, prompt=prompt, fingerprint=fingerprint, by_segments=by_segments)
        whitening = fit_whitening(embed(plain, fit.texts), dimensions=treatment.dimensions)
        return Base(whiten(model, whitening), f"{fingerprint} {treatment.baseline} {whitening.fingerprint}")
    if treatment.baseline == "last2avg":
        return Base(last_two(model), f"{fingerprint} {treatment.baseline}")
    return Base(model, fingerprint)


def embed_through(store: Store, *, budget: int, tally: Tally, progress: Progress) -> Embed:
    """Embeds what the store does not have, as everything else is embedded."""

    def embed(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        fill(encoder, texts, store, budget=budget, tally=tally, progress=progress)
        keys = [encoder.key(text) for text in texts]
        found = store.get(keys)
        return np.stack([found[key] for key in keys])

    return embed


def refuse_unsuited(model: SentenceTransformer, treatment: Treatment, *, compares_tokens: bool) -> None:
    """Raise, before anything is embedded, if a treatment's baseline cannot be made of this model.

    Args:
        compares_tokens: whether tokens are compared with whole vectors under this treatment.
    """
    if treatment.baseline == "last2avg":
        last_two(model)
    if treatment.whitens:
        refuse_truncated(model)
    if treatment.whitens and compares_tokens:
        raise UnsupportedModel(
            f"{treatment.name} moves whole vectors out of the space of the tokens: leave it out, or leave out "
            "retention and late chunks."
        )
