"""Parts of about equal length: a text without borders, divided at its paragraphs."""

from collections.abc import Callable, Sequence

import numpy as np

from fairspan.corpus.marked_text import paragraphs
from fairspan.corpus.sentences import sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError

Span = tuple[int, int]
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Costs of what comes before, and distances of the part after, to costs of both."""


def split_parts(text: str, count: int, counter: TokenCounter, language: str = "") -> list[Span]:
    """The characters of `count` parts of a text, of lengths as equal as its paragraphs allow.

    Paragraphs stay whole, but one that is longer than an equal part may be divided at the ends of its sentences. Of
    all divisions into neighbouring units that one is taken whose largest distance from the equal length is smallest,
    and of those with the same largest distance the one with the smallest sum of squared distances.

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
    """The first unit of each of `count` runs of neighbouring units, as equal in length as they can be.

    >>> balance([5, 1, 1, 1, 4], 3)
    [0, 1, 4]
    """
    total = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
    # In whole numbers, `count` times the distance from the equal length, so that ties are ties.
    worst, _ = _divide(total, count, lambda before, distance: np.maximum(before, distance))
    least = worst[count][len(lengths)]
    _, came_from = _divide(
        total,
        count,
        lambda before, distance: np.where(distance > least, np.inf, before + distance.astype(float) ** 2),
    )
    starts, end = [], len(lengths)
    for part in range(count, 0, -1):
        end = int(came_from[part][end])
        starts.append(end)
    return starts[::-1]


def _divide(total: np.ndarray, count: int, add: Combine) -> tuple[np.ndarray, np.ndarray]:
    """The least cost of the first j units in k parts, [k, j], and where the last of these parts begins."""
    size = len(total)
    cost = np.full((count + 1, size), np.inf)
    came_from = np.zeros((count + 1, size), dtype=np.int64)
    cost[0, 0] = 0
    for part in range(1, count + 1):
        for end in range(part, size):
            distance = np.abs(count * (total[end] - total[:end]) - total[-1])
            costs = add(cost[part - 1, :end], distance)
            came_from[part, end] = best = int(np.argmin(costs))
            cost[part, end] = costs[best]
    return cost, came_from
