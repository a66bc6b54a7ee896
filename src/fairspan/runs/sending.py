"""What a run sends to an endpoint: how much, and whether the model behind it is the same."""

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from fairspan.encoding.encoder import Encoder
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.errors import FairspanError
from fairspan.runs.embedder import Pair
from fairspan.runs.header import Sending

Wanted = Mapping[bytes, tuple[Encoder, Text]]
"""Texts with what embeds them, by the keys of their vectors."""
# The least cosine of two answers of one model for one text, also in half precision.
_SAME = 0.99
# Characters per token, roughly, in English: servers count tokens only after they get a text.
_CHARACTERS = 4


def wanted_of(pairs: Iterable[Pair]) -> Wanted:
    """All texts of a run as they are sent, in chunks where they are averaged."""
    return {
        encoder.key(piece): (encoder, piece)
        for encoder, texts in pairs
        for piece in chain.from_iterable(encoder.pieces(texts))
    }


def sending_of(wanted: Wanted, store: Store) -> Sending:
    """How much of it is not in the store."""
    absent = store.missing(wanted)
    lengths = [text.length for key, (_, text) in wanted.items() if key in absent]
    return Sending(len(lengths), sum(lengths), len(wanted) - len(lengths))


def sending_words(sending: Sending) -> str:
    """Such as "1,200 texts to send, 900,000 characters, about 230,000 tokens (…)"."""
    stored = f"; {sending.stored:,} texts are in the store" if sending.stored else ""
    if not sending.texts:
        return f"nothing to send{stored}"
    tokens = sending.characters // _CHARACTERS
    rounded = round(tokens, 2 - len(str(tokens)))
    return (
        f"{sending.texts:,} texts to send, {sending.characters:,} characters, about {rounded:,} "
        f"tokens (at {_CHARACTERS} characters per token){stored}"
    )


def refuse_changed(wanted: Wanted, store: Store) -> None:
    """Raise if the shortest stored text has another vector now.

    So a store never mixes vectors of two models.
    """
    with Store(store.path) as before:  # a fresh store shows none
        stored = wanted.keys() - before.missing(wanted)
        if not stored:
            return
        key = min(stored, key=lambda key: (wanted[key][1].length, key))
        was = before.get([key])[key]
    encoder, text = wanted[key]
    (now,) = encoder.vectors([text])
    same = now.shape == was.shape
    if not same or now @ was < _SAME * np.linalg.norm(now) * np.linalg.norm(was):
        raise FairspanError(
            f"{encoder.model!r} gives another vector than before for the text that begins "
            f"{text.text[:40]!r}: the model behind it has changed. Measure it with another store."
        )
