"""`Text`: what is embedded; `Encoder`: what embeds it, and under which keys. Imports no torch."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.calibration.level import CommonDirection
from fairspan.corpus.sentences import Span
from fairspan.errors import UnsupportedModel


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed.

    Attributes:
        length: its tokens, prompt and special tokens included, before anything is cut.
        spans: characters of the parts whose contextual vectors are needed too (late chunking).
        borders: the characters at which its segments begin, if they are known; an encoder with
            segment baskets makes each of them a basket.
        language: whose rules cut it into sentences; those of English if it is empty.
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
        window: how many tokens of a text are read; None if nothing is known of a limit.
        most: texts in a batch; None for any number.
        at_once: batches that may be under way at a time.
        common: what its vectors are made level with; None if they are not.
    """

    model: Any
    window: int | None = None
    most: int | None = None
    at_once: int = 1
    common: CommonDirection | None = None

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text."""
        raise NotImplementedError

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored."""
        raise NotImplementedError

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The vector of each text, [d], and those of its spans, [spans, d], from the same pass."""
        raise UnsupportedModel(
            "retention needs token embeddings, which "
            f"{type(self.model).__name__} does not offer here: omit them."
        )

    def span_key(self, text: Text) -> bytes:
        """Where the vectors of its spans are stored."""
        return key_of(self.key(text).hex(), str(text.spans))
