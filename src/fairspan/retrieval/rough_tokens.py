"""`RoughTokens`: lengths in tokens where a model does not show its tokenizer."""

from collections.abc import Sequence

import numpy as np

from fairspan.design.lengths import TokenCounter

_BYTES = 4
"""Of a token, about: four letters of English, one or two characters of Chinese."""


class RoughTokens:
    """Counts a token for every four bytes of UTF-8."""

    unit = "tokens of about four letters"
    window: int | None = None

    def count(self, texts: Sequence[str]) -> list[int]:
        return [-(-len(text.encode()) // _BYTES) for text in texts]

    count_whole = count

    def starts(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The character that has the first byte of each token."""
        starts: list[Sequence[int]] = []
        for text, tokens in zip(texts, self.count(texts), strict=True):
            ends = np.cumsum([len(character.encode()) for character in text])
            starts.append(np.searchsorted(ends, _BYTES * np.arange(tokens), side="right").tolist())
        return starts

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        kept = [text.encode()[: _BYTES * length] for text in texts]
        return [text.decode(errors="ignore").rstrip() for text in kept]


def in_tokens(counter: TokenCounter) -> TokenCounter:
    """A counter of tokens: this one, unless it counts characters of texts of any length."""
    is_rough = counter.unit == "characters" and counter.window is None
    return RoughTokens() if is_rough else counter
