"""What an audit would do, without doing it: sets, documents, tokens and time."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.runs.bases import Treated
from fairspan.runs.sending import Sending, forecast_sending
from fairspan.runs.speed import on_trial, tokens_per_second
from fairspan.studies.audit.family import by_family
from fairspan.studies.audit.prepare import Prepared


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
        unit: what `tokens` are: "tokens", or "characters" for a model without a tokenizer.
        seconds: predicted from a short trial on this machine; None for an endpoint.
        sending: what would be sent to an endpoint.
    """

    families: tuple[Family, ...]
    treatments: int
    segments: int
    documents: int
    tokens: int
    unit: str
    seconds: float | None
    sending: Sending | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def forecast(prepared: Prepared, store: Path | str | None = None) -> Forecast:
    """Count what a run would embed, and time a small part of it; or send a few texts to an endpoint and keep them."""
    segments, documents = prepared.texts()
    own, treatments = sum(text.length for text in segments + documents), prepared.spec.treatments
    tokens = prepared.fit.tokens(treatments, [own] * len(treatments))

    def under(treatment: Treatment) -> Treated:
        return on_trial(prepared.subject, treatment, prepared.fit)

    sending = forecast_sending(prepared.subject, prepared.embedded(under), store)
    seconds = None
    if sending is None:
        seconds = sum(
            count / tokens_per_second(under(treatment).documents, documents)
            for treatment, count in zip(treatments, tokens, strict=True)
            if count
        )
    return Forecast(
        families=tuple(
            Family(n, plan, len({d.set for d in members}), len(members), sum(d.length for d in members))
            for (n, plan), members in by_family(prepared.documents.documents).items()
        ),
        treatments=len(treatments),
        segments=len(segments),
        documents=len(documents),
        tokens=sum(tokens),
        unit=prepared.subject.counter.unit,
        seconds=seconds,
        sending=sending,
        notes=(*prepared.header["notes"], *prepared.fit.notes),
    )
