"""`ChunkMean`: the vector of a text as the mean of the vectors of its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.calibration.level import CommonDirection
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.cutting import cut_texts, fewest_parts
from fairspan.encoding.text import Text
from fairspan.errors import DesignError
from fairspan.model.averages import mean_vector


@dataclass(frozen=True, slots=True)
class ChunkMean:
    """Chunks of up to `size` tokens, as `counter` counts them, and the mean of their vectors.

    Attributes:
        normalise: whether chunks and their mean have length 1.
        common: what means are made level with; None for none. The mean of level vectors has a
            larger share of it than they have.
    """

    counter: TokenCounter
    size: int
    normalise: bool = True
    common: CommonDirection | None = None

    def cut(self, texts: Sequence[Text]) -> list[list[Text]]:
        """The chunks of every text."""
        plain = [text.text for text in texts]
        languages = [text.language for text in texts]
        spans_of = cut_texts(
            plain, self.counter, lambda length: fewest_parts(length, self.size), languages
        )
        chunks = [
            [text[slice(*span)] for span in spans]
            for text, spans in zip(plain, spans_of, strict=True)
        ]
        lengths = iter(self.counter.count_whole([text for row in chunks for text in row]))
        return [[Text(text, next(lengths)) for text in row] for row in chunks]

    def mean(self, vectors: np.ndarray) -> np.ndarray:
        """[d], the vector of a text, given those of its chunks, [chunks, d]."""
        mean = mean_vector(vectors, normalise=self.normalise)
        if self.common is not None:
            mean = self.common.level(mean)
        return np.asarray(mean[0])


def chunk_tokens(size: int | str, counter: TokenCounter) -> int:
    """How many tokens a chunk may have: `size`, or for "window" as many as the model reads."""
    room = None
    if counter.window is not None:
        room = counter.window - counter.count_whole([""])[0]
    if size == "window" and room is not None:
        return room
    if not isinstance(size, int) or size < 1 or (room is not None and size > room):
        allowed = "1 or more" if room is None else f"1 to {room}"
        raise DesignError(f"chunks for this model have {allowed} {counter.unit}, got {size}.")
    return size
