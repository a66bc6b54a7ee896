"""`DirectEncoder`: texts → vectors without a store, in batches that the caller forms."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import batch_to_device
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairspan.calibration.calibration import Side
from fairspan.corpus.sentences import Span
from fairspan.encoding.part_vectors import tokens_that_fit
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import ModelTokens, counter_of, cutting, prompt_of, window_of
from fairspan.model.build import copy_sharing_weights
from fairspan.model.tiling import special_tokens_around

_IDS = "input_ids"
_MASK = "attention_mask"
_TYPES = "token_type_ids"
# Of different lengths, so that padding has to be right as well.
_PROBES = ("A first text.", "The second of the two texts is a little longer than the first one.")


@dataclass(frozen=True, slots=True, eq=False)
class ReadText:
    """A text of `length` tokens, of which the model reads `read`.

    `ids` are those tokens; None for a model that has to be given the text.
    """

    text: str
    length: int
    read: int
    ids: np.ndarray | None

    @property
    def cut(self) -> bool:
        return self.read < self.length


class DirectEncoder:
    """One side of a SentenceTransformer, which tokenises each text once.

    `read` may run in one thread while `vectors` runs in another.

    Attributes:
        window: how many tokens of a text are read; None if no limit is known.
        takes_ids: whether it computes vectors from token ids. It does if they are those of
            `encode_document` or `encode_query`, and otherwise gives texts to these.
    """

    def __init__(
        self, model: SentenceTransformer, side: Side = "document", *, prompt: str | None = None
    ) -> None:
        """Find out what the model needs besides ids, and whether these give its vectors."""
        self.side = side
        self.prompt = prompt_of(model, side) if prompt is None else prompt
        self.window = window_of(model, side=side)
        # A copy, on the same weights: the caller's model may be in training.
        self.model = cutting(copy_sharing_weights(model), self.window).eval()
        self._counter = counter_of(self.model, self.prompt, side=side, window=self.window)
        if isinstance(self._counter, ModelTokens):
            # Passes, also with other prompts, change the settings of the model's own tokenizer.
            self._counter.copy_tokenizer()
        self.takes_ids = self._prepare() and self._agrees()

    def with_prompt(self, prompt: str) -> DirectEncoder:
        """The same side, model and tokenizer with another prompt; runs the model."""
        other = copy(self)
        other.prompt = prompt
        other._counter = copy(self._counter)
        other._counter.prompt = prompt
        other.takes_ids = other._prepare() and other._agrees()
        return other

    @property
    def dimension(self) -> int:
        return int(self.model.get_embedding_dimension() or 0)

    def read(self, texts: Sequence[str]) -> list[ReadText]:
        """Texts as the model reads them."""
        if self.takes_ids and isinstance(self._counter, ModelTokens):
            return list(map(self._ready, texts, self._counter.ids(texts)))
        lengths = self._counter.count_whole(texts)
        return [
            ReadText(text, length, min(length, self.window or length), None)
            for text, length in zip(texts, lengths, strict=True)
        ]

    def parts(self, texts: Sequence[str], rule: PartRule) -> list[list[Span]]:
        """The characters of each text's parts."""
        return part_spans(texts, self._counter, rule, tokens_that_fit(self.model))

    def vectors(self, batch: Sequence[ReadText]) -> np.ndarray:
        """[texts, dimension] in float32, from one pass of the model."""
        if self.takes_ids:
            return self._pass(batch).float().cpu().numpy()
        texts = [text.text for text in batch]
        vectors = encode_side(self.model, self.side, texts, self.prompt)
        return np.asarray(vectors, dtype=np.float32)

    def _prepare(self) -> bool:
        """Find out which inputs a batch has besides token ids; False if they are unusual."""
        first = next(self.model.children(), None)
        tokenizer: Any = getattr(first, "tokenizer", None)
        if not isinstance(first, Transformer) or not getattr(tokenizer, "is_fast", False):
            return False
        if "message" in first.modality_config or tokenizer.pad_token_id is None:
            return False
        features = self.model.preprocess(["a"], prompt=self.prompt or None, task=self.side)
        tensors = {name: value for name, value in features.items() if isinstance(value, Tensor)}
        per_token = {name for name, tensor in tensors.items() if tensor.ndim == 2}
        if not {_IDS, _MASK} <= per_token <= {_IDS, _MASK, _TYPES} or "position_ids" in features:
            return False
        self._types = _TYPES in per_token
        self._constant = {name: value for name, value in features.items() if name not in per_token}
        self._pads_left = tokenizer.padding_side == "left"
        self._cuts_left = tokenizer.truncation_side == "left"
        self._pad = int(tokenizer.pad_token_id)
        self._transformer = first.model
        before, after = special_tokens_around(tokenizer)
        whole = tokenizer("a")[_IDS]
        self._before = whole[:before]
        self._after = whole[len(whole) - after :]
        self._prompt_ids = tokenizer(self.prompt, add_special_tokens=False)[_IDS]
        return True

    def _agrees(self) -> bool:
        """Whether vectors from ids equal the model's own vectors of a few texts."""
        texts = list(_PROBES)
        expected = encode_side(self.model, self.side, texts, self.prompt, convert_to_tensor=True)
        self.takes_ids = True
        vectors = self._pass(self.read(texts))
        # Two passes over a batch differ by rounding only; another input differs by far more.
        tolerance = float(torch.finfo(vectors.dtype).eps) * 16 * float(expected.abs().max())
        if vectors.shape != expected.shape:
            return False
        return bool(((vectors - expected).abs() <= tolerance).all())

    def _ready(self, text: str, token_ids: Sequence[int]) -> ReadText:
        """A text of these tokens, cut at the window between its special tokens."""
        ids = np.asarray(token_ids, dtype=np.int64)
        length = len(ids)
        if self.window is None or length <= self.window:
            return ReadText(text, length, length, ids)
        head = self.window - len(self._after)
        if self._cuts_left:
            head = len(self._before)
        kept = np.concatenate([ids[:head], ids[length - (self.window - head) :]])
        return ReadText(text, length, len(kept), kept)

    def _pass(self, batch: Sequence[ReadText]) -> Tensor:
        """[texts, dimension], from one pass over the ids of a batch."""
        width = max(text.read for text in batch)
        ids = np.full((len(batch), width), self._pad, dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.int64)
        for row, text in enumerate(batch):
            assert text.ids is not None
            start = width - text.read if self._pads_left else 0
            ids[row, start : start + text.read] = text.ids
            mask[row, start : start + text.read] = 1
        features: dict[str, Any] = {
            **self._constant,
            _IDS: torch.from_numpy(ids),
            _MASK: torch.from_numpy(mask),
        }
        if self._types:
            features[_TYPES] = torch.zeros_like(features[_IDS])
        with torch.inference_mode(), _attention_of(self.model.device):
            features = batch_to_device(features, self.model.device)
            vectors: Tensor = self.model(features, task=self.side)["sentence_embedding"]
        return vectors[..., : self.model.truncate_dim]


def encode_side(
    model: SentenceTransformer, side: Side, texts: Sequence[str], prompt: str, **options: Any
) -> Any:
    """What `encode_document` or `encode_query` returns for one batch."""
    encode = model.encode_query if side == "query" else model.encode_document
    options |= {"prompt": prompt, "batch_size": len(texts), "show_progress_bar": False}
    return encode(texts, **options)


def _attention_of(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, attention without cuDNN, which takes long to prepare every new shape of a batch."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def usable(vectors: np.ndarray) -> np.ndarray:
    """[texts] bool: which vectors are finite, and not all zero."""
    return np.asarray(np.isfinite(vectors).all(axis=1) & (vectors != 0).any(axis=1))
