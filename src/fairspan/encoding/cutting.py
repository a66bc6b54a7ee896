"""One cutter of texts: parts of equal token shares, whose borders move to the nearest sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fairspan.corpus.sentences import Span, sentences, stripped
from fairspan.design.lengths import TokenCounter

# Numbers of parts that are tried from the fewest to twice as many, about.
_TRIES = 16


@dataclass(frozen=True, slots=True)
class Count:
    """How many parts a text has: the first number from `fewest` to `most` with which no part has
    more than `limit` tokens; without a limit `most`.
    """

    fewest: int
    most: int
    limit: int | None = None

    @property
    def tries(self) -> Iterator[int]:
        """The numbers of parts to try. Twice the fewest is always enough."""
        if self.limit is None:
            return iter((self.most,))
        return iter(range(self.fewest, min(self.most, 2 * self.fewest) + 1, self._step))

    def after(self, parts: int) -> Count | None:
        """For a text of which so many parts were not enough; None if it has no more."""
        fewest = max(parts, self.fewest) + self._step
        if self.limit is None or fewest > self.most:
            return None
        return replace(self, fewest=fewest)

    @property
    def _step(self) -> int:
        return 1 + self.fewest // _TRIES


def fewest_parts(length: int, limit: int) -> Count:
    """As few parts as sentences allow, of a text of `length` tokens, with at most `limit` each."""
    fewest = max(1, -(-length // limit))
    return Count(fewest, max(1, length), limit)


def cut_texts(
    texts: Sequence[str],
    counter: TokenCounter,
    count: Callable[[int], Count],
    languages: Sequence[str] | None = None,
) -> list[list[Span]]:
    """The characters of each text's parts, of which `count` says how many for a number of tokens.

    Borders lie between tokens and in no character; only white space is outside. Without
    `languages` the rules of English tell sentences apart.
    """
    tokens_of = [np.asarray(starts, dtype=np.int64) for starts in counter.starts(texts)]
    added = counter.count_whole([""])[0]
    spans_of = [[stripped(text, 0, len(text))] for text in texts]
    pending = {number: count(len(tokens)) for number, tokens in enumerate(tokens_of)}
    while pending:
        for number, parts in pending.items():
            language = "" if languages is None else languages[number]
            borders = _borders(texts[number], language, tokens_of[number], parts)
            spans_of[number] = _between(texts[number], borders)
        # Alone, a part may have more tokens than inside its text.
        pieces = [texts[number][slice(*span)] for number in pending for span in spans_of[number]]
        lengths = iter(counter.count_whole(pieces))
        longest = {number: max(next(lengths) for _ in spans_of[number]) for number in pending}
        pending = {
            number: more
            for number, parts in pending.items()
            if parts.limit is not None and longest[number] > parts.limit + added
            if (more := parts.after(len(spans_of[number]))) is not None
        }
    return spans_of


def _borders(text: str, language: str, tokens: np.ndarray, count: Count) -> list[int]:
    """The characters between parts, given those at which tokens begin."""
    fits = len(tokens) <= (count.limit or 1)
    if count.most == 1 or (count.fewest == 1 and fits):
        return []
    begins = np.array([start for start, _ in sentences(text, language)], dtype=np.int64)
    # The token that a sentence begins with, which may have the space before it.
    first = np.unique(np.searchsorted(tokens, begins[1:], side="right") - 1)
    for parts in count.tries:
        places = _moved(_shares(tokens, parts), first, len(tokens) / (2 * parts))
        longest = np.diff(places, prepend=0, append=len(tokens)).max()
        if count.limit is None or longest <= count.limit:
            break
    else:
        places = _shares(tokens, count.fewest)
    return list(map(int, tokens[places]))


def _shares(tokens: np.ndarray, parts: int) -> np.ndarray:
    """The numbers of the tokens that equal parts begin with, but the first part's."""
    places = len(tokens) * np.arange(1, parts) // parts
    # Of a character of several tokens the first.
    return np.unique(np.searchsorted(tokens, tokens[places]))


def _moved(places: np.ndarray, first: np.ndarray, most: float) -> np.ndarray:
    """Each place at the nearest of the `first` tokens of sentences, if that is at most so far."""
    if not len(first) or not len(places):
        return places
    after = np.searchsorted(first, places).clip(0, len(first) - 1)
    before = (after - 1).clip(0)
    is_nearer = np.abs(first[before] - places) <= np.abs(first[after] - places)
    nearest = np.where(is_nearer, first[before], first[after])
    return np.unique(np.where(np.abs(nearest - places) <= most, nearest, places))


def _between(text: str, borders: Sequence[int]) -> list[Span]:
    """The parts between borders, without white space at their ends, and none without a text."""
    spans = [stripped(text, *part) for part in pairwise([0, *borders, len(text)])]
    return [span for span in spans if span[0] < span[1]] or [(0, len(text))]
