"""Parts of about equal length: a text without borders, divided at its paragraphs."""

from collections.abc import Sequence

import numpy as np

from fairspan.corpus.marked_text import paragraphs
from fairspan.corpus.sentences import sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError

Span = tuple[int, int]


def split_parts(text: str, count: int, counter: TokenCounter, language: str = "") -> list[Span]:
    """The characters of `count` parts of a text, of lengths as equal as its paragraphs allow.

    Paragraphs stay whole, but one that is longer than an equal part may be divided at the ends of its sentences.

    Raises:
        DesignError: if the text has fewer sentences than parts.
    """
    if count < 2:
        raise DesignError(f"parts must be at least 2, got {count}.")
    spans, lengths = units(text, count, counter, language)
    if len(spans) < count:
        raise DesignError(
            f"the text has {len(spans)} sentences, and {count} parts were asked for: ask for fewer, or mark borders."
        )
    starts = balance(lengths, count)
    ends = [*starts[1:], len(spans)]
    return [(spans[start][0], spans[end - 1][1]) for start, end in zip(starts, ends, strict=True)]


def units(text: str, count: int, counter: TokenCounter, language: str = "") -> tuple[list[Span], list[int]]:
    """What parts are made of, and their lengths: paragraphs, and the sentences of those longer than a part.

    Where these are fewer than the parts, they are all sentences.
    """
    whole = paragraphs(text)
    lengths = counter.count([text[start:end] for start, end in whole])
    equal = sum(lengths) / count
    spans: list[Span] = []
    for span, length in zip(whole, lengths, strict=True):
        spans += _sentences(text, span, language) if length > equal else [span]
    if len(spans) < count:
        spans = [sentence for span in whole for sentence in _sentences(text, span, language)]
    return spans, counter.count([text[start:end] for start, end in spans])


def _sentences(text: str, paragraph: Span, language: str) -> list[Span]:
    start, end = paragraph
    return [(start + first, start + last) for first, last in sentences(text[start:end], language)]


def balance(lengths: Sequence[int], count: int) -> list[int]:
    """The first unit of each of `count` runs of neighbouring units: borders are those nearest to equal shares.

    >>> balance([5, 1, 1, 1, 4], 3)
    [0, 1, 4]
    """
    ends, starts = np.cumsum(lengths), [0]
    for part in range(1, count):
        # At least one unit for the part before, and one for each part that follows.
        first, last = starts[-1] + 1, len(lengths) - (count - part)
        distances = np.abs(count * ends[first - 1 : last] - part * ends[-1])
        starts.append(first + int(np.argmin(distances)))
    return starts
