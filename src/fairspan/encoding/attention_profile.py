"""The attention profile: where a text's pooled row looks, by basket, by segment and on a relative axis (METHODS §4).

Every profile has one value per layer for each part of the text, and its parts sum to 1 in every layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fairspan.encoding.tokens import tokens_of_spans
from fairspan.errors import SegmentError, StatisticsError, require_whole

if TYPE_CHECKING:
    from fairspan.encoding.attention_rows import AttentionRow


@dataclass(frozen=True, slots=True, eq=False)
class BasketProfile:
    """The attention mass of runs of content tokens, with special tokens on their own.

    Attributes:
        first, last: [layers], the mass of the first and of the last token, if it is a special one; otherwise 0.
        baskets: [layers, m], in the order of the text. The last one may be short.
        tokens: [m], how many tokens each basket holds.
        other: [layers], the mass of the prompt and of special tokens elsewhere.
    """

    first: np.ndarray
    baskets: np.ndarray
    last: np.ndarray
    other: np.ndarray
    tokens: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class SegmentProfile:
    """The attention mass of each segment of a document.

    Attributes:
        segments: [layers, n], in the order of the spans given.
        special: [layers], the mass of special tokens.
        other: [layers], the mass of the prompt and of text in no segment.
    """

    segments: np.ndarray
    special: np.ndarray
    other: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class BinProfile:
    """The attention mass on a relative axis, from the first content token to the last.

    Attributes:
        bins: [layers, bins].
        special, prompt: [layers], the mass of special tokens and of the prompt.
    """

    bins: np.ndarray
    special: np.ndarray
    prompt: np.ndarray


def by_basket(row: AttentionRow, basket_size: int = 128) -> BasketProfile:
    """The masses of runs of `basket_size` content tokens."""
    require_whole("basket_size", basket_size, kind=StatisticsError)
    masses = row.masses.astype(np.float64)
    content = np.flatnonzero(row.content)
    starts = np.arange(0, len(content), basket_size)
    # Sums of all baskets at once; it takes at least one start.
    baskets = np.add.reduceat(masses[:, content], starts, axis=1) if len(starts) else masses[:, :0]
    place = np.arange(len(row.special))
    at_start = row.special & (place == 0)
    at_end = row.special & (place == len(place) - 1) & ~at_start
    elsewhere = ~(row.content | at_start | at_end)
    first, last, other = (masses[:, tokens].sum(axis=1) for tokens in (at_start, at_end, elsewhere))
    return BasketProfile(first, baskets, last, other, np.minimum(basket_size, len(content) - starts))


def by_segment(row: AttentionRow, spans: Sequence[tuple[int, int]]) -> SegmentProfile:
    """The mass of each segment, given the characters at which it begins and ends (the end not included).

    A token belongs to the segment that holds its last character: one that begins with the joining space goes with the
    word after it. A token without characters is in no segment.
    """
    _check_spans(spans)
    masses = row.masses.astype(np.float64)
    member = np.zeros((len(spans), masses.shape[1]))
    for number, tokens in enumerate(tokens_of_spans(row.offsets, spans)):
        member[number, tokens] = 1
    segments = masses @ member.T
    special = masses[:, row.special].sum(axis=1)
    in_none = ~row.special & (member.sum(axis=0) == 0)
    return SegmentProfile(segments, special, masses[:, in_none].sum(axis=1))


def by_bins(row: AttentionRow, bins: int = 20) -> BinProfile:
    """The mass of `bins` equal parts of the content tokens.

    A token that straddles a border gives each side its part: the mass up to a border is read off the cumulated masses
    by linear interpolation.
    """
    require_whole("bins", bins, kind=StatisticsError)
    masses = row.masses.astype(np.float64)
    content = masses[:, row.content]
    count = content.shape[1]
    cumulated = np.concatenate([np.zeros((len(content), 1)), content.cumsum(axis=1)], axis=1)
    borders = np.arange(bins + 1) * count / bins
    up_to = np.stack([np.interp(borders, np.arange(count + 1), layer) for layer in cumulated])
    return BinProfile(np.diff(up_to, axis=1), masses[:, row.special].sum(axis=1), masses[:, row.prompt].sum(axis=1))


def _check_spans(spans: Sequence[tuple[int, int]]) -> None:
    for start, end in spans:
        if not 0 <= start <= end:
            raise SegmentError(
                f"a segment is a span of characters (start, end) with 0 <= start <= end, got {(start, end)}."
            )
    for one, other in pairwise(sorted(spans)):
        if other[0] < one[1]:
            raise SegmentError(f"segments must not overlap, got {one} and {other}.")
