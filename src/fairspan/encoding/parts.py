"""Parts of documents: a few runs of equal length, each of which has a vector of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.corpus.sentences import Span, stripped
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.tokens import ModelTokens, counter_of, prompt_of, window_of
from fairspan.errors import DesignError, require_whole
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import calibrated_transformers

FEWEST_TOKENS = 16
"""Of a part: fewer say little, and special tokens would be a good part of them."""


@dataclass(frozen=True, slots=True)
class PartRule:
    """How many parts a document has: at most `vectors`, or one for every `tokens` tokens.

    A document that fits into one reading of the model is one part, and no part of `vectors` needs
    to be shorter than half of that.
    """

    vectors: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Raise unless one of the two is set, and high enough."""
        if (self.vectors is None) == (self.tokens is None):
            raise DesignError(
                "the number of vectors of a document follows from vectors, such as 4, or from "
                "tokens, such as 2048, of each: set one of the two."
            )
        if self.vectors is not None:
            require_whole("vectors", self.vectors)
        if self.tokens is not None:
            require_whole("tokens", self.tokens, least=FEWEST_TOKENS)

    def count(self, length: int, room: int) -> int:
        """The parts of a text of `length` tokens, of which one reading has `room`."""
        if self.vectors is None:
            return max(1, -(-length // (self.tokens or room)))
        return max(1, min(self.vectors, -(-length // room)))


@dataclass(frozen=True, slots=True, eq=False)
class PartVectors:
    """The vectors of documents in parts, document after document.

    Attributes:
        vectors: [P, d] in float32.
        document: [P], the number of each part's document, from 0.
        span: [P, 2], the characters of that document that the part begins and ends with.
    """

    vectors: np.ndarray
    document: np.ndarray
    span: np.ndarray


def tokens_that_fit(model: SentenceTransformer) -> int:
    """How many tokens a text has at most that needs one vector only: what the plain model reads,
    but no more than 512."""
    windows = [module.tiling for module in calibrated_transformers(model)]
    limits = [tiling.window for tiling in windows if tiling is not None]
    return min([*limits, window_of(model) or WIDEST_WINDOW, WIDEST_WINDOW])


def part_spans(
    texts: Sequence[str], counter: TokenCounter, rule: PartRule, fits: int
) -> list[list[Span]]:
    """The characters of each text's parts, which differ in length by one token at most.

    Borders lie between tokens, and never inside a character. A text of `fits` tokens, prompt and
    special ones included, is one part.
    """
    added = counter.count_whole([""])[0]
    spans_of = []
    for text, starts in zip(texts, _token_starts(texts, counter), strict=True):
        parts = rule.count(len(starts), max(1, fits - added))
        firsts = [starts[len(starts) * part // parts] for part in range(1, parts)]
        borders = pairwise([0, *firsts, len(text)])
        spans = [stripped(text, start, end) for start, end in borders]
        # A character of several tokens is in one part, and white space in none.
        spans_of.append([span for span in spans if span[0] < span[1]] or [(0, len(text))])
    return spans_of


def _token_starts(texts: Sequence[str], counter: TokenCounter) -> list[Sequence[int]]:
    """The character at which each token of a text begins; the prompt and special ones aside."""
    if not isinstance(counter, ModelTokens):
        return [range(len(text)) for text in texts]
    starts = []
    for offsets in counter.offsets(texts):
        is_of_text = (offsets[:, 1] > offsets[:, 0]) & (offsets[:, 1] > 0)
        starts.append(offsets[is_of_text, 0].clip(0).tolist())
    return starts


def encode_parts(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    vectors: int | None = None,
    tokens: int | None = None,
    **options: Any,
) -> PartVectors:
    """Embed documents with several vectors each: one for each of a few parts of equal length.

    Every part is read as a text of its own. A document that the plain model reads whole, and that
    has at most 512 tokens, has one vector. For a document, take the best match of its parts.

    Args:
        model: a calibrated model, which reads parts of any length; a plain one cuts them.
        texts: documents.
        vectors: how many a document has at most.
        tokens: how many a part has at most; in place of `vectors`.
        options: whatever `model.encode_document` takes, such as `batch_size`.
    """
    rule = PartRule(vectors, tokens)
    if isinstance(texts, str) or any(isinstance(text, SegmentedText) for text in texts):
        raise DesignError(
            "parts are cut from a list of plain texts, which have no segments: give "
            "[str(document)], or use encode_segments."
        )
    counter = counter_of(model, prompt_of(model, "document"))
    spans_of = part_spans(texts, counter, rule, tokens_that_fit(model))
    parts = [
        text[slice(*span)] for text, spans in zip(texts, spans_of, strict=True) for span in spans
    ]
    encoded = np.asarray(model.encode_document(parts, **options), dtype=np.float32)
    counts = [len(spans) for spans in spans_of]
    flat = [span for spans in spans_of for span in spans]
    return PartVectors(
        encoded.reshape(len(parts), -1),
        np.repeat(np.arange(len(texts)), counts),
        np.array(flat, dtype=np.int64).reshape(-1, 2),
    )
