"""Lengths in a model's own tokens, and where those tokens are in a text."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from fairspan.calibration.temperature import Side
from fairspan.errors import EncodingError
from fairspan.model.tiling import longest_text

_AT_ONCE = 256
"""Texts tokenised in one call: enough for the tokenizer's threads, and few enough for memory."""

# Under which names a model keeps its prompt for each side, as encode_document and encode_query look for them.
_PROMPTS = {"document": ("document", "passage", "corpus"), "query": ("query",)}


class ModelTokens:
    """Counts and cuts texts in the tokens of a SentenceTransformer, which puts `prompt` before every text.

    A model that reads one side in tiles has another window there.
    """

    unit = "tokens"

    def __init__(self, model: SentenceTransformer, prompt: str = "", side: Side = "document") -> None:
        self.model, self.prompt, self.side = model, prompt, side
        self._tokenizer = model.tokenizer
        self._own_limit = None
        if isinstance(self._tokenizer, Tokenizer):
            self._own_limit = (self._tokenizer.truncation or {}).get("max_length")
            # Static embeddings carry the bare tokenizer; in its wrapper it counts and cuts like any other.
            self._tokenizer = PreTrainedTokenizerFast(tokenizer_object=self._tokenizer)

    @property
    def window(self) -> int | None:
        """What the model is set to read, and never more positions than it has, except in tiles."""
        limits = [*_limits(self.model, self.side), self._own_limit]
        known = [limit for limit in limits if limit is not None and limit < 1_000_000]
        return min(known, default=None)

    def count(self, texts: Sequence[str]) -> list[int]:
        return self._lengths(texts, add_special_tokens=False)

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        return self._lengths([self.prompt + text for text in texts], add_special_tokens=True)

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        """The first `length` tokens of each text, as text."""
        kept = []
        for text, offsets in zip(texts, self._offsets(texts, add_special_tokens=False), strict=True):
            end = length
            # A character of several tokens is kept whole or not at all.
            while 0 < end < len(offsets) and offsets[end][0] < offsets[end - 1][1]:
                end -= 1
            kept.append(text if len(offsets) <= length else text[: offsets[end - 1][1] if end else 0].rstrip())
        return kept

    def offsets(self, texts: Sequence[str]) -> list[np.ndarray]:
        """[tokens, 2] of each text as the model reads it: the characters of the text that each token stands for.

        Special tokens have an empty range; tokens of the prompt lie before 0.
        """
        whole = self._offsets([self.prompt + text for text in texts], add_special_tokens=True)
        found = [np.asarray(offsets, dtype=np.int64).reshape(-1, 2) for offsets in whole]
        return [np.where(one[:, :1] == one[:, 1:], 0, one - len(self.prompt)) for one in found]

    def _lengths(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[int]:
        found = self._tokenized(texts, "input_ids", add_special_tokens, return_attention_mask=False)
        return [len(ids) for ids in found]

    def _offsets(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[tuple[int, int]]]:
        if not getattr(self._tokenizer, "is_fast", False):
            raise EncodingError(
                f"{type(self._tokenizer).__name__} does not map tokens back to characters: use a model with a fast "
                "tokenizer (tokenizer.json)."
            )
        return list(self._tokenized(texts, "offset_mapping", add_special_tokens, return_offsets_mapping=True))

    def _tokenized(self, texts: Sequence[str], entry: str, special: bool, **options: Any) -> Iterator[Any]:
        # The tokenizer's threads are wanted here; a fork later on would only print a warning about them.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        whole = {"truncation": False, "padding": False, "verbose": False}
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            yield from self._tokenizer(part, add_special_tokens=special, **whole, **options)[entry]


class Characters:
    """Counts characters, for a model that shows no tokenizer."""

    unit = "characters"
    window: int | None = None

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    count_whole = count

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [text[:length].rstrip() for text in texts]


def counter_of(model: SentenceTransformer, prompt: str = "", side: Side = "document") -> ModelTokens | Characters:
    """What counts for a model: its own tokens, or characters where it has no tokenizer that shows them."""
    tokenizer = getattr(model, "tokenizer", None)
    known = callable(tokenizer) or isinstance(tokenizer, Tokenizer)
    return ModelTokens(model, prompt, side) if known else Characters()


def prompt_of(model: SentenceTransformer, side: Side) -> str:
    """What `encode_document` or `encode_query` puts before a text."""
    prompts = model.prompts or {}
    named = [prompts[name] for name in _PROMPTS[side] if name in prompts]
    if not named:
        return str(prompts.get(model.default_prompt_name, "") or "")
    # sentence-transformers gives every model an empty "document", which must not hide a "passage" of its own.
    return next((str(prompt) for prompt in named if prompt), "")


def tokens_of_spans(offsets: np.ndarray, spans: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """The numbers of the tokens of each span of characters.

    A token belongs to the span that holds its last character: one that begins with the joining space goes with the
    word after it, and one that is nothing but the space goes with none.
    """
    begins, last = offsets[:, 0], offsets[:, 1] - 1
    stands_for_text = last >= begins
    return [np.flatnonzero(stands_for_text & (last >= start) & (last < end)) for start, end in spans]


def _limits(model: SentenceTransformer, side: Side) -> list[int | None]:
    """What the model is set to read on one side, and how many positions it has, where that is a limit."""
    first = next(iter(model.children()), None)
    if isinstance(first, Transformer) and getattr(first, "tiling", None) is not None:
        return [longest_text(first, side)]
    return [model.max_seq_length, _positions(model)]


def _positions(model: SentenceTransformer) -> int | None:
    """How many positions the weights have; relative and rotary positions may have no limit."""
    transformer = getattr(model, "transformers_model", None)
    config = getattr(transformer, "config", None)
    found = getattr(config, "max_position_embeddings", None)
    if not isinstance(found, int) or found <= 0:
        return None
    # RoBERTa's positions begin after its padding index.
    table = getattr(getattr(transformer, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return found - (padding + 1 if padding is not None else 0)
