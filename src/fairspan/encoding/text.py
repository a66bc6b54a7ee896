"""`Text`: what is embedded, and its keys. Knows no model, so that settings can be checked without one."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

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
        languages: those that it is written in, each with its share of the text, where they are not `language` alone.
    """

    text: str
    length: int
    spans: tuple[Span, ...] = ()
    borders: tuple[int, ...] = ()
    language: str = ""
    languages: tuple[tuple[str, float], ...] = ()

    @property
    def spoken(self) -> tuple[tuple[str, float], ...]:
        """Its languages with their shares; none where they are not known."""
        return self.languages or (((self.language, 1.0),) if self.language else ())


def shares(lengths: Iterable[tuple[str, int]]) -> tuple[tuple[str, float], ...]:
    """Each language with its share of a text, given the lengths of its parts.

    >>> shares([("de", 1), ("en", 2), ("en", 1)])
    (('de', 0.25), ('en', 0.75))
    """
    found: dict[str, int] = {}
    for language, length in lengths:
        found[language] = found.get(language, 0) + length
    whole = max(1, sum(found.values()))
    return tuple((language, length / whole) for language, length in found.items() if length)


def key_of(*parts: str) -> bytes:
    """A key of the store for everything that decides a vector."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()
