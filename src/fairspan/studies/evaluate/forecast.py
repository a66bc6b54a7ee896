"""What an evaluation would do, without doing it: texts, tokens and time of each treatment, and what it would cut."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.runs.bases import Treated
from fairspan.runs.sending import Sending, forecast_sending
from fairspan.runs.speed import on_trial, tokens_per_second, tokens_read
from fairspan.studies.evaluate.prepare import PreparedEvaluation


@dataclass(frozen=True, slots=True)
class ArmForecast:
    """What one treatment has to embed, beyond what those before it have embedded already.

    Attributes:
        tokens: of documents in all its indexes, of queries, and of what it is fitted on.
        seconds: predicted from a short trial on this machine; None for an endpoint.
        window: how many tokens of a document it reads; None if nothing is known of a limit.
        cut: documents that are longer.
    """

    treatment: str
    tokens: int
    seconds: float | None
    window: int | None
    cut: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would embed and compare; `sending` is what would be sent to an endpoint."""

    arms: tuple[ArmForecast, ...]
    queries: int
    documents: int
    clusters: int
    sending: Sending | None
    notes: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return sum(arm.tokens for arm in self.arms)

    @property
    def seconds(self) -> float | None:
        known = [arm.seconds for arm in self.arms if arm.seconds is not None]
        return sum(known) if len(known) == len(self.arms) else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tokens": self.tokens, "seconds": self.seconds}


def forecast(prepared: PreparedEvaluation, store: Path | str | None = None) -> Forecast:
    """Count what a run would embed, and time a small part of it under every treatment.

    To an endpoint a few texts are sent once, and kept.
    """
    spec, header, searching = prepared.spec, prepared.header, prepared.searching

    def under(treatment: Treatment) -> Treated:
        return on_trial(prepared.subject, treatment, prepared.fit)

    sending = forecast_sending(prepared.subject, prepared.embedded(under), store)
    queries = searching.queries()
    plans = {index: searching.plan(index) for index in spec.indexes}
    windows = {one["treatment"]: one for one in header["windows"] if one["texts"] == "documents"}
    arms, done = [], set[bytes]()
    fitted = prepared.fit.tokens(spec.measured, [0] * len(spec.measured))
    for treatment, tokens in zip(spec.measured, fitted, strict=True):
        # A correction of languages embeds nothing more.
        treated = under(treatment.uncorrected)
        # As in a run: a late chunk's pass gives the whole document's vector as well.
        indexes = sorted(spec.indexes_of(treatment), key=lambda name: not name.startswith("late"))
        embedded = [(treated.queries, queries), *((treated.documents, plans[index].flat) for index in indexes)]
        for encoder, texts in embedded:
            for text in texts:
                keys = {encoder.key(text), *([encoder.span_key(text)] if text.spans else [])}
                tokens += 0 if keys <= done else tokens_read(encoder, text)
                done |= keys
        seconds: float | None = 0.0
        if sending is not None:
            seconds = None
        elif tokens:
            seconds = tokens / tokens_per_second(treated.documents, plans[indexes[0]].flat)
        own = windows[treatment.name]
        arms.append(ArmForecast(treatment.name, tokens, seconds, own["window"], own["cut"]))
    task = header["task"]
    counts = (len(queries), task["documents"], task["clusters"])
    return Forecast(tuple(arms), *counts, sending, notes=(*header["notes"], *prepared.fit.notes))
