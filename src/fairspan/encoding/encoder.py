"""`Encoder`: what embeds texts, and under which keys; `ObjectEncoder`: any object with `encode`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Side
from fairspan.calibration.level import CommonDirection
from fairspan.encoding.chunks import ChunkMean
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.text import Text, key_of
from fairspan.errors import FairspanError, UnsupportedModel


@runtime_checkable
class Encodes(Protocol):
    """The minimal interface of an embedding model."""

    def encode(self, sentences: list[str], /) -> Any: ...


AnyModel: TypeAlias = SentenceTransformer | Encodes | str | None
"""A SentenceTransformer, an object with `encode(list[str])`, a name or folder; None for MiniLM."""


class Encoder(ABC):
    """Embeds batches of texts, and knows under which keys the results are stored.

    Attributes:
        window: how many tokens of a text are read; None if nothing is known of a limit.
        most: texts in a batch; None for any number.
        at_once: number of batches that may be computed at the same time.
        common: the direction that vectors are made level with; None if they are not level.
        chunks: how texts are cut into chunks whose vectors are averaged; None for whole texts.
    """

    model: Any
    window: int | None = None
    most: int | None = None
    at_once: int = 1
    common: CommonDirection | None = None
    chunks: ChunkMean | None = None

    def pieces(self, texts: Sequence[Text]) -> list[list[Text]]:
        """What is embedded of every text: its chunks, or the text itself."""
        return [[text] for text in texts] if self.chunks is None else self.chunks.cut(texts)

    @abstractmethod
    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text, [d], chunks aside."""

    def with_spans(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """The vector of each text and those of its spans, [1 + spans, d], from the same pass."""
        raise UnsupportedModel(
            "retention needs token embeddings, which "
            f"{type(self.model).__name__} does not offer here: omit them."
        )

    @abstractmethod
    def key(self, text: Text) -> bytes:
        """Where the vectors of a text are stored."""


class ObjectEncoder(Encoder):
    """Any object with `encode(list[str])`, which is given texts with `prompt` before them."""

    def __init__(self, model: Encodes, prompt: str = "", side: Side = "document") -> None:
        self.model = model
        self._prompt = prompt
        if isinstance(model, Endpoint):
            self.model = model.on(side)
            self.most = model.batch
            self.at_once = model.concurrency
        self._identity = identity_of(self.model) or ""

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text, in float32."""
        vectors = self.model.encode([self._prompt + text.text for text in batch])
        if isinstance(vectors, torch.Tensor):
            vectors = vectors.detach().float().cpu().numpy()
        vectors = np.asarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(batch):
            raise FairspanError(
                f"{type(self.model).__name__}.encode gave an array of shape {vectors.shape} for "
                f"{len(batch)} texts: one vector per text is expected."
            )
        return list(vectors)

    def key(self, text: Text) -> bytes:
        return key_of(self._identity, self._prompt + text.text)


def identity_of(model: Encodes) -> str | None:
    """The `identity` of an object; None if it has none, and its vectors are not stored."""
    identity = getattr(model, "identity", None)
    return identity if isinstance(identity, str) and identity else None
