"""Segments as they enter documents: cut to their opening where asked, measured in the model's tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairspan.corpus.corpus import Corpus
from fairspan.design.design import Design
from fairspan.errors import DesignError

Key = tuple[str, str]
"""A segment's id and its language."""


class TokenCounter(Protocol):
    """What a design has to know of a model."""

    unit: str
    """What is counted: "tokens", or "characters" where the model does not show its tokenizer."""

    @property
    def window(self) -> int | None:
        """The longest text the model reads whole, None if nothing is known of a limit."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """The length of each text's own content."""

    def count_whole(self, texts: Sequence[str]) -> list[int]:
        """The length of each text as the model reads it: prompt and special tokens included."""

    def cut(self, texts: Sequence[str], length: int) -> list[str]:
        """The first `length` tokens of each text, as text."""


@dataclass(frozen=True, slots=True)
class Material:
    """The segments that documents may be built from."""

    ids: tuple[str, ...]
    texts: Mapping[Key, str]
    lengths: Mapping[Key, int]
    notes: tuple[str, ...]

    def longest(self, segment: str, languages: Sequence[str]) -> int:
        """A segment's length in the language in which it is longest."""
        return max(self.lengths[segment, language] for language in languages)


def measure_segments(
    corpus: Corpus, languages: Sequence[str], design: Design, counter: TokenCounter
) -> Material:
    """Every segment that exists in all `languages` and keeps the design's length limits in them."""
    if design.length_language not in (None, *languages):
        raise DesignError(
            f"length_language={design.length_language} is not among the languages {', '.join(languages)}."
        )
    # Sorted, so that a draw does not depend on the order in which languages or files were named.
    ids = sorted(corpus.ids(languages))
    keys = [(segment, language) for segment in ids for language in languages]
    texts = [corpus.text(*key) for key in keys]
    notes = []
    if design.opening is not None:
        counted = counter.count(texts)
        texts = counter.cut(texts, design.opening)
        cut = sum(length > design.opening for length in counted)
        notes.append(
            f"{cut} of {len(texts)} segments were cut to their first {design.opening} {counter.unit}"
        )
    lengths = dict(zip(keys, counter.count(texts), strict=True))
    kept = tuple(segment for segment in ids if within_limits(segment, languages, lengths, design))
    if len(kept) < len(ids):
        notes.append(
            f"{len(ids) - len(kept)} of {len(ids)} segments are outside the length limits and were not used"
        )
    smallest = min(design.sizes)
    if len(kept) < smallest:
        where = ", ".join(languages)
        if len(ids) < smallest:
            raise DesignError(
                f"the corpus has {len(ids)} segments in {where}, and a document of {smallest} needs {smallest} "
                "different ones: add texts or put fewer segments into a document."
            )
        found = sorted(lengths.values())
        raise DesignError(
            f"{len(kept)} of {len(ids)} segments are within the length limits in {where}, and a document of "
            f"{smallest} needs {smallest}: the corpus's segments have {found[0]} to {found[-1]} {counter.unit}, half "
            f"of them at most {found[len(found) // 2]}. Change min_tokens or max_tokens."
        )
    return Material(kept, dict(zip(keys, texts, strict=True)), lengths, tuple(notes))


def within_limits(
    segment: str, languages: Sequence[str], lengths: Mapping[Key, int], design: Design
) -> bool:
    """Whether a segment keeps a design's length limits in these languages."""
    low, high = design.min_tokens or 0, design.max_tokens or float("inf")
    held = languages if design.length_language is None else (design.length_language,)
    if not all(low <= lengths[segment, language] <= high for language in held):
        return False
    if design.length_ratio is None or design.length_language is None:
        return True
    centre = lengths[segment, design.length_language]
    return all(
        abs(lengths[segment, language] - centre) <= design.length_ratio * centre
        for language in languages
    )
