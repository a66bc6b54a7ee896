"""`Lens`: one document in segments, and what of it a model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unicodedata import category

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.corpus.marked_text import NAMES, MarkedText, Piece, join_segments, mark
from fairspan.corpus.sentences import Span
from fairspan.design.lengths import TokenCounter
from fairspan.design.parts import split_parts
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import ModelTokens, Seen, read_text
from fairspan.errors import DesignError
from fairspan.model.segments import SegmentedText
from fairspan.studies.inspect.inspection import InspectedSegment

DEFAULT_PARTS = 4
AnyDocument = str | MarkedText | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True)
class Lens:
    """A document in segments; `borders` is what they were found by."""

    text: str
    pieces: tuple[Piece, ...]
    borders: str
    counter: TokenCounter

    @cached_property
    def length(self) -> int:
        """Of the whole text as the model would read it, prompt and special tokens included."""
        return self.counter.count_whole([self.text])[0]

    @cached_property
    def seen(self) -> Seen | None:
        """Which tokens the model does read; None where it shows no tokens."""
        return read_text(self.counter, self.text) if isinstance(self.counter, ModelTokens) else None

    @property
    def texts(self) -> list[str]:
        """The segments as they are embedded alone."""
        return [self.text[piece.start : piece.end] for piece in self.pieces]

    def up_to(self, window: int | None) -> Lens:
        """The same for a model that stops after that many tokens."""
        counter = self.counter
        if window in (None, counter.window) or not isinstance(counter, ModelTokens):
            return self
        return replace(self, counter=ModelTokens(counter.model, counter.prompt, window=window))

    @property
    def unseen(self) -> int:
        """Tokens that are not read, also those in no segment."""
        return 0 if self.seen is None else int((~self.seen.read).sum())

    def segments(self) -> tuple[InspectedSegment, ...]:
        """Every segment, with what the model reads of it."""
        if self.seen is None:
            counts = [(tokens, tokens) for tokens in self.counter.count(self.texts)]
        else:
            counts = self.seen.count([(piece.start, piece.end) for piece in self.pieces])
        first, last = self._seen_range()
        segments = []
        for number, (piece, (tokens, seen)) in enumerate(zip(self.pieces, counts, strict=True), 1):
            start = max(piece.start, first)
            end = min(piece.end, last)
            if not seen or end <= start:
                start = piece.start
                end = piece.start
            segments.append(
                InspectedSegment(
                    number=number,
                    title=piece.title,
                    language=piece.language,
                    text=self.text[piece.start : piece.end],
                    start=piece.start,
                    end=piece.end,
                    tokens=tokens,
                    seen=seen,
                    seen_start=start,
                    seen_end=end,
                )
            )
        return tuple(segments)

    def _seen_range(self) -> Span:
        """The characters that the model reads; a letter is not parted from its marks."""
        if self.seen is None or self.seen.whole:
            return 0, len(self.text)
        first, last = self.seen.range
        while category(self.text[last : last + 1] or " ").startswith("M"):
            last += 1
        return first, last


def focus(
    document: AnyDocument,
    counter: TokenCounter,
    *,
    borders: str = "auto",
    parts: int | None = None,
    rule: PartRule | None = None,
    fits: int = WIDEST_WINDOW,
) -> Lens:
    """A document in its segments, and what the model of `counter` reads of it.

    With a `rule` these are the parts that have a vector each, of a document of more tokens than
    `fits`.
    """
    if rule is not None:
        if parts is not None or borders != "auto":
            raise DesignError("vectors sets the borders of the parts: omit borders and parts.")
        marked = MarkedText(_mark(document, "parts", None).text, borders="vectors")
        (spans,) = part_spans([marked.text], counter, rule, fits)
    else:
        marked = _mark(document, borders, parts)
        spans = [] if marked.pieces else _split(marked.text, parts, counter)
    pieces = marked.pieces or tuple(Piece(*span) for span in spans)
    if len(pieces) < 2:
        remedy = "choose other borders, or have it split into parts"
        if marked.borders == "segment":
            remedy = "give two"
        elif marked.borders == "vectors":
            remedy = f"it has one vector, as all texts of up to {fits} tokens"
        raise DesignError(
            f"the document has one segment {NAMES[marked.borders]}, and shares need two: {remedy}."
        )
    return Lens(marked.text, pieces, marked.borders, counter)


def _mark(document: AnyDocument, borders: str, parts: int | None) -> MarkedText:
    """The text of a document with its segments; without any if it is to be split into parts."""
    if parts is not None and borders not in ("auto", "parts"):
        raise DesignError(
            f"parts is for a text without borders, and borders={borders} has some: omit one of "
            "them."
        )
    if isinstance(document, str) and not isinstance(document, SegmentedText):
        return mark(document, borders if parts is None else "parts")
    if isinstance(document, MarkedText) and document.borders != "segment":
        return document if parts is None else MarkedText(document.text)
    if borders != "auto" or parts is not None:
        raise DesignError("the segments are given, so borders and parts cannot be used: omit them.")
    if isinstance(document, MarkedText):
        return document
    return join_segments(document.segments if isinstance(document, SegmentedText) else document)


def _split(text: str, parts: int | None, counter: TokenCounter) -> list[Span]:
    """Parts of about equal length; if no number is given, four, or fewer for few sentences."""
    if parts is not None:
        return split_parts(text, parts, counter)
    for count in range(DEFAULT_PARTS, 1, -1):
        with suppress(DesignError):
            return split_parts(text, count, counter)
    raise DesignError("the text is one sentence, and shares need two segments: mark its borders.")
