"""`Text`: what is embedded, and keys that vectors are stored under."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fairspan.corpus.sentences import Span


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed.

    Attributes:
        length: its tokens, prompt and special tokens included, before anything is cut.
        spans: characters of the segments whose contextual vectors are needed too.
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
