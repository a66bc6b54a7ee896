"""What an evaluation would do, without doing it: texts, tokens and time of each treatment, and what it would cut."""

from dataclasses import asdict, dataclass
from typing import Any

from fairspan.runs.speed import on_trial, tokens_per_second, tokens_read
from fairspan.studies.evaluate.prepare import PreparedEvaluation


@dataclass(frozen=True, slots=True)
class ArmForecast:
    """What one treatment has to embed, beyond what those before it have embedded already.

    Attributes:
        tokens: of documents in all its indexes, of queries, and of what it is fitted on.
        seconds: predicted from a short trial on this machine.
        window: how many tokens of a document it reads; None if nothing is known of a limit.
        cut: documents that are longer.
    """

    treatment: str
    tokens: int
    seconds: float
    window: int | None
    cut: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would embed and compare."""

    arms: tuple[ArmForecast, ...]
    queries: int
    documents: int
    clusters: int
    notes: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return sum(arm.tokens for arm in self.arms)

    @property
    def seconds(self) -> float:
        return sum(arm.seconds for arm in self.arms)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "tokens": self.tokens, "seconds": self.seconds}


def forecast(prepared: PreparedEvaluation) -> Forecast:
    """Count what a run would embed, and time a small part of it under every treatment."""
    spec, header, searching = prepared.spec, prepared.header, prepared.searching
    queries = searching.queries()
    plans = {index: searching.plan(index) for index in spec.indexes}
    windows = {one["treatment"]: one for one in header["windows"] if one["texts"] == "documents"}
    arms, done = [], set[bytes]()
    for treatment in spec.measured:
        treated = on_trial(prepared.subject, treatment, prepared.fit)
        tokens = prepared.fit.tokens if treatment.whitens else 0
        # As in a run: a late chunk's pass gives the whole document's vector as well.
        indexes = sorted(spec.indexes_of(treatment), key=lambda name: not name.startswith("late"))
        embedded = [(treated.queries, queries), *((treated.documents, plans[index].flat) for index in indexes)]
        for encoder, texts in embedded:
            for text in texts:
                keys = {encoder.key(text), *([encoder.span_key(text)] if text.spans else [])}
                tokens += 0 if keys <= done else tokens_read(encoder, text)
                done |= keys
        seconds = tokens / tokens_per_second(treated.documents, plans[indexes[0]].flat) if tokens else 0.0
        own = windows[treatment.name]
        arms.append(ArmForecast(treatment.name, tokens, seconds, own["window"], own["cut"]))
    task = header["task"]
    counts = (len(queries), task["documents"], task["clusters"])
    return Forecast(tuple(arms), *counts, notes=(*header["notes"], *prepared.fit.notes))
