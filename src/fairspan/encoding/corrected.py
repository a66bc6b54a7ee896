"""`CorrectedEncoder`: the vectors of another encoder, without what they say about their language."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairspan.encoding.text import Text, key_of
from fairspan.errors import UnsupportedModel
from fairspan.model.languages import LanguageCorrection

if TYPE_CHECKING:
    from fairspan.encoding.encoder import ChunkEncoder, ModelEncoder, ObjectEncoder

_NO_TOKENS = "vectors whose language was corrected have no token embeddings: omit the correction, or omit retention."


class CorrectedEncoder:
    """What another encoder gives for texts, corrected for their languages. Nothing is embedded for it twice."""

    def __init__(self, alone: ModelEncoder | ObjectEncoder | ChunkEncoder, correction: LanguageCorrection) -> None:
        self.alone, self.model, self.correction = alone, alone.model, correction
        self.window: int | None = alone.window

    def correct(self, texts: Sequence[Text], vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The vectors of texts, given those of the other encoder."""
        return list(self.correction(np.stack(vectors), [text.spoken for text in texts])) if texts else []

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text."""
        return self.correct(batch, self.alone.vectors(batch))

    def untouched(self, texts: Sequence[Text]) -> str:
        """Of how many different texts a part has no fitted language, in words; empty if there are none."""
        found = self.correction.untouched([text.spoken for text in dict.fromkeys(texts)])
        return ", ".join(f"{count:,} in {language or 'an unknown language'}" for language, count in found.items())

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        raise UnsupportedModel(_NO_TOKENS)

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: its languages count only where the method asks for them."""
        spoken = [json.dumps(text.spoken)] if self.correction.needs_language else []
        return key_of("languages", self.correction.fingerprint, self.alone.key(text).hex(), *spoken)

    def span_key(self, text: Text) -> bytes:
        raise UnsupportedModel(_NO_TOKENS)
