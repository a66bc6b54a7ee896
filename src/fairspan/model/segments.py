"""Documents given as lists of segments, each of which becomes a basket or a tile."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.errors import DesignError

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
    """The character at which each segment begins."""

    def __new__(cls, segments: Sequence[str]) -> SegmentedText:
        if isinstance(segments, str) or not all(isinstance(segment, str) for segment in segments):
            raise DesignError(
                f"a document is a list of strings, one per segment, got {segments!r:.80}: one document is [segments]."
            )
        if not segments:
            raise DesignError("a document needs at least one segment, got an empty list.")
        lengths = [len(segment) + len(SEPARATOR) for segment in segments[:-1]]
        return cls._made(SEPARATOR.join(segments), segments, list(accumulate(lengths, initial=0)))

    @classmethod
    def cut(cls, text: str, starts: Sequence[int]) -> SegmentedText:
        """A text as it is, in segments that begin at these characters; what comes before the first goes with it.

        >>> SegmentedText.cut("First.\\n\\nSecond.", [0, 8]).segments
        ('First.', 'Second.')
        """
        if (
            not starts
            or any(a >= b for a, b in pairwise(starts))
            or starts[0] < 0
            or starts[-1] >= len(text)
        ):
            raise DesignError(
                f"segments begin at growing places inside the text, got {list(starts)!r:.80}."
            )
        return cls._made(
            text, [text[a:b].strip() for a, b in pairwise([*starts, len(text)])], list(starts)
        )

    @classmethod
    def _made(cls, text: str, segments: Sequence[str], starts: list[int]) -> SegmentedText:
        empty = [number for number, segment in enumerate(segments) if not segment.strip()]
        if empty:
            raise DesignError(
                f"segment {empty[0]} of a document of {len(segments)} is empty: omit it."
            )
        made = super().__new__(cls, text)
        made.segments, made.starts = tuple(segments), starts
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SegmentedText.cut, (str(self), self.starts)


def segment_of_tokens(
    texts: Sequence[str], offsets: Tensor, valid: Tensor, prompt: str | None
) -> Tensor:
    """[N, L], the segment each token belongs to; `UNSEGMENTED` throughout for texts that are plain strings.

    A token belongs to the segment that holds its last character, so that a token which begins with the joining space
    goes with the word after it. Prompt and special tokens go with the segment next to them.

    Args:
        offsets: [N, L, 2], the characters each token stands for, counted from the start of the prompt.
    """
    shift = len(prompt or "")
    rows = []
    for text, spans, real in zip(texts, offsets.tolist(), valid.tolist(), strict=True):
        if not isinstance(text, SegmentedText):
            rows.append([UNSEGMENTED] * len(spans))
            continue
        starts = text.starts
        row, current = [], 0
        for (begin, end), is_real in zip(spans, real, strict=True):
            if is_real and end > begin:
                current = max(current, bisect_right(starts, end - 1 - shift) - 1)
            row.append(current)
        if current < len(starts) - 1:
            warnings.warn(
                f"the document that begins {text[:40]!r} is longer than the model: its segments {current + 2} to "
                f"{len(starts)} were cut off and have no basket. Raise max_seq_length or split the document.",
                stacklevel=2,
            )
        rows.append(row)
    return torch.tensor(rows, dtype=torch.long)


def encode_segments(
    model: SentenceTransformer,
    documents: Sequence[Sequence[str] | SegmentedText] | SegmentedText,
    **options: Any,
) -> Any:
    """Embed documents whose segments are known, with one basket or tile per segment.

    Args:
        model: a calibrated model.
        documents: a list of documents, each a list of segments or a `SegmentedText`; or one `SegmentedText`.
        options: whatever `model.encode_document` takes.

    Returns:
        What `model.encode_document` returns: one vector per document of a list, or one vector.
    """
    calibrations = [getattr(module, "calibration", None) for module in model.modules()]
    if not any(
        one is not None and (one.strength > 0 or one.tile_size is not None) for one in calibrations
    ):
        raise DesignError(
            "segments become tiles or baskets only inside a calibrated model: use fairspan.calibrate(model, 'tiles') "
            "or any calibration with tiles or with a strength above 0."
        )

    def read(document: Sequence[str]) -> SegmentedText:
        return document if isinstance(document, SegmentedText) else SegmentedText(document)

    texts = (
        read(documents)
        if isinstance(documents, str)
        else [read(document) for document in documents]
    )
    return model.encode_document(texts, **options)
