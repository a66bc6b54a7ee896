"""`Treated`: the model under study under one treatment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.level import CommonDirection
from fairspan.calibration.treatment import CHUNK_TOKENS, Treatment
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import ChunkMean, chunk_tokens
from fairspan.encoding.encoder import Encoder, Encodes, ObjectEncoder
from fairspan.encoding.model_encoder import ModelEncoder
from fairspan.encoding.tokens import Characters, counter_of
from fairspan.model.build import common_direction

CHUNK_CHARACTERS = 4 * CHUNK_TOKENS
"""A chunk's length for a model without a tokenizer: English has about four characters per token."""


@dataclass(frozen=True)
class Treated:
    """A model under a treatment.

    Attributes:
        model: what is calibrated.
        fingerprint: what the keys of its vectors begin with.
        normalise: whether chunks and their mean are set to length 1, for comparison by cosine.
        directions: what is known of those of the subject, by the prompt of documents.
    """

    model: SentenceTransformer | Encodes
    fingerprint: str
    treatment: Treatment
    prompts: Mapping[str, str]
    normalise: bool
    directions: dict[str, CommonDirection]

    @cached_property
    def documents(self) -> Encoder:
        return self._encoder(self.treatment.for_documents)

    @cached_property
    def segments(self) -> Encoder:
        """Of segments that are embedded alone."""
        return self._encoder(self.treatment.for_segments)

    @cached_property
    def queries(self) -> Encoder:
        return self._encoder(self.treatment.for_queries, side="query")

    def _encoder(self, calibration: Calibration, side: Side = "document") -> Encoder:
        """What embeds the texts of a side under a calibration."""
        prompt = self.prompts[side]
        chunked = self.treatment.chunks and side == "document"
        if isinstance(self.model, SentenceTransformer):
            counter: TokenCounter = counter_of(self.model, prompt)
            size = self.treatment.chunk_size()
            encoder: Encoder = ModelEncoder(
                self.model,
                calibration,
                prompt=prompt,
                fingerprint=self.fingerprint,
                side=side,
                by_segments=self.treatment.by_segments and side == "document",
                common=self.common if calibration.on(side).level else None,
            )
        else:
            counter = Characters(prompt)
            size = self.treatment.chunk_size(CHUNK_CHARACTERS)
            encoder = ObjectEncoder(self.model, prompt, side)
        if chunked:
            # A model that is not loaded gives plain vectors of chunks.
            common = self.common if calibration.on(side).level else None
            tokens = chunk_tokens(size, counter)
            encoder.chunks = ChunkMean(counter, tokens, self.normalise, common)
        return encoder

    @property
    def common(self) -> CommonDirection:
        """What vectors are made level with, found once for each prompt of documents.

        Raises:
            FairspanError: if the model has none, or cannot be read plain.
        """
        prompt = self.prompts["document"]
        if prompt not in self.directions:
            self.directions[prompt] = common_direction(self.model, prompt=prompt)
        return self.directions[prompt]
