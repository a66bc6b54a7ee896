"""Segments as they enter documents: cut to their opening, measured in the model's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from fairspan.corpus.corpus import Corpus
from fairspan.design.design import Design
from fairspan.errors import DesignError

Key = tuple[str, str]
"""A segment's id and its language."""


class TokenCounter(Protocol):
    """What a design needs to know about a model."""

    unit: str
    """What is counted: "tokens", or "characters" if the model does not show its tokenizer."""

    @property
    def window(self) -> int | None:
        """The longest text that the model reads whole; None if no limit is known."""

    def count(self, texts: Sequence[str]) -> list[int]: ...

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        """The length of each text with prompt and special tokens."""

    def starts(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The character at which each token of a text begins."""

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        """The beginning of each text."""


@dataclass(frozen=True, slots=True)
class Material:
    """Segments for documents."""

    ids: tuple[str, ...]
    texts: Mapping[Key, str]
    lengths: Mapping[Key, int]
    notes: tuple[str, ...]

    def shortened(self, length: int, counter: TokenCounter) -> Material:
        """The same with the beginnings of the segments that are longer."""
        long = [key for key, count in self.lengths.items() if count > length]
        cut = counter.cut([self.texts[key] for key in long], length)
        texts = {**self.texts, **dict(zip(long, cut, strict=True))}
        lengths = {**self.lengths, **dict(zip(long, counter.count(cut), strict=True))}
        first = f"their first {length} {counter.unit}"
        note = f"{len(long)} of {len(texts)} segments were cut to {first}"
        return Material(self.ids, texts, lengths, (*self.notes, note))


def measure_segments(
    corpus: Corpus, languages: Sequence[str], design: Design, counter: TokenCounter
) -> Material:
    """Every segment that exists in all languages and is within the design's limits."""
    where = ", ".join(languages)
    # Sorted, so that a draw does not depend on the order in which languages or files were named.
    ids = sorted(corpus.ids(languages))
    keys = [(segment, language) for segment in ids for language in languages]
    texts = [corpus.text(*key) for key in keys]
    counts = zip(keys, counter.count(texts), strict=True)
    material = Material(tuple(ids), dict(zip(keys, texts, strict=True)), dict(counts), ())
    if design.opening is not None:
        material = material.shortened(design.opening, counter)
    lengths = material.lengths
    kept = tuple(segment for segment in ids if _within_limits(segment, languages, lengths, design))
    notes = list(material.notes)
    if len(kept) < len(ids):
        outside = f"{len(ids) - len(kept)} of {len(ids)} segments"
        notes.append(f"{outside} are outside the length limits and were not used")
    smallest = min(design.sizes)
    needed = f"and a document of {smallest} needs {smallest}"
    if len(ids) < smallest:
        raise DesignError(
            f"the corpus has {len(ids)} segments in {where}, {needed} different ones: add texts or "
            "put fewer segments into a document."
        )
    if len(kept) < smallest:
        ordered = sorted(lengths.values())
        raise DesignError(
            f"{len(kept)} of {len(ids)} segments are within the length limits in {where}, "
            f"{needed}: the corpus's segments have {ordered[0]} to {ordered[-1]} {counter.unit}, "
            f"half of them at most {ordered[len(ordered) // 2]}. Change min_tokens or max_tokens."
        )
    return replace(material, ids=kept, notes=tuple(notes))


def _within_limits(
    segment: str, languages: Sequence[str], lengths: Mapping[Key, int], design: Design
) -> bool:
    """Whether a segment is within a design's length limits in these languages."""
    low = design.min_tokens or 0
    high = design.max_tokens or float("inf")
    return all(low <= lengths[segment, language] <= high for language in languages)
