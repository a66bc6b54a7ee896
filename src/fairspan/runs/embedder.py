"""`Embedder`: embeds what a store does not have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.encoding.encoder import Encoder, Encodes
from fairspan.encoding.endpoint import BATCH_CHARACTERS, Endpoint
from fairspan.encoding.fill import Tally, fill, unasked
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.errors import require_whole
from fairspan.runs.progress import Progress

Pair = tuple[Encoder, Sequence[Text]]
"""Texts with what embeds them."""
Embed = Callable[[Encoder, Sequence[Text]], np.ndarray]
"""[texts, dimension], the vectors of texts."""


@dataclass(frozen=True)
class Embedder:
    """Embeds what a store does not have, `budget` tokens in a batch.

    Attributes:
        filled: the keys of vectors that the run has asked for, which are counted once.
    """

    store: Store
    budget: int
    tally: Tally
    progress: Progress
    filled: set[bytes] = field(default_factory=set, kw_only=True)

    def embed(self, encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        """[texts, dimension], their vectors, from the store or computed."""
        self.fill(encoder, texts)
        return self.read(encoder, texts)

    def fill(self, encoder: Encoder, texts: Sequence[Text]) -> None:
        """Embed the texts that this run has not asked for before."""
        new = unasked(encoder, texts, self.filled)
        advance = self.progress.advance
        fill(encoder, new, self.store, budget=self.budget, tally=self.tally, progress=advance)

    def read(self, encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
        """[texts, dimension], the stored vectors of texts; of chunks their means."""
        return np.stack([vectors[0] for vectors in self.read_spans(encoder, texts)])

    def read_spans(self, encoder: Encoder, texts: Sequence[Text]) -> list[np.ndarray]:
        """[1 + spans, dimension] of each text: its vector, and those of its spans."""
        pieces = encoder.pieces(texts)
        keys = [[encoder.key(piece) for piece in row] for row in pieces]
        stored = self.store.get(chain.from_iterable(keys))
        if encoder.chunks is not None:
            means = [encoder.chunks.mean(np.stack([stored[key] for key in row])) for row in keys]
            return [mean[None] for mean in means]
        return [
            stored[key].reshape(1 + len(text.spans), -1)
            for text, (key,) in zip(texts, keys, strict=True)
        ]


def batch_budget(model: SentenceTransformer | Encodes, batch_tokens: int | None = None) -> int:
    """Tokens in a batch, padding included; for an endpoint characters, at most one request's."""
    if batch_tokens is not None:
        require_whole("batch_tokens", batch_tokens)
    if isinstance(model, Endpoint):
        return min(batch_tokens or BATCH_CHARACTERS, BATCH_CHARACTERS)
    on_gpu = getattr(getattr(model, "device", None), "type", "cpu") == "cuda"
    return batch_tokens or (65536 if on_gpu else 4096)
