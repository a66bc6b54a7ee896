"""Lengths in a model's own tokens, where those tokens are in a text, and which of them the model reads."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from fairspan.calibration.calibration import Side
from fairspan.errors import FairspanError
from fairspan.model.build import copy_sharing_weights
from fairspan.model.transformer import prompt_of as prompt_of
from fairspan.model.window import shows_tokens
from fairspan.model.window import window_of as window_of

Span = tuple[int, int]

_AT_ONCE = 256
"""Texts tokenised in one call: enough for the tokenizer's threads, and few enough for memory."""


class ModelTokens:
    """Counts and cuts texts in the tokens of a SentenceTransformer, which puts `prompt` before every text.

    `window` is what counts as its window in place of its own.
    """

    unit = "tokens"

    def __init__(
        self,
        model: SentenceTransformer,
        prompt: str = "",
        *,
        side: Side = "document",
        window: int | None = None,
    ) -> None:
        self.model, self.prompt, self.window = model, prompt, window or window_of(model, side=side)
        self._tokenizer = model.tokenizer
        if isinstance(self._tokenizer, Tokenizer):
            # Static embeddings carry the bare tokenizer; in its wrapper it counts and cuts like any other.
            self._tokenizer = PreTrainedTokenizerFast(tokenizer_object=self._tokenizer)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._tokenized(texts, "input_ids", special=False)]

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.ids(texts)]

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The tokens of each text as the model reads it, nothing of it cut off."""
        return self._tokenized([self.prompt + text for text in texts], "input_ids", special=True)

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        """The first `length` tokens of each text, as text."""
        kept = []
        for text, offsets in zip(texts, self._offsets(texts, special=False), strict=True):
            end = length
            # A character of several tokens is kept whole or not at all.
            while 0 < end < len(offsets) and offsets[end][0] < offsets[end - 1][1]:
                end -= 1
            kept.append(
                text
                if len(offsets) <= length
                else text[: offsets[end - 1][1] if end else 0].rstrip()
            )
        return kept

    def offsets(self, texts: Sequence[str]) -> list[np.ndarray]:
        """[tokens, 2] of each text as the model reads it: the characters of the text that each token stands for.

        Special tokens have an empty range; tokens of the prompt lie before 0.
        """
        whole = self._offsets([self.prompt + text for text in texts], special=True)
        found = [np.asarray(offsets, dtype=np.int64).reshape(-1, 2) for offsets in whole]
        return [np.where(one[:, :1] == one[:, 1:], 0, one - len(self.prompt)) for one in found]

    def _offsets(self, texts: Sequence[str], *, special: bool) -> list[list[tuple[int, int]]]:
        if not getattr(self._tokenizer, "is_fast", False):
            raise FairspanError(
                f"{type(self._tokenizer).__name__} does not map tokens back to characters: use a model with a fast "
                "tokenizer (tokenizer.json)."
            )
        return list(
            self._tokenized(texts, "offset_mapping", special=special, return_offsets_mapping=True)
        )

    def _tokenized(
        self, texts: Sequence[str], entry: str, *, special: bool, **options: Any
    ) -> Iterator[Any]:
        # The tokenizer's threads are wanted here; a fork later on would only print a warning about them.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        whole = {"truncation": False, "padding": False, "verbose": False}
        whole |= {"return_attention_mask": False, "return_token_type_ids": False}
        for start in range(0, len(texts), _AT_ONCE):
            part = list(texts[start : start + _AT_ONCE])
            yield from self._tokenizer(part, add_special_tokens=special, **whole, **options)[entry]


class Characters:
    """Counts characters, for a model that shows no tokenizer, where `prompt` is put before every text."""

    unit = "characters"
    window: int | None = None

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        return [len(self.prompt) + len(text) for text in texts]

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [text[:length].rstrip() for text in texts]


def counter_of(
    model: SentenceTransformer,
    prompt: str = "",
    *,
    side: Side = "document",
    window: int | None = None,
) -> ModelTokens | Characters:
    """What counts for a model: its own tokens, or characters where it has no tokenizer that shows them."""
    return (
        ModelTokens(model, prompt, side=side, window=window)
        if shows_tokens(model)
        else Characters(prompt)
    )


def cutting(model: SentenceTransformer, window: int | None) -> SentenceTransformer:
    """The model if it cuts texts at its window by itself, or else a copy on the same weights that does.

    A `max_seq_length` above the positions that a model has, or none at all, lets a long text run out of positions. A
    bare tokenizer, which static embeddings have, cuts by itself.
    """
    own = model.max_seq_length
    if (
        window is None
        or (own is not None and own <= window)
        or isinstance(model.tokenizer, Tokenizer)
    ):
        return model
    made = copy_sharing_weights(model)
    made.max_seq_length = window
    return made


def tokens_of_spans(offsets: np.ndarray, spans: Sequence[Span]) -> list[np.ndarray]:
    """The numbers of the tokens of each span of characters.

    A token belongs to the span that holds its last character: one that begins with the joining space goes with the
    word after it, and one that is nothing but the space goes with none.
    """
    begins, last = offsets[:, 0], offsets[:, 1] - 1
    stands_for_text = last >= begins
    return [
        np.flatnonzero(stands_for_text & (last >= start) & (last < end)) for start, end in spans
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The tokens of one text, and which of them the model reads.

    Attributes:
        offsets: [tokens, 2] of the whole text, as `ModelTokens.offsets` gives them.
        read: [tokens] bool; special tokens always are.
    """

    offsets: np.ndarray
    read: np.ndarray

    @property
    def whole(self) -> bool:
        return bool(self.read.all())

    def count(self, spans: list[Span]) -> list[tuple[int, int]]:
        """For each span, how many tokens it has and how many of them are read."""
        numbers = tokens_of_spans(self.offsets, spans)
        return [(len(own), int(self.read[own].sum())) for own in numbers]

    @property
    def range(self) -> Span:
        """The characters of the text from the first that is read to the end of the last."""
        own = self.offsets[self.read & (self.offsets[:, 1] > self.offsets[:, 0])]
        return (max(0, int(own[:, 0].min())), max(0, int(own[:, 1].max()))) if len(own) else (0, 0)


def read_text(counter: ModelTokens, text: str) -> Seen:
    """Which tokens of a text the model reads when it is given all of it."""
    (offsets,) = counter.offsets([text])
    window = counter.window
    read = np.ones(len(offsets), dtype=bool)
    if window is None or len(offsets) <= window:
        return Seen(offsets, read)
    # Not every token without characters is special: a space at the end of a text may be one, too.
    special = len(offsets) - ModelTokens(counter.model).count([counter.prompt + text])[0]
    stands_for_text = offsets[:, 1] > offsets[:, 0]
    first = min(special, int(stands_for_text.argmax()))
    last = len(offsets) - (special - first)
    unread = min(len(offsets) - window, last - first)
    if getattr(counter.model.tokenizer, "truncation_side", "right") == "left":
        read[first : first + unread] = False
    else:
        read[last - unread : last] = False
    return Seen(offsets, read)
