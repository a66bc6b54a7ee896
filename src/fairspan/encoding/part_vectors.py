"""`encode_parts`: a few vectors for each document, and the parts that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import counter_of, prompt_of, window_of
from fairspan.errors import DesignError
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import calibrated_transformers


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
    limits = [tiling.at_once for tiling in windows if tiling is not None]
    return min([*limits, window_of(model) or WIDEST_WINDOW, WIDEST_WINDOW])


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
    has at most 512 tokens, has one vector. Score a document by its best part.

    Args:
        model: a calibrated model, which reads parts of any length; a plain one truncates them.
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
