"""`Forecast`: what a study would embed and how long that takes, found from a short trial on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store, default_store
from fairspan.report.text import duration
from fairspan.runs.bases import Treated
from fairspan.runs.fit_part import FitPart
from fairspan.runs.header import Sending
from fairspan.runs.prepared import Prepared
from fairspan.runs.sending import plan_sending
from fairspan.runs.subject import Subject, batch_budget

_TRIAL_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do.

    Attributes:
        rows: one for each treatment or stage: its name, its facts, its tokens and seconds.
        unit: what `tokens` are: "tokens", or "characters" for a model without a tokenizer.
        seconds: predicted from a short trial on this machine; None for an endpoint.
        sending: what would be sent to an endpoint.
    """

    model: str
    scope: str
    rows: tuple[Mapping[str, Any], ...]
    unit: str
    tokens: int
    seconds: float | None
    sending: Sending | None
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        took = "" if self.seconds is None else f", about {duration(self.seconds)} on this machine"
        return f"{self.scope}: {self.tokens:,} {self.unit} to embed{took}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class UnderWay(Protocol):
    """A run that has begun, and may find vectors in its store."""

    store: Store

    def under(self, treatment: Treatment) -> Treated: ...


def forecast(prepared: Prepared, run: UnderWay | None = None) -> Forecast:
    """Count what a run would embed, and time a small part of it; or send a few texts to an endpoint and keep them.

    Of a run that is under way, what its store has is not counted.
    """
    subject, sending = prepared.subject, None
    work = prepared.work(
        run.under if run else lambda treatment: on_trial(subject, treatment, prepared.fit)
    )
    if isinstance(subject.model, Endpoint):
        with Store(prepared.options.store or default_store()) as store:
            pairs = [pair for one in work for pair in one.pairs]
            sending = plan_sending(
                subject.model, pairs, store, budget=batch_budget(subject.model), tally=Tally()
            )
    done: set[bytes] = set()
    rows = []
    for one in work:
        tokens = sum(_count(*pair, done, run.store if run else None) for pair in one.pairs)
        row: dict[str, Any] = {"name": one.name, **one.facts, "tokens": tokens, "seconds": None}
        timed = next((pair for pair in reversed(one.pairs) if pair[1]), None)
        if sending is None and timed is not None:
            row["seconds"] = one.seconds + (tokens / _tokens_per_second(*timed) if tokens else 0.0)
        rows.append(row)
    seconds = None if sending else sum(row["seconds"] or 0.0 for row in rows)
    tokens = sum(row["tokens"] for row in rows)
    notes = (*prepared.notes, *prepared.fit.notes)
    unit = subject.counter.unit
    return Forecast(
        subject.name, prepared.scope, tuple(rows), unit, tokens, seconds, sending, notes
    )


def _count(encoder: Encoder, texts: Sequence[Text], done: set[bytes], store: Store | None) -> int:
    """The tokens of texts that have no vector yet; another treatment may give the same vector."""
    tokens, keys = (
        0,
        [{encoder.key(text), *([encoder.span_key(text)] if text.spans else [])} for text in texts],
    )
    missing = (
        set().union(*keys)
        if store is None
        else set(store.missing(key for own in keys for key in own))
    )
    for text, own in zip(texts, keys, strict=True):
        tokens += _tokens_read(encoder, text) if own & missing - done else 0
        done |= own
    return tokens


def on_trial(subject: Subject, treatment: Treatment, fit: FitPart) -> Treated:
    """The model under a treatment, fitted on anything: what it is fitted on does not change how long it takes."""
    return subject.under(treatment, fit=fit, embed=_stand_in, lasting=False)


def _stand_in(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
    """Vectors to fit on that need no embedding."""
    (one,) = encoder.vectors(texts[:1])
    return np.random.default_rng(0).standard_normal((len(texts), len(one)))


def _tokens_per_second(encoder: Encoder, texts: Sequence[Text]) -> float:
    """From a few texts of medium length."""
    middle = _middle(texts)
    _seconds(encoder, middle[:1])
    done, took = 0, 0.0
    while done == 0 or took < _TRIAL_SECONDS:
        took += _seconds(encoder, middle)
        done += sum(_tokens_read(encoder, text) for text in middle)
    return done / took


def relative_time(first: Encoder, second: Encoder, texts: Sequence[Text], rounds: int = 3) -> float:
    """The time of the second for texts of medium length, relative to the first; the median of a few turns."""
    middle = _middle(texts)
    for encoder in (first, second):
        _seconds(encoder, middle)
    took = [[_seconds(encoder, middle) for encoder in (first, second)] for _ in range(rounds)]
    return float(np.median([two / one for one, two in took]))


def _tokens_read(encoder: Encoder, text: Text) -> int:
    """The tokens of a text, up to the limit of what reads it."""
    return text.length if encoder.window is None else min(text.length, encoder.window)


def _seconds(encoder: Encoder, texts: Sequence[Text]) -> float:
    """How long texts take as a run embeds them, with its batches halved where memory is short; nothing is kept."""
    started = time.perf_counter()
    with Store(":memory:") as store:
        together = len(texts) * max(text.length for text in texts)
        fill(encoder, texts, store, budget=together, tally=Tally(), progress=lambda tokens: None)
    return time.perf_counter() - started


def _middle(texts: Sequence[Text]) -> list[Text]:
    ordered = sorted(texts, key=lambda text: text.length)
    return ordered[len(ordered) // 2 :][:4]
