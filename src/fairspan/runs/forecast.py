"""`Forecast`: what a study would embed or send; nothing is embedded for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.level import CommonDirection
from fairspan.calibration.treatment import Treatment
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import tokens_read, unasked
from fairspan.encoding.store import Store, default_store
from fairspan.runs.embedder import Pair
from fairspan.runs.header import Sending
from fairspan.runs.sending import sending_of, sending_words, wanted_of
from fairspan.runs.subject import Subject
from fairspan.runs.texts import Texts
from fairspan.runs.treated import Treated


@dataclass(frozen=True, slots=True)
class Stage:
    """What a treatment or a stage embeds that no stage before it did."""

    name: str
    texts: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do.

    Attributes:
        stages: texts whose vectors are stored count as well.
        unit: what `tokens` are: "tokens", or "characters" for a model without a tokenizer.
        sending: what is sent to an endpoint.
    """

    model: str
    stages: tuple[Stage, ...]
    unit: str
    tokens: int
    sending: Sending | None
    notes: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """How much is embedded, and what is sent."""
        sentences = [f"{self.tokens:,} {self.unit} to embed"]
        return sentences if self.sending is None else [*sentences, sending_words(self.sending)]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def forecast(texts: Texts) -> Forecast:
    """What a run would embed, without sending or embedding anything."""
    subject = texts.subject
    stages = stages_of(texts)
    tokens = sum(stage.tokens for stage in stages)
    sending = None
    if isinstance(subject.model, Endpoint):
        wanted = wanted_of(chain.from_iterable(pairs_of(texts).values()))
        place = Path(texts.options.store or default_store())
        there = place if place.exists() else ":memory:"
        with Store(there, fresh=texts.options.fresh) as store:
            sending = sending_of(wanted, store)
    return Forecast(
        model=subject.name,
        stages=tuple(stages),
        unit=subject.counter.unit,
        tokens=tokens,
        sending=sending,
        notes=tuple(texts.notes),
    )


def stages_of(texts: Texts) -> list[Stage]:
    """What a run embeds, stage by stage."""
    counted: set[bytes] = set()
    stages = []
    for name, pairs in pairs_of(texts).items():
        new = [(encoder, unasked(encoder, listed, counted)) for encoder, listed in pairs]
        count = sum(len(listed) for _, listed in new)
        stages.append(Stage(name, count, sum(tokens_read(*pair) for pair in new)))
    return stages


def pairs_of(texts: Texts) -> Mapping[str, Sequence[Pair]]:
    """The texts of every stage with what embeds them; to count them, not to embed them."""
    # Each treatment is calibrated once.
    return texts.stages(cache(partial(_unlevelled, texts.subject)))


def _unlevelled(subject: Subject, treatment: Treatment) -> Treated:
    """The model under a treatment, only to count texts: any direction will do for level vectors."""
    size = 1
    model = subject.model
    if isinstance(model, SentenceTransformer):
        with model.truncate_embeddings(None):
            size = model.get_embedding_dimension() or size
    common = CommonDirection(np.eye(1, size)[0], share=0.5)
    return subject.under(treatment, common=common, lasting=False)
