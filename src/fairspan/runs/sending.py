"""`Sending`: what a run has to send to an endpoint, counted before it starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairspan.encoding.corrected import CorrectedEncoder
from fairspan.encoding.encoder import ChunkEncoder, Encoder, ObjectEncoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store, default_store
from fairspan.errors import EncodingError
from fairspan.runs.subject import Subject

Pair = tuple[Encoder, Sequence[Text]]
"""Texts with what embeds them."""

# The first request: a few texts from everywhere in the run, of so many characters together.
_SAMPLE_TEXTS, _SAMPLE_CHARACTERS = 8, 8000
# The cosine of two answers of one model for one text, with room for half precision.
_SAME = 0.99
# Where a server does not count tokens: about what English has.
_USUAL = 4.0


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent, and what the store has already.

    Attributes:
        tokens: estimated from what the endpoint counts for a few of these texts.
        characters_per_token: as it counts them; None if it does not, and four are assumed.
    """

    texts: int
    characters: int
    tokens: int
    characters_per_token: float | None
    stored: int

    @property
    def words(self) -> str:
        """Such as "1,200 texts to send, 900,000 characters, about 230,000 tokens (3.9 characters per token, …)"."""
        there = f"; {self.stored:,} texts are in the store" if self.stored else ""
        if not self.texts:
            return f"nothing to send{there}"
        how = "assuming 4 characters per token, because the endpoint does not count them"
        if self.characters_per_token is not None:
            how = f"estimated from a first small request, {self.characters_per_token:.1f} characters per token"
        return (
            f"{self.texts:,} texts to send, {self.characters:,} characters, about {_rounded(self.tokens):,} tokens "
            f"({how}){there}"
        )


def plan_sending(endpoint: Endpoint, pairs: Iterable[Pair], store: Store, *, budget: int, tally: Tally) -> Sending:
    """Count what is missing, and send a few of these texts to learn how many tokens they have.

    Raises:
        EncodingError: if a part is stored, and the endpoint has changed since then.
    """
    wanted: dict[bytes, tuple[ObjectEncoder, Text]] = {}
    for encoder, texts in pairs:
        own = texts
        if isinstance(encoder, CorrectedEncoder):
            encoder = encoder.alone
        if isinstance(encoder, ChunkEncoder):
            own, encoder = [chunk for chunks in encoder.chunks(texts) for chunk in chunks], encoder.alone
        if isinstance(encoder, ObjectEncoder):
            wanted |= {encoder.key(text): (encoder, text) for text in own}
    absent = store.missing(wanted)
    missing = [one for key, one in wanted.items() if key in absent]
    characters = sum(text.length for _, text in missing)
    first = endpoint.received.tokens is None
    if missing and len(missing) < len(wanted):
        # Before anything else is stored, so that the store never has vectors of two models under one name.
        stored = [one for key, one in wanted.items() if key not in absent]
        _refuse_changed(*min(stored, key=lambda one: one[1].length), store)
    if missing and first:
        encoder = missing[0][0]
        sample = _some([text for one, text in missing if one is encoder])
        fill(encoder, sample, store, budget=budget, tally=tally, progress=lambda tokens: None)
    received = endpoint.received
    measured = received.characters / received.tokens if received.tokens else None
    tokens = round(characters / (measured or _USUAL))
    return Sending(len(missing), characters, tokens, measured, len(wanted) - len(missing))


def _refuse_changed(encoder: ObjectEncoder, text: Text, store: Store) -> None:
    """Raise if a stored text, the shortest, now has another vector: two models cannot be measured as one."""
    (now,), key = encoder.vectors([text]), encoder.key(text)
    before = store.get([key])[key]
    if now.shape != before.shape or now @ before < _SAME * np.linalg.norm(now) * np.linalg.norm(before):
        raise EncodingError(
            f"{encoder.model!r} gives another vector than before for the text that begins {text.text[:40]!r}: the "
            "model behind it has changed. Measure it with another store: [[store=]]."
        )


def _some(texts: Sequence[Text]) -> list[Text]:
    """A few texts from everywhere, together not too long; the shortest if all are."""
    step = max(1, len(texts) // _SAMPLE_TEXTS)
    chosen: list[Text] = []
    for text in texts[::step][:_SAMPLE_TEXTS]:
        if sum(one.length for one in chosen) + text.length <= _SAMPLE_CHARACTERS:
            chosen.append(text)
    return chosen or [min(texts, key=lambda text: text.length)]


def _rounded(number: int) -> int:
    """To two digits: an estimate has no more."""
    return round(number, 2 - len(str(number)))


def forecast_sending(subject: Subject, prepared: Iterable[Pair], store: Path | str | None) -> Sending | None:
    """The same without a run; None if the model is not behind an endpoint."""
    if not isinstance(subject.model, Endpoint):
        return None
    with Store(store or default_store()) as opened:
        return plan_sending(subject.model, prepared, opened, budget=subject.budget(None), tally=Tally())
