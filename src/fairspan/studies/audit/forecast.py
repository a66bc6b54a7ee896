"""What an audit would do, without doing it: sets, documents, tokens and time."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairspan.encoding.encoder import Encoder, Text
from fairspan.studies.audit.family import by_family
from fairspan.studies.audit.prepare import Prepared

_TRIAL_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Family:
    """The documents of one size and language plan."""

    n: int
    plan: str
    sets: int
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would embed.

    Attributes:
        segments: different segments, each embedded alone once per treatment.
        tokens: over all treatments, segments included, and what a treatment is fitted on.
        seconds: predicted from a short trial on this machine.
    """

    families: tuple[Family, ...]
    treatments: int
    segments: int
    documents: int
    tokens: int
    seconds: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def forecast(prepared: Prepared) -> Forecast:
    """Count what a run would embed, and time a small part of it."""
    segments, documents = prepared.texts()
    own, treatments = sum(text.length for text in segments + documents), prepared.spec.treatments
    tokens = [own + (prepared.fit.tokens if treatment.whitens else 0) for treatment in treatments]
    speeds = [_speed(prepared, treatment, documents) for treatment in treatments]
    return Forecast(
        families=tuple(
            Family(n, plan, len({d.set for d in members}), len(members), sum(d.length for d in members))
            for (n, plan), members in by_family(prepared.documents.documents).items()
        ),
        treatments=len(treatments),
        segments=len(segments),
        documents=len(documents),
        tokens=sum(tokens),
        seconds=sum(count / speed for count, speed in zip(tokens, speeds, strict=True)),
        notes=(*prepared.header["notes"], *prepared.fit.notes),
    )


def _speed(prepared: Prepared, treatment: Any, documents: Sequence[Text]) -> float:
    """Tokens per second, from documents of medium length."""
    encoder = prepared.subject.under(treatment, fit=prepared.fit, embed=_stand_in, lasting=False).documents
    ordered = sorted(documents, key=lambda text: text.length)
    middle = ordered[len(ordered) // 2 :][:4]
    encoder.vectors(middle[:1])
    done, started = 0, time.perf_counter()
    while done == 0 or time.perf_counter() - started < _TRIAL_SECONDS:
        encoder.vectors(middle)
        done += sum(text.length for text in middle)
    return done / (time.perf_counter() - started)


def _stand_in(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    """Vectors to fit on that need no embedding: what they are does not change how long a treatment takes."""
    (one,) = encoder.vectors(texts[:1])
    return np.random.default_rng(0).standard_normal((len(texts), len(one)))
