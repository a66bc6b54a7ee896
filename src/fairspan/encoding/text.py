"""`Text`: what is embedded. Knows no model, so that settings can be checked without one."""

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
    """

    text: str
    length: int
    spans: tuple[Span, ...] = ()
    borders: tuple[int, ...] = ()
    language: str = ""
