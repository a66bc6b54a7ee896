"""Lengths in a model's own tokens, where these are in a text, and which of them it reads."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from fairspan.calibration.calibration import Side
from fairspan.corpus.sentences import Span
from fairspan.errors import FairspanError
from fairspan.model.build import copy_sharing_weights
from fairspan.model.transformer import prompt_of as prompt_of
from fairspan.model.window import shows_tokens
from fairspan.model.window import window_of as window_of

_AT_ONCE = 256
"""Texts tokenised in one call: enough for the tokenizer's threads, and few enough for memory."""


class ModelTokens:
    """Counts and cuts texts in the tokens of a SentenceTransformer, with `prompt` before each.

    `window` replaces the model's own.
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
        """Use the model's own tokenizer."""
        self.model = model
        self.prompt = prompt
        self.window = window or window_of(model, side=side)
        self._tokenizer = model.tokenizer
        if isinstance(self._tokenizer, Tokenizer):
            # Static embeddings have a bare tokenizer; wrapped, it counts and cuts like any other.
            self._tokenizer = PreTrainedTokenizerFast(tokenizer_object=self._tokenizer)

    def copy_tokenizer(self) -> None:
        """Count in a thread of its own: calls that cut texts and calls that do not change a
        tokenizer's settings."""
        self._tokenizer = copy.deepcopy(self._tokenizer)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._tokenized(texts, "input_ids", special=False)]

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.ids(texts)]

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The tokens of each text as the model reads it, nothing of it cut off."""
        return self._tokenized([self.prompt + text for text in texts], "input_ids", special=True)

    def starts(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The character at which each token of a text begins."""
        return [
            [start for start, end in offsets if start < end]
            for offsets in self._offsets(texts, special=False)
        ]

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        """The first `length` tokens of each text, as text."""
        kept = []
        for text, offsets in zip(texts, self._offsets(texts, special=False), strict=True):
            end = length
            # A character of several tokens is kept whole or not at all.
            while 0 < end < len(offsets) and offsets[end][0] < offsets[end - 1][1]:
                end -= 1
            if len(offsets) > length:
                text = text[: offsets[end - 1][1] if end else 0].rstrip()
            kept.append(text)
        return kept

    def offsets(self, texts: Sequence[str]) -> list[np.ndarray]:
        """[tokens, 2] of each text as the model reads it: the characters each token stands for.

        Special tokens have an empty range; tokens of the prompt lie before 0.
        """
        arrays = []
        for spans in self._offsets([self.prompt + text for text in texts], special=True):
            offsets = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
            is_empty = offsets[:, :1] == offsets[:, 1:]
            arrays.append(np.where(is_empty, 0, offsets - len(self.prompt)))
        return arrays

    def _offsets(self, texts: Sequence[str], *, special: bool) -> Iterator[list[Span]]:
        if not getattr(self._tokenizer, "is_fast", False):
            raise FairspanError(
                f"{type(self._tokenizer).__name__} does not map tokens back to characters: use a "
                "model with a fast tokenizer (tokenizer.json)."
            )
        return self._tokenized(texts, "offset_mapping", special=special)

    def _tokenized(self, texts: Sequence[str], entry: str, *, special: bool) -> Iterator[Any]:
        """One entry of the tokenizer's output, for each text."""
        for start in range(0, len(texts), _AT_ONCE):
            output = self._tokenizer(
                list(texts[start : start + _AT_ONCE]),
                add_special_tokens=special,
                truncation=False,
                padding=False,
                verbose=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                return_offsets_mapping=entry == "offset_mapping",
            )
            yield from output[entry]


class Characters:
    """Counts characters, for a model that shows no tokenizer, with `prompt` before each text."""

    unit = "characters"
    window: int | None = None

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        return [len(self.prompt) + len(text) for text in texts]

    def starts(self, texts: Sequence[str]) -> list[Sequence[int]]:
        return [range(len(text)) for text in texts]

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        return [text[:length].rstrip() for text in texts]


def counter_of(
    model: SentenceTransformer,
    prompt: str = "",
    *,
    side: Side = "document",
    window: int | None = None,
) -> ModelTokens | Characters:
    """A counter of the model's own tokens, or of characters if it shows no tokenizer."""
    if not shows_tokens(model):
        return Characters(prompt)
    return ModelTokens(model, prompt, side=side, window=window)


def cutting(model: SentenceTransformer, window: int | None) -> SentenceTransformer:
    """The model if it cuts texts at its window by itself, or else a copy on the same weights.

    A bare tokenizer, which static embeddings have, cuts by itself.
    """
    if window is None or isinstance(model.tokenizer, Tokenizer):
        return model
    if model.max_seq_length is not None and model.max_seq_length <= window:
        return model
    cut = copy_sharing_weights(model)
    cut.max_seq_length = window
    return cut


def tokens_of_spans(offsets: np.ndarray, spans: Sequence[Span]) -> list[np.ndarray]:
    """The numbers of the tokens of each span of characters.

    A token belongs to the span that holds its last character: one that begins with the joining
    space goes with the word after it.
    """
    last = offsets[:, 1] - 1
    has_text = last >= offsets[:, 0]
    return [np.flatnonzero(has_text & (last >= start) & (last < end)) for start, end in spans]


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
        return [(len(tokens), int(self.read[tokens].sum())) for tokens in numbers]

    @property
    def range(self) -> Span:
        """The characters of the text from the first that is read to the end of the last."""
        read = self.offsets[self.read & (self.offsets[:, 1] > self.offsets[:, 0])]
        if not len(read):
            return (0, 0)
        return (max(0, int(read[:, 0].min())), max(0, int(read[:, 1].max())))


def read_text(counter: ModelTokens, text: str) -> Seen:
    """Which tokens of a text the model reads when it is given all of it."""
    (offsets,) = counter.offsets([text])
    window = counter.window
    read = np.ones(len(offsets), dtype=bool)
    if window is None or len(offsets) <= window:
        return Seen(offsets, read)
    # Not every token without characters is special: a space at the end of a text may be one.
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
