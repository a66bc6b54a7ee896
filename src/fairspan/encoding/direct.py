"""`DirectEncoder`: texts → vectors without a store: each text is tokenised once, and the caller forms the batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
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
from fairspan.encoding.tokens import ModelTokens, counter_of, cutting, prompt_of, window_of
from fairspan.errors import FairspanError
from fairspan.model.build import copy_sharing_weights
from fairspan.model.tiling import special_tokens_around

_IDS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"
# Of different lengths, so that padding has to be right as well.
_PROBES = ("A first text.", "The second of the two texts is a little longer than the first one.")


@dataclass(frozen=True, slots=True, eq=False)
class ReadText:
    """A text as the model reads it.

    Attributes:
        length: its tokens, prompt and special tokens included, before anything is cut.
        read: how many of them the model reads.
        ids: the tokens that it reads; None for a model that has to be given the text.
    """

    text: str
    length: int
    read: int
    ids: np.ndarray | None

    @property
    def cut(self) -> bool:
        return self.read < self.length


class DirectEncoder:
    """One side of a SentenceTransformer. `read` may run in one thread while `vectors` runs in another.

    Attributes:
        prompt: what is put before every text; by default the model's own for the side.
        window: how many tokens of a text are read; None if nothing is known of a limit.
        takes_ids: whether it goes from token ids to vectors. It does so where that gives the vectors that
            `encode_document` or `encode_query` gives, and otherwise leaves texts to them.
    """

    def __init__(
        self, model: SentenceTransformer, side: Side = "document", *, prompt: str | None = None
    ) -> None:
        self.side, self.prompt = side, prompt_of(model, side) if prompt is None else prompt
        self.window = window_of(model, side=side)
        # A copy, on the same weights: the caller's model may be in training.
        self.model = cutting(copy_sharing_weights(model), self.window).eval()
        self._counter = counter_of(self.model, self.prompt, side=side, window=self.window)
        self.takes_ids = self._prepare() and self._agrees()

    @property
    def dimension(self) -> int:
        return int(self.model.get_embedding_dimension() or 0)

    @property
    def keeps_beginning(self) -> bool:
        """Whether it is known that texts are cut at their end."""
        return self.takes_ids and not self._left["cut"]

    def read(self, texts: Sequence[str]) -> list[ReadText]:
        """Texts as the model reads them."""
        if self.takes_ids and isinstance(self._counter, ModelTokens):
            return [
                self._ready(text, np.asarray(ids, dtype=np.int64))
                for text, ids in zip(texts, self._counter.ids(texts), strict=True)
            ]
        return [
            ReadText(
                text, length, length if self.window is None else min(length, self.window), None
            )
            for text, length in zip(texts, self._counter.count_whole(texts), strict=True)
        ]

    def read_ids(self, ids: Sequence[int]) -> ReadText:
        """A text given as the ids of its tokens, with or without special tokens; the prompt is put before it.

        Raises:
            FairspanError: if the model takes no ids, or does not know one of them.
        """
        if not self.takes_ids:
            raise FairspanError("this model does not take token ids: send texts.")
        vocabulary = int(self._transformer.get_input_embeddings().num_embeddings)
        foreign = next((one for one in ids if not 0 <= one < vocabulary), None)
        if foreign is not None:
            raise FairspanError(
                f"the token id {foreign} is not in the model's vocabulary of {vocabulary:,}: the ids come from "
                "another tokenizer. Send texts, or ids of this model's own tokenizer."
            )
        own = list(ids)
        before, after = self._before, self._after
        has_both = own[: len(before)] == before and own[len(own) - len(after) :] == after
        if has_both and len(own) >= len(before) + len(after):
            own = own[len(before) : len(own) - len(after)]
        return self._ready(
            "", np.asarray([*before, *self._prompt_ids, *own, *after], dtype=np.int64)
        )

    def vectors(self, batch: Sequence[ReadText]) -> np.ndarray:
        """[texts, dimension] in float32, from one pass of the model."""
        if not self.takes_ids:
            encode = self.model.encode_query if self.side == "query" else self.model.encode_document
            texts = [one.text for one in batch]
            found = encode(
                texts, prompt=self.prompt, batch_size=len(texts), show_progress_bar=False
            )
            return np.asarray(found, dtype=np.float32)
        return self._pass(batch).float().cpu().numpy()

    def _prepare(self) -> bool:
        """Learn what a batch consists of besides its tokens; False if it is more than is known here."""
        first = next(self.model.children(), None)
        tokenizer: Any = getattr(first, "tokenizer", None)
        if not isinstance(first, Transformer) or not getattr(tokenizer, "is_fast", False):
            return False
        if "message" in first.modality_config or tokenizer.pad_token_id is None:
            return False
        features = self.model.preprocess(["a"], prompt=self.prompt or None, task=self.side)
        per_token = {
            name
            for name, value in features.items()
            if isinstance(value, Tensor) and value.ndim == 2
        }
        if not {_IDS, _MASK} <= per_token <= {_IDS, _MASK, _TYPES} or "position_ids" in features:
            return False
        self._types = _TYPES in per_token
        self._constant = {name: value for name, value in features.items() if name not in per_token}
        self._left = {
            "padding": tokenizer.padding_side == "left",
            "cut": tokenizer.truncation_side == "left",
        }
        self._pad, self._transformer = int(tokenizer.pad_token_id), first.model
        before, after = special_tokens_around(tokenizer)
        whole = tokenizer("a")[_IDS]
        self._before, self._after = whole[:before], whole[len(whole) - after :]
        self._prompt_ids = (
            tokenizer(self.prompt, add_special_tokens=False)[_IDS] if self.prompt else []
        )
        return True

    def _agrees(self) -> bool:
        """Whether ids give what the model itself makes of a few texts."""
        encode = self.model.encode_query if self.side == "query" else self.model.encode_document
        expected = encode(
            list(_PROBES), prompt=self.prompt, show_progress_bar=False, convert_to_tensor=True
        )
        self.takes_ids = True
        found = self._pass(self.read(_PROBES))
        # Two passes over the same batch are equal up to the order of sums; another input differs by far more.
        tolerance = float(torch.finfo(found.dtype).eps) * 16 * float(expected.abs().max())
        return found.shape == expected.shape and bool(((found - expected).abs() <= tolerance).all())

    def _ready(self, text: str, ids: np.ndarray) -> ReadText:
        length = len(ids)
        if self.window is None or length <= self.window:
            return ReadText(text, length, length, ids)
        if self._left["cut"]:
            head = ids[: len(self._before)]
            kept = np.concatenate([head, ids[length - (self.window - len(head)) :]])
        else:
            kept = np.concatenate(
                [ids[: self.window - len(self._after)], ids[length - len(self._after) :]]
            )
        return ReadText(text, length, len(kept), kept)

    def _pass(self, batch: Sequence[ReadText]) -> Tensor:
        width = max(one.read for one in batch)
        ids = np.full((len(batch), width), self._pad, dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.int64)
        for row, one in enumerate(batch):
            place = slice(width - one.read, width) if self._left["padding"] else slice(0, one.read)
            assert one.ids is not None
            ids[row, place], mask[row, place] = one.ids, 1
        features: dict[str, Any] = {
            **self._constant,
            _IDS: torch.from_numpy(ids),
            _MASK: torch.from_numpy(mask),
        }
        if self._types:
            features[_TYPES] = torch.zeros_like(features[_IDS])
        with torch.inference_mode(), _attention_of(self.model.device):
            given = batch_to_device(features, self.model.device)
            found: Tensor = self.model(given, task=self.side)["sentence_embedding"]
        return found if self.model.truncate_dim is None else found[..., : self.model.truncate_dim]


def _attention_of(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU, attention without cuDNN, which prepares every new shape of a batch for longer than a pass takes."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def usable(vectors: np.ndarray) -> np.ndarray:
    """[texts] bool: which vectors are numbers, and not all zero."""
    return np.asarray(np.isfinite(vectors).all(axis=1) & (vectors != 0).any(axis=1))
