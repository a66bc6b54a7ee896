"""What a run has to send to an endpoint, counted before it starts."""

from collections.abc import Iterable

import numpy as np

from fairspan.encoding.chunks import innermost
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.errors import FairspanError
from fairspan.runs.bases import Pair
from fairspan.runs.header import USUAL_CHARACTERS, Sending

# The first request has a few texts from everywhere in the run.
_SAMPLE = 8
# The cosine of two answers of one model for one text, with room for half precision.
_SAME = 0.99


def plan_sending(
    endpoint: Endpoint, pairs: Iterable[Pair], store: Store, *, budget: int, tally: Tally
) -> Sending:
    """Count what is missing, and send a few of these texts to learn how many tokens they have.

    Raises:
        FairspanError: if a part is stored, and the endpoint has changed since then.
    """
    inner = [innermost(encoder, texts) for encoder, texts in pairs]
    wanted = {encoder.key(text): (encoder, text) for encoder, texts in inner for text in texts}
    absent = store.missing(wanted)
    missing = [pair for key, pair in wanted.items() if key in absent]
    stored = [pair for key, pair in wanted.items() if key not in absent]
    # Before the request below, which is too small to measure with.
    unmeasured = endpoint.received.tokens is None
    if missing and stored:
        # Before anything is stored, so that the store never has vectors of two models as one's.
        _refuse_changed(*min(stored, key=lambda pair: pair[1].length), store)
    if missing and unmeasured:
        encoder = missing[0][0]
        texts = [text for other, text in missing if other is encoder]
        sample = texts[:: max(1, len(texts) // _SAMPLE)][:_SAMPLE]
        fill(encoder, sample, store, budget=budget, tally=tally, progress=lambda tokens: None)
    received = endpoint.received
    characters = sum(text.length for _, text in missing)
    per_token = received.characters / received.tokens if received.tokens else None
    return Sending(
        texts=len(missing),
        characters=characters,
        tokens=round(characters / (per_token or USUAL_CHARACTERS)),
        characters_per_token=per_token,
        stored=len(stored),
    )


def _refuse_changed(encoder: Encoder, text: Text, store: Store) -> None:
    """Raise if a text has another vector now than in the store: these are two models."""
    (now,) = encoder.vectors([text])
    key = encoder.key(text)
    before = store.get([key])[key]
    same = now.shape == before.shape
    if not same or now @ before < _SAME * np.linalg.norm(now) * np.linalg.norm(before):
        raise FairspanError(
            f"{encoder.model!r} gives another vector than before for the text that begins "
            f"{text.text[:40]!r}: the model behind it has changed. Measure it with another store."
        )
