"""A document in segments, and what of them a model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairspan.corpus.marked_text import NAMES, MarkedText, Piece, join_segments, mark
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.cutting import Count, cut_texts
from fairspan.encoding.tokens import ModelTokens, read_text
from fairspan.errors import DesignError
from fairspan.studies.inspect.reading import InspectedSegment

DEFAULT_PARTS = 4
AnyDocument = str | MarkedText | Sequence[str | Mapping[str, Any]]


def focus(
    document: AnyDocument, counter: TokenCounter, *, borders: str = "auto", parts: int | None = None
) -> MarkedText:
    """A document with at least two segments, in parts if it has no borders."""
    if parts is not None and borders not in ("auto", "parts"):
        wrong = f"parts is for a text without borders, and borders={borders} has some"
        raise DesignError(f"{wrong}: omit one of them.")
    # Those of a SegmentedText.
    document = getattr(document, "segments", document)
    if isinstance(document, str):
        marked = mark(document, borders if parts is None else "parts")
    else:
        marked = document if isinstance(document, MarkedText) else join_segments(document)
    if marked.borders == "segment" and (borders != "auto" or parts is not None):
        raise DesignError("the segments are given, so borders and parts cannot be used: omit them.")
    if parts is not None or not marked.pieces:
        return MarkedText(marked.text, _split(marked.text, parts, counter))
    if len(marked.pieces) < 2:
        wrong = f"the document has one segment {NAMES[marked.borders]}, and shares need two"
        raise DesignError(f"{wrong}: give two, or choose other borders.")
    return marked


def _split(text: str, parts: int | None, counter: TokenCounter) -> tuple[Piece, ...]:
    """Parts of about equal length that end at sentences, by default four; an error for fewer."""
    wanted = Count(1, parts or DEFAULT_PARTS)
    spans = cut_texts([text], counter, lambda _: wanted)[0]
    if len(spans) < (parts or 2):
        wrong = f"the text is too short for {parts or 2} parts"
        raise DesignError(f"{wrong}: use fewer, or mark borders.")
    return tuple(Piece(*span) for span in spans)


def read_segments(
    document: MarkedText, counter: TokenCounter, window: int
) -> tuple[tuple[InspectedSegment, ...], int]:
    """Every segment with what a model reads of it that stops after `window` tokens.

    Also how many tokens of the document it does not read, those between segments included.
    """
    texts = [document.text[piece.start : piece.end] for piece in document.pieces]
    counts = [(tokens, tokens) for tokens in counter.count(texts)]
    begin = 0
    end = len(document.text)
    unseen = 0
    if isinstance(counter, ModelTokens):
        seen = read_text(ModelTokens(counter.model, counter.prompt, window=window), document.text)
        counts = seen.count([(piece.start, piece.end) for piece in document.pieces])
        unseen = int((~seen.read).sum())
        if unseen:
            begin, end = seen.range
    segments: list[InspectedSegment] = []
    for piece, text, (tokens, read) in zip(document.pieces, texts, counts, strict=True):
        first = max(begin - piece.start, 0)
        last = min(end - piece.start, len(text))
        characters = (first, last) if read and first < last else (0, 0)
        names = (len(segments) + 1, piece.title, piece.language)
        segments.append(InspectedSegment(*names, text, tokens, read, *characters))
    return tuple(segments), unseen
