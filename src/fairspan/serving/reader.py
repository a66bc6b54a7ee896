"""`Reader`: a side of the model with a prompt, which reads texts and embeds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.encoding.direct import DirectEncoder, ReadText
from fairspan.encoding.stopping import stopping_when

# A shorter pass is not worth stopping.
_STOPPED_FROM = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """An encoder, and what it reads of a text without content."""

    encoder: DirectEncoder
    nothing: ReadText

    @classmethod
    def of(cls, encoder: DirectEncoder) -> Reader:
        return cls(encoder, *encoder.read([""]))

    def is_empty(self, text: ReadText) -> bool:
        """Whether a text has special tokens only."""
        if text.ids is None or self.nothing.ids is None:
            return text.length == self.nothing.length
        return np.array_equal(text.ids, self.nothing.ids)

    def vectors(self, batch: Sequence[ReadText], is_over: Callable[[], bool]) -> np.ndarray:
        """[texts, dimension]; raises `Stopped` if a long pass `is_over` before its end."""
        if sum(text.read for text in batch) < _STOPPED_FROM:
            return self.encoder.vectors(batch)
        with stopping_when(self.encoder.model, is_over):
            return self.encoder.vectors(batch)
