"""`PartRule`: how many parts a document has, each of which has a vector of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.corpus.sentences import Span
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.cutting import Count, cut_texts, fewest_parts
from fairspan.errors import DesignError, require_whole

FEWEST_TOKENS = 16
"""Of a part: fewer say little, and special tokens would be a good part of them."""


@dataclass(frozen=True, slots=True)
class PartRule:
    """How many parts a document has: at most `vectors`, or as few as `tokens` in each allow.

    A document that fits into one reading of the model is one part, and no part of `vectors` needs
    to be shorter than half of that.
    """

    vectors: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Raise unless one of the two is set, and high enough."""
        if (self.vectors is None) == (self.tokens is None):
            raise DesignError(
                "set either vectors, the largest number per document, such as 4, or tokens, the "
                "largest number in each part, such as 2048."
            )
        if self.vectors is not None:
            require_whole("vectors", self.vectors)
        if self.tokens is not None:
            require_whole("the tokens of a vector", self.tokens, least=FEWEST_TOKENS)

    def count(self, length: int, room: int) -> Count:
        """The parts of a text of `length` tokens, of which one reading has `room`."""
        count = fewest_parts(length, self.tokens or room)
        if self.vectors is None:
            return count
        if count.fewest > self.vectors:
            return Count(self.vectors, self.vectors)
        return Count(count.fewest, min(self.vectors, count.most), room)


def part_spans(
    texts: Sequence[str],
    counter: TokenCounter,
    rule: PartRule,
    fits: int,
    languages: Sequence[str] | None = None,
) -> list[list[Span]]:
    """The characters of each text's parts; a text of `fits` tokens is one, prompt included."""
    room = max(1, fits - counter.count_whole([""])[0])
    return cut_texts(texts, counter, lambda length: rule.count(length, room), languages)
