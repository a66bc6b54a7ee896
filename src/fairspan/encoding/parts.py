"""Parts of documents: a few runs of equal length, each of which has a vector of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fairspan.corpus.sentences import Span, stripped
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError, require_whole

FEWEST_TOKENS = 16
"""Of a part: fewer say little, and special tokens would be a good part of them."""


@dataclass(frozen=True, slots=True)
class PartRule:
    """How many parts a document has: at most `vectors`, or one for every `tokens` tokens.

    A document that fits into one reading of the model is one part, and no part of `vectors` needs
    to be shorter than half of that.
    """

    vectors: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Raise unless one of the two is set, and high enough."""
        if (self.vectors is None) == (self.tokens is None):
            raise DesignError(
                "the number of vectors of a document follows from vectors, such as 4, or from "
                "tokens, such as 2048, of each: set one of the two."
            )
        if self.vectors is not None:
            require_whole("vectors", self.vectors)
        if self.tokens is not None:
            require_whole("the tokens of a vector", self.tokens, least=FEWEST_TOKENS)

    def count(self, length: int, room: int) -> int:
        """The parts of a text of `length` tokens, of which one reading has `room`."""
        if self.vectors is None:
            return max(1, -(-length // (self.tokens or room)))
        return max(1, min(self.vectors, -(-length // room)))


def part_spans(
    texts: Sequence[str], counter: TokenCounter, rule: PartRule, fits: int
) -> list[list[Span]]:
    """The characters of each text's parts, which differ in length by one token at most.

    Borders lie between tokens, and never inside a character. A text of `fits` tokens, prompt and
    special ones included, is one part.
    """
    added = counter.count_whole([""])[0]
    spans_of = []
    for text, starts in zip(texts, counter.starts(texts), strict=True):
        parts = rule.count(len(starts), max(1, fits - added))
        firsts = [starts[len(starts) * part // parts] for part in range(1, parts)]
        borders = pairwise([0, *firsts, len(text)])
        spans = [stripped(text, start, end) for start, end in borders]
        # A character of several tokens is in one part, and white space in none.
        spans_of.append([span for span in spans if span[0] < span[1]] or [(0, len(text))])
    return spans_of
