"""Documents as lists of segments, which become tiles or are embedded alone."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.averages import mean_vector
from fairspan.model.level import level_of

SEPARATOR = " "
UNSEGMENTED = -1


class SegmentedText(str):
    """A document that remembers its segments: a string of the segments joined by one space.

    >>> page = SegmentedText(["First article.", "Second article."])
    >>> page
    'First article. Second article.'
    """

    segments: tuple[str, ...]
    starts: list[int]

    def __new__(cls, segments: Sequence[str]) -> SegmentedText:
        """The text of these segments."""
        if isinstance(segments, str) or not all(isinstance(segment, str) for segment in segments):
            raise DesignError(
                f"a document is a list of strings, one per segment, got {segments!r:.80}: one "
                "document is [segments]."
            )
        if not segments:
            raise DesignError("a document needs at least one segment, got an empty list.")
        lengths = [len(segment) + len(SEPARATOR) for segment in segments[:-1]]
        starts = list(accumulate(lengths, initial=0))
        return cls._from_parts(SEPARATOR.join(segments), segments, starts)

    @classmethod
    def cut(cls, text: str, starts: Sequence[int]) -> SegmentedText:
        """A text in segments that begin at these characters; the first includes what precedes it.

        >>> SegmentedText.cut("First.\\n\\nSecond.", [0, 8]).segments
        ('First.', 'Second.')
        """
        borders = [*starts, len(text)]
        if not starts or starts[0] < 0 or any(a >= b for a, b in pairwise(borders)):
            raise DesignError(
                f"segments begin at growing places inside the text, got {list(starts)!r:.80}."
            )
        segments = [text[start:end].strip() for start, end in pairwise(borders)]
        return cls._from_parts(text, segments, list(starts))

    @classmethod
    def _from_parts(cls, text: str, segments: Sequence[str], starts: list[int]) -> SegmentedText:
        """The text with its segments, none of which may be empty."""
        for number, segment in enumerate(segments):
            if not segment.strip():
                raise DesignError(
                    f"segment {number} of a document of {len(segments)} is empty: omit it."
                )
        segmented = super().__new__(cls, text)
        segmented.segments = tuple(segments)
        segmented.starts = starts
        return segmented

    def __reduce__(self) -> tuple[Any, ...]:
        return SegmentedText._from_parts, (str(self), self.segments, self.starts)


def segment_of_tokens(
    texts: Sequence[str], offsets: Tensor, valid: Tensor, prompt: str | None
) -> Tensor:
    """[N, L], the segment of each token; `UNSEGMENTED` for texts that are plain strings.

    A token belongs to the segment with its last character. Prompt and special tokens belong to the
    segment next to them.

    Args:
        offsets: [N, L, 2], the characters of each token, counted from the start of the prompt.
        valid: [N, L], 0 for padding.
    """
    shift = len(prompt or "")
    rows = []
    for text, spans, real in zip(texts, offsets.tolist(), valid.tolist(), strict=True):
        if not isinstance(text, SegmentedText):
            rows.append([UNSEGMENTED] * len(spans))
            continue
        row = []
        current = 0
        for (begin, end), is_real in zip(spans, real, strict=True):
            if is_real and end > begin:
                current = max(current, bisect_right(text.starts, end - 1 - shift) - 1)
            row.append(current)
        if current < len(text.starts) - 1:
            warnings.warn(
                f"the document that begins {text[:40]!r} is longer than the model: its segments "
                f"{current + 2} to {len(text.starts)} were cut off. Raise "
                "max_seq_length or split the document.",
                stacklevel=2,
            )
        rows.append(row)
    return torch.tensor(rows, dtype=torch.long)


def encode_segments(
    model: SentenceTransformer,
    documents: Sequence[Sequence[str] | SegmentedText] | SegmentedText,
    *,
    average: bool = False,
    **options: Any,
) -> Any:
    """Embed documents whose segments are known, with one tile per segment.

    With `average` the vector of a document is the mean of its segments' vectors instead, each
    embedded alone. Every segment then has the same weight, whatever its position, length and
    language. Where the model compares by cosine, or with `normalize_embeddings`, the segments'
    vectors and their mean have length 1.

    Args:
        model: a calibrated model; with `average` a plain one, too.
        documents: a list of documents, each a list of segments or a `SegmentedText`; or one
            `SegmentedText`.
        average: whether to average the segments' own vectors.
        options: whatever `model.encode_document` takes; with `average` neither `precision` nor
            `output_value`.

    Returns:
        What `model.encode_document` returns: one vector per document of a list, or one vector.

    Raises:
        DesignError: if a document has no segments, or a model without `average` has no tiles.
    """
    if not average:
        _require_tiles(model)
    if isinstance(documents, str):
        texts = [_segmented(documents)]
    else:
        texts = [_segmented(document) for document in documents]
    if average and texts:
        vectors = _segment_means(model, texts, **options)
    else:
        vectors = model.encode_document(texts, **options)
    return vectors[0] if isinstance(documents, str) else vectors


def _segmented(document: Sequence[str]) -> SegmentedText:
    return document if isinstance(document, SegmentedText) else SegmentedText(document)


def _require_tiles(model: SentenceTransformer) -> None:
    """Raise unless the model is calibrated with tiles."""
    for module in model.modules():
        calibration = getattr(module, "calibration", None)
        if calibration and calibration.tile_size is not None:
            return
    raise DesignError(
        "segments become tiles only inside a model that is calibrated with tiles: use "
        "fairspan.calibrate(model, 'fair'), or average=True for the mean of the segments' own "
        "vectors."
    )


def _segment_means(
    model: SentenceTransformer,
    texts: Sequence[SegmentedText],
    *,
    normalize_embeddings: bool = False,
    convert_to_numpy: bool = True,
    convert_to_tensor: bool = False,
    **options: Any,
) -> Any:
    """[N, d], the mean vector of each text's segments: an array, a tensor or a list of tensors."""
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(
            f"average=True takes a SentenceTransformer, got {type(model).__name__}."
        )
    for option in ("precision", "output_value"):
        if option in options:
            raise DesignError(f"{option} cannot be used with average=True: omit it.")
    segments = [segment for text in texts for segment in text.segments]
    vectors = np.asarray(model.encode_document(segments, **options))
    borders = np.cumsum([len(text.segments) for text in texts])[:-1]
    normalise = normalize_embeddings or model.similarity_fn_name == "cosine"
    means = [mean_vector(part, normalise=normalise) for part in np.split(vectors, borders)]
    array = np.concatenate(means)
    if (common := level_of(model)) is not None:
        # The mean of level vectors has a larger share.
        array = common.level(array)
    if convert_to_tensor:
        return torch.from_numpy(array).to(model.device)
    return array if convert_to_numpy else list(torch.from_numpy(array))
