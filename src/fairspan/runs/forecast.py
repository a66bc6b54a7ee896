"""`Forecast`: what a study would embed or send, and how long that takes by a short trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from fairspan.calibration.level import CommonDirection
from fairspan.calibration.treatment import Treatment
from fairspan.encoding.chunks import innermost
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill, tokens_read, unasked
from fairspan.encoding.store import Store, default_store
from fairspan.errors import FairspanError
from fairspan.report.text import duration
from fairspan.runs.header import USUAL_CHARACTERS, Sending
from fairspan.runs.levelling import level_pairs
from fairspan.runs.prepared import Prepared, Work
from fairspan.runs.subject import Pair, Subject, Treated, batch_budget

_TRIAL_SECONDS = 1.5
# The first request to an endpoint has a few texts from everywhere in the run.
_SAMPLE = 8
# The cosine of two answers of one model for one text, with room for half precision.
_SAME = 0.99


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run would do.

    Attributes:
        rows: one for each treatment or stage: its name, its facts, its tokens and seconds.
            Texts whose vectors are stored count as well; the same texts of two rows count once.
        unit: what `tokens` are: "tokens", or "characters" for a model without a tokenizer.
        seconds: predicted from a short trial on this machine; None for an endpoint.
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


def forecast(prepared: Prepared) -> Forecast:
    """What a run would embed, with the time of a small part of it.

    To an endpoint a few texts are sent, and their vectors kept.
    """
    subject = prepared.subject
    work = _counted(prepared)
    sending = None
    if isinstance(subject.model, Endpoint):
        options = prepared.options
        pairs = [pair for stage, _ in work for pair in stage.pairs]
        budget = batch_budget(subject.model)
        with Store(options.store or default_store(), fresh=options.fresh) as kept:
            sending = plan_sending(subject.model, pairs, kept, budget=budget, tally=Tally())
    rows: list[dict[str, Any]] = []
    for stage, tokens in work:
        seconds = None if sending else _predicted_seconds(stage, tokens)
        rows.append({"name": stage.name, **stage.facts, "tokens": tokens, "seconds": seconds})
    return Forecast(
        model=subject.name,
        scope=prepared.scope,
        rows=tuple(rows),
        unit=subject.counter.unit,
        tokens=sum(row["tokens"] for row in rows),
        seconds=None if sending else sum(row["seconds"] or 0.0 for row in rows),
        sending=sending,
        notes=tuple(prepared.notes),
    )


def total_tokens(prepared: Prepared) -> int:
    """What a run reads, as its forecast says it."""
    return sum(tokens for _, tokens in _counted(prepared))


def _counted(prepared: Prepared) -> list[tuple[Work, int]]:
    """The stages of a run, and the tokens that each reads."""
    counted: set[bytes] = set()
    stages = []
    for stage in prepared.work(partial(on_trial, prepared.subject)):
        new = [(encoder, unasked(encoder, texts, counted)) for encoder, texts in stage.pairs]
        stages.append((stage, sum(tokens_read(*pair) for pair in new)))
    return stages


def _predicted_seconds(stage: Work, tokens: int) -> float | None:
    """The time of a stage that reads so many tokens; None if it has no texts."""
    timed = next((pair for pair in reversed(stage.pairs) if pair[1]), None)
    if timed is None:
        return None
    return tokens / _tokens_per_second(*timed) if tokens else 0.0


def on_trial(subject: Subject, treatment: Treatment) -> Treated:
    """The model under a treatment, level with any direction, which takes as long."""
    common = None
    for encoder, texts in level_pairs(subject, treatment):
        (vector,) = encoder.vectors(texts[:1])
        common = CommonDirection(np.eye(1, len(vector))[0], share=0.5)
    return subject.under(treatment, common=common, lasting=False)


def _tokens_per_second(encoder: Encoder, texts: Sequence[Text]) -> float:
    """From a few texts of medium length."""
    middle = _middle(texts)
    _seconds(encoder, middle[:1])
    tokens = 0
    seconds = 0.0
    while tokens == 0 or seconds < _TRIAL_SECONDS:
        seconds += _seconds(encoder, middle)
        tokens += tokens_read(encoder, middle)
    return tokens / seconds


def _seconds(encoder: Encoder, texts: Sequence[Text]) -> float:
    """How long texts take as a run embeds them; nothing is kept."""
    started = time.perf_counter()
    with Store(":memory:") as store:
        budget = len(texts) * max(text.length for text in texts)
        fill(encoder, texts, store, budget=budget, tally=Tally())
    return time.perf_counter() - started


def _middle(texts: Sequence[Text]) -> list[Text]:
    ordered = sorted(texts, key=lambda text: text.length)
    return ordered[len(ordered) // 2 :][:4]


def plan_sending(
    endpoint: Endpoint, pairs: Iterable[Pair], store: Store, *, budget: int, tally: Tally
) -> Sending:
    """What a run sends to an endpoint; a few texts are sent at once, to learn their tokens.

    Raises if some vectors are stored, and the endpoint has changed since then: a store never has
    vectors of two models as those of one.
    """
    inner = [innermost(encoder, texts) for encoder, texts in pairs]
    wanted = {encoder.key(text): (encoder, text) for encoder, texts in inner for text in texts}
    absent = store.missing(wanted)
    missing = [pair for key, pair in wanted.items() if key in absent]
    # Before the request below, which is too small to measure with.
    unmeasured = endpoint.received.tokens is None
    if missing:
        with Store(store.path) as before:  # which a fresh one does not show
            _refuse_changed(wanted, before)
    if missing and unmeasured:
        encoder = missing[0][0]
        texts = [text for other, text in missing if other is encoder]
        sample = texts[:: max(1, len(texts) // _SAMPLE)][:_SAMPLE]
        fill(encoder, sample, store, budget=budget, tally=tally)
    received = endpoint.received
    characters = sum(text.length for _, text in missing)
    per_token = received.characters / received.tokens if received.tokens else None
    return Sending(
        texts=len(missing),
        characters=characters,
        tokens=round(characters / (per_token or USUAL_CHARACTERS)),
        characters_per_token=per_token,
        stored=len(wanted) - len(missing),
    )


def _refuse_changed(wanted: Mapping[bytes, tuple[Encoder, Text]], store: Store) -> None:
    """Raise if the shortest stored text has another vector now: these are two models."""
    stored = wanted.keys() - store.missing(wanted)
    if not stored:
        return
    key = min(stored, key=lambda key: (wanted[key][1].length, key))
    encoder, text = wanted[key]
    (now,) = encoder.vectors([text])
    before = store.get([key])[key]
    same = now.shape == before.shape
    if not same or now @ before < _SAME * np.linalg.norm(now) * np.linalg.norm(before):
        raise FairspanError(
            f"{encoder.model!r} gives another vector than before for the text that begins "
            f"{text.text[:40]!r}: the model behind it has changed. Measure it with another store."
        )
