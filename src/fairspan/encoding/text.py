"""`Text`: what is embedded; `Encoder`: what embeds it, and under which keys. Knows no model, so that settings can be
checked without one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.errors import UnsupportedModel

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed.

    Attributes:
        length: its tokens, prompt and special tokens included; more than the model reads if it is to be cut.
        spans: characters of the parts whose contextual vectors are wanted as well (late chunking).
        borders: the characters at which its segments begin, where they are known; an encoder with segment baskets
            makes each of them a basket.
        language: by whose rules it is cut into sentences, where that is asked for; those of English if it is empty.
    """

    text: str
    length: int
    spans: tuple[Span, ...] = ()
    borders: tuple[int, ...] = ()
    language: str = ""


def key_of(*parts: str) -> bytes:
    """A key of the store for everything that decides a vector."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()


class Encoder:
    """Embeds batches of texts, and knows under which keys the results are stored.

    Attributes:
        model: what it embeds with.
        window: how many tokens of a text are read; None if nothing is known of a limit.
        most: texts in a batch; None for any number.
        at_once: batches that may be under way at a time.
    """

    model: Any
    window: int | None = None
    most: int | None = None
    at_once: int = 1

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text."""
        raise NotImplementedError

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored."""
        raise NotImplementedError

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        """One vector per text, and [spans, dimension], the contextual vectors of its spans, from the same pass."""
        raise UnsupportedModel(
            f"retention and late chunks need token embeddings, which {type(self.model).__name__} does not offer "
            "here: omit them."
        )

    def span_key(self, text: Text) -> bytes:
        """Where the vectors of its spans are stored."""
        return key_of(self.key(text).hex(), str(text.spans))


class DerivedEncoder(Encoder):
    """Makes the vector of a text of those that another encoder, `alone`, gives for its parts."""

    alone: Encoder

    def parts(self, texts: Sequence[Text]) -> list[tuple[Text, ...]]:
        """What is embedded of each text."""
        raise NotImplementedError

    def combine(
        self, texts: Sequence[Text], vectors: Sequence[Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        """The vector of each text, given those of its parts."""
        raise NotImplementedError

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        parts = self.parts(batch)
        found = iter(self.alone.vectors([part for own in parts for part in own]))
        return self.combine(batch, [[next(found) for _ in own] for own in parts])


def innermost(encoder: Encoder, texts: Sequence[Text]) -> tuple[Encoder, list[Text]]:
    """The encoder that runs the model, and what it embeds for these texts."""
    found = list(texts)
    while isinstance(encoder, DerivedEncoder):
        parts, encoder = encoder.parts(found), encoder.alone
        found = [part for own in parts for part in own]
    return encoder, found
