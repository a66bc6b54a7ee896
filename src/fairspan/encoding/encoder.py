"""`Encoder`: texts → vectors, by a SentenceTransformer or any object with `encode(list[str])`, whole or in chunks."""

import json
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util import batch_to_device

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.temperature import Side
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_documents, mean_vector
from fairspan.encoding.corrected import CorrectedEncoder
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.text import Text as Text
from fairspan.encoding.text import key_of
from fairspan.encoding.tokens import ModelTokens, tokens_of_spans, window_of
from fairspan.encoding.window import cutting
from fairspan.errors import EncodingError, UnsupportedModel
from fairspan.model.build import calibrate
from fairspan.model.language_module import needs_language
from fairspan.model.language_text import LanguageText
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import CalibratedTransformer, calibrated_transformers

# Part of every key: raised when the engine's numbers change, so that stored vectors of the old kind are not used.
ENGINE = 2


@runtime_checkable
class Encodes(Protocol):
    """The least that an embedding model has to offer."""

    def encode(self, sentences: list[str], /) -> Any: ...


class ModelEncoder:
    """A SentenceTransformer under one calibration, for documents or queries, which cuts texts at its window.

    With `by_segments` every segment of a text is a basket or a tile; a text without borders is one segment.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        calibration: Calibration,
        *,
        prompt: str,
        fingerprint: str,
        side: Side = "document",
        by_segments: bool = False,
    ) -> None:
        self.window = window_of(model, calibration, side)
        self.model = cutting(calibrate(model, calibration) if calibration.acts_on(side) else model, self.window)
        self._prompt, self._side, self._by_segments = prompt, side, by_segments
        self._needs_language = needs_language(self.model)
        # Read back from the modules: a model may have come calibrated, and "none" leaves it so.
        acting = [_calibration_identity(module) for module in calibrated_transformers(self.model)]
        # Only what differs from a document in plain baskets is named, so that vectors stored before are found.
        others = [] if (side, by_segments) == ("document", False) else [side, by_segments]
        self._identity = json.dumps([ENGINE, fingerprint, acting, prompt, *others], sort_keys=True)

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text."""
        encode = self.model.encode_query if self._side == "query" else self.model.encode_document
        texts = self._read(batch)
        with warnings.catch_warnings():
            # What is cut off is reported by whoever reads `window`.
            warnings.filterwarnings("ignore", message="(?s).*is longer than the model: its segments")
            found = encode(texts, prompt=self._prompt, batch_size=len(texts), show_progress_bar=False)
        return list(np.asarray(found, dtype=np.float32))

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        """One vector per text, and [spans, dimension], the contextual vectors of its spans, from the same pass."""
        self.model.eval()
        with torch.inference_mode():
            # `encode` does not give tokens and vectors together in every version.
            features = self.model.preprocess(self._read(batch), prompt=self._prompt or None)
            # A copy, so that a pass which computed only the pooled row computes all tokens now.
            features = dict(self.model(batch_to_device(features, self.model.device)))
        offsets = ModelTokens(self.model, self._prompt).offsets([text.text for text in batch])
        vectors = features["sentence_embedding"].float().cpu().numpy()
        return [
            (vectors[number], _span_vectors(text, where, _own_tokens(features, number, len(where), text)))
            for number, (text, where) in enumerate(zip(batch, offsets, strict=True))
        ]

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored."""
        return key_of(self._identity, text.text, *self._details(text))

    def span_key(self, text: Text) -> bytes:
        """Where the vectors of its spans are stored."""
        return key_of(self._identity, text.text, json.dumps(text.spans), *self._details(text))

    def _details(self, text: Text) -> list[str]:
        """What else decides a vector: the segments, and where the model stops reading a text that is too long."""
        borders = [f"borders {json.dumps(text.borders)}"] if self._by_segments else []
        cut = [f"cut at {self.window}"] if self.window is not None and text.length > self.window else []
        spoken = [f"languages {json.dumps(text.spoken)}"] if self._needs_language else []
        return [*borders, *cut, *spoken]

    def _read(self, batch: Sequence[Text]) -> list[str]:
        """The texts as the model is to read them."""
        if self._by_segments:
            return [SegmentedText.cut(text.text, text.borders or (0,)) for text in batch]
        if self._needs_language:
            return [LanguageText(text.text, dict(text.spoken or (("", 1.0),))) for text in batch]
        return [text.text for text in batch]


class ObjectEncoder:
    """Any object with `encode(list[str])`, which is given texts with `prompt` before them.

    Nothing is known of its inside, so it has no spans. Its keys last if it has an `identity`: text that names all
    that decides its vectors.

    Attributes:
        most: texts in a batch; None for any number.
        at_once: batches that may be under way at a time.
    """

    window: int | None = None

    def __init__(self, model: Encodes, prompt: str = "", side: Side = "document") -> None:
        self.model, self._prompt = model, prompt
        self.most: int | None = None
        self.at_once = 1
        if isinstance(model, Endpoint):
            self.model, self.most, self.at_once = model.on(side), model.batch, model.concurrency
        self._identity = identity_of(self.model) or ""

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        found = self.model.encode([self._prompt + text.text for text in batch])
        if isinstance(found, torch.Tensor):
            found = found.detach().float().cpu().numpy()
        vectors = np.asarray(found, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(batch):
            raise EncodingError(
                f"{type(self.model).__name__}.encode gave an array of shape {vectors.shape} for {len(batch)} texts: "
                "one vector per text is expected."
            )
        return list(vectors)

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        raise UnsupportedModel(
            f"retention needs token embeddings, which {type(self.model).__name__} does not offer: use a "
            "SentenceTransformer, or omit retention."
        )

    def key(self, text: Text) -> bytes:
        return key_of(self._identity, self._prompt + text.text)

    def span_key(self, text: Text) -> bytes:
        return key_of(self._identity, self._prompt + text.text, json.dumps(text.spans))


class ChunkEncoder:
    """The mean of the vectors of a text's chunks, each of which another encoder embeds alone.

    Chunks are runs of whole sentences of at most `size` in the unit of the counter. A text of one chunk is its own
    mean. With `normalise` chunks and their mean have length 1. With `by_segments` the vector of a text is the mean of
    those of its segments, whatever their lengths, and that of a segment is the mean of its chunks.
    """

    window: int | None = None

    def __init__(
        self,
        alone: "ModelEncoder | ObjectEncoder",
        counter: TokenCounter,
        size: int,
        *,
        normalise: bool = True,
        by_segments: bool = False,
    ) -> None:
        self.alone, self.model, self._normalise = alone, alone.model, normalise
        self._counter, self._size, self._by_segments = counter, size, by_segments
        self._known: dict[Text, tuple[Text, ...]] = {}
        self._chunks_of_segments: dict[Text, list[int]] = {}

    def chunks(self, texts: Sequence[Text]) -> list[tuple[Text, ...]]:
        """The chunks of every text."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        parts = [self._segments(text) for text in unknown]
        flat = [part for own in parts for part in own]
        cut = chunk_documents(flat, self._counter, self._size)
        pieces = iter(
            [part.text[slice(*span)] for span in spans] or [part.text] for part, spans in zip(flat, cut, strict=True)
        )
        chunked = {text: [next(pieces) for _ in own] for text, own in zip(unknown, parts, strict=True)}
        lengths = iter(
            self._counter.count_whole([piece for own in chunked.values() for part in own for piece in part])
        )
        for text, own in chunked.items():
            self._chunks_of_segments[text] = [len(part) for part in own]
            self._known[text] = tuple(Text(piece, next(lengths)) for part in own for piece in part)
        return [self._known[text] for text in texts]

    def mean(self, text: Text, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """The vector of a text, given those of its chunks."""
        found, counts = np.stack(vectors), self._chunks_of_segments[text]
        if len(counts) > 1:
            parts = np.split(found, np.cumsum(counts)[:-1])
            found = np.concatenate([mean_vector(part, normalise=self._normalise) for part in parts])
        made: np.ndarray = mean_vector(found, normalise=self._normalise)[0]
        return made

    def _segments(self, text: Text) -> list[Text]:
        """What is cut into chunks on its own: the text, or each of its segments."""
        if not self._by_segments or len(text.borders) < 2:
            return [text]
        ends = (*text.borders[1:], len(text.text))
        return [
            Text(text.text[start:end].strip(), 0, language=text.language)
            for start, end in zip(text.borders, ends, strict=True)
        ]

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        """One vector per text."""
        chunks = self.chunks(batch)
        found = iter(self.alone.vectors([chunk for own in chunks for chunk in own]))
        return [self.mean(text, [next(found) for _ in own]) for text, own in zip(batch, chunks, strict=True)]

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        raise UnsupportedModel("the mean of chunks has no token embeddings: omit it, or omit retention.")

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: it depends on the chunks and on nothing else."""
        (own,) = self.chunks([text])
        counts = self._chunks_of_segments[text]
        # Named only where there are several, so that means stored before are found.
        segments = [f"segments of {counts} chunks"] if len(counts) > 1 else []
        keys = (self.alone.key(chunk).hex() for chunk in own)
        return key_of("mean of chunks", str(self._normalise), *segments, *keys)

    def span_key(self, text: Text) -> bytes:
        raise UnsupportedModel("the mean of chunks has no token embeddings: omit it, or omit retention.")


def identity_of(model: Encodes) -> str | None:
    """What an object says that decides its vectors; None if it does not, and its vectors are not kept."""
    found = getattr(model, "identity", None)
    return found if isinstance(found, str) and found else None


def refuse_other_spaces(model: SentenceTransformer) -> None:
    """Raise unless token embeddings and whole vectors lie in one space, so that a cosine of both means something.

    They do where nothing but one pooling, and perhaps a normalisation, follows the transformer.
    """
    after = [type(module).__name__ for module in model.children()][1:]
    modes = [module.pooling_mode for module in model.children() if isinstance(module, Pooling)]
    pooled_once = all(isinstance(mode, str) for mode in modes)
    if after not in (["Pooling"], ["Pooling", "Normalize"]) or not pooled_once or model.truncate_dim is not None:
        raise UnsupportedModel(
            f"retention compares tokens with whole vectors, and this model changes the space between them "
            f"({', '.join(after) or 'no pooling'}, truncate_dim={model.truncate_dim}): omit retention."
        )


def _calibration_identity(module: CalibratedTransformer) -> dict[str, Any]:
    """What decides a calibrated module's numbers, besides its weights."""
    # Equal shares beside others were computed in another way before; all other vectors stored then are found.
    renewed = {"equal": "1/m"} if module.calibration.reserves_equal(module.site.pooling) else {}
    return {**module.calibration.to_dict(), **renewed}


def _own_tokens(features: dict[str, Any], number: int, count: int, text: Text) -> torch.Tensor:
    """[tokens, dimension] of one text of a batch, without padding."""
    tokens, mask = features.get("token_embeddings"), features.get("attention_mask")
    if tokens is None or mask is None or tokens.ndim != 3 or mask.shape != tokens.shape[:2]:
        raise UnsupportedModel(
            "retention needs token embeddings in padded batches, which this model does not give: load it without "
            "flash attention, or omit retention."
        )
    own: torch.Tensor = tokens[number][mask[number].bool()]
    if len(own) != count:
        raise EncodingError(
            f"the model read {len(own)} tokens of the document that begins {text.text[:40]!r}, and its tokenizer "
            f"made {count}: tokens cannot be assigned to segments."
        )
    return own


def _span_vectors(text: Text, offsets: np.ndarray, tokens: torch.Tensor) -> np.ndarray:
    """[spans, dimension], the L2-normalised mean of each span's tokens (METHODS: ctx)."""
    if not text.spans:
        return np.empty((0, tokens.shape[-1]), dtype=np.float32)
    means = []
    for span, numbers in zip(text.spans, tokens_of_spans(offsets, text.spans), strict=True):
        if not len(numbers):
            raise EncodingError(f"no token is in {text.text[slice(*span)][:40]!r}, so it has no contextual vector.")
        means.append(tokens[torch.from_numpy(numbers).to(tokens.device)].double().mean(dim=0))
    stacked = torch.nn.functional.normalize(torch.stack(means), dim=1)
    return stacked.float().cpu().numpy()


Encoder = ModelEncoder | ObjectEncoder | ChunkEncoder | CorrectedEncoder
"""Embeds batches of texts, and knows under which keys the results are stored."""
