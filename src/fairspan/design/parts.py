"""Parts of about equal length: a text without borders, divided at its paragraphs."""

from collections.abc import Sequence

import numpy as np

from fairspan.corpus.marked_text import paragraphs
from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError


def split_parts(text: str, count: int, counter: TokenCounter) -> list[Span]:
    """The characters of `count` parts of a text, of lengths as equal as its paragraphs allow.

    Paragraphs stay whole, but those that are longer than an equal part are divided into sentences,
    and all are if there would be fewer of them than parts.
    """
    whole = paragraphs(text)
    lengths = counter.count([text[start:end] for start, end in whole])
    longer = [length > sum(lengths) / count for length in lengths]
    spans = _divided(text, whole, longer)
    if len(spans) < count:
        spans = _divided(text, whole, [True] * len(whole))
    if len(spans) < count:
        wrong = f"the text has {len(spans)} sentences and cannot have {count} parts"
        raise DesignError(f"{wrong}: use fewer, or mark borders.")
    starts = balance(counter.count([text[start:end] for start, end in spans]), count)
    ends = [*starts[1:], len(spans)]
    return [(spans[start][0], spans[end - 1][1]) for start, end in zip(starts, ends, strict=True)]


def _divided(text: str, paragraphs: Sequence[Span], at_sentences: Sequence[bool]) -> list[Span]:
    """The paragraphs, and the sentences of those that are divided."""
    spans: list[Span] = []
    for (start, end), divide in zip(paragraphs, at_sentences, strict=True):
        inside = sentences(text[start:end], "") if divide else [(0, end - start)]
        spans += [(start + first, start + last) for first, last in inside]
    return spans


def balance(lengths: Sequence[int], count: int) -> list[int]:
    """The first unit of each of `count` runs of units, with borders nearest to equal shares."""
    ends = np.cumsum(lengths)
    starts = [0]
    for part in range(1, count):
        # At least one unit for the part before, and one for each part that follows.
        first = starts[-1] + 1
        last = len(lengths) - (count - part)
        distances = np.abs(count * ends[first - 1 : last] - part * ends[-1])
        starts.append(first + int(np.argmin(distances)))
    return starts
