"""`CorrectedEncoder`: the vectors of another encoder, without what they say about their language."""

import json
from collections.abc import Sequence

import numpy as np

from fairspan.encoding.text import DerivedEncoder, Encoder, Text, key_of
from fairspan.model.correction import LanguageCorrection


class CorrectedEncoder(DerivedEncoder):
    """What another encoder gives for texts, corrected for their languages. Nothing is embedded for it twice."""

    def __init__(self, alone: Encoder, correction: LanguageCorrection) -> None:
        self.alone, self.model, self.correction = alone, alone.model, correction
        self.window = alone.window

    def parts(self, texts: Sequence[Text]) -> list[tuple[Text, ...]]:
        return [(text,) for text in texts]

    def combine(self, texts: Sequence[Text], vectors: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        found = [own for (own,) in vectors]
        return list(self.correction.correct(np.stack(found), [text.spoken for text in texts])) if found else []

    def untouched(self, texts: Sequence[Text]) -> str:
        """Of how many different texts a part has no fitted language, in words; empty if there are none."""
        found = self.correction.untouched([text.spoken for text in dict.fromkeys(texts)])
        return ", ".join(f"{count:,} in {language or 'an unknown language'}" for language, count in found.items())

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: its languages count only where the method asks for them."""
        spoken = [json.dumps(text.spoken)] if self.correction.needs_language else []
        return key_of("languages", self.correction.fingerprint, self.alone.key(text).hex(), *spoken)
