"""`Article`: a document with the runs of sentences that can be cut out of it as queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairspan.corpus.sentences import Span
from fairspan.retrieval.task import FIFTHS, LEAST_TOKENS, Evidence, Passage, Query

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Article:
    """A document, and the runs [runs, 2] of sentences, from first to stop, that can be cut out.

    `lengths` are the tokens of each sentence. If it is `too_long`, the model does not read it whole
    even without its passages.
    """

    id: str
    text: str
    sentences: Sequence[Span]
    lengths: Counts
    runs: Counts
    too_long: bool

    @property
    def tokens(self) -> int:
        return int(self.lengths.sum())

    def estimated_fifths(self, drawn: Counts, room: float) -> Counts:
        """[draws, passages], about the fifth in which the evidence of each run begins.

        -1 if evidence is cut out with another run, or is not among the `room` tokens that are read.
        """
        ends = np.concatenate([[0], self.lengths.cumsum()])
        first = self.runs[drawn, 0]
        stop = self.runs[drawn, 1]
        gone = (ends[stop] - ends[first]).cumsum(1)
        gone_before = np.pad(gone, ((0, 0), (1, 0)))[:, :-1]
        begin = ends[np.maximum(first - 1, 0)] - gone_before
        end = ends[np.minimum(stop + 1, len(ends) - 1)] - gone
        left = np.minimum(ends[-1] - gone[:, -1:], room)
        apart = np.pad(first[:, 1:] > stop[:, :-1], ((0, 0), (0, 1)), constant_values=True)
        fifths = np.minimum(FIFTHS - 1, FIFTHS * begin // left).astype(np.int64)
        return np.where(apart & (end <= room), fifths, -1)

    def has_all_fifths(self, room: float) -> bool:
        """Whether every fifth has a run, so that the wanted one does not decide what is used."""
        fifths = self.estimated_fifths(np.arange(len(self.runs))[:, None], room)
        return set(fifths.flat) >= set(range(FIFTHS))

    def cut_out(
        self, runs: Sequence[Span], language: str
    ) -> tuple[Passage, list[tuple[Query, Evidence]]]:
        """The document without these runs, and these as queries."""
        name = f"{self.id}/{language}"
        text, places = self._without(runs)
        queries = []
        for first, stop in runs:
            around = [places[number] for number in (first - 1, stop) if number in places]
            body = self.text[self.sentences[first][0] : self.sentences[stop - 1][1]]
            query = Query(f"{name}/{first + 1}-{stop}", body, language, cluster=self.id)
            queries.append((query, Evidence(name, around[0][0], around[-1][1])))
        return Passage(name, text, language), queries

    def _without(self, runs: Sequence[Span]) -> tuple[str, dict[int, Span]]:
        """The text without these runs, and the characters of the sentences in it, by number."""
        gone = {number for first, stop in runs for number in range(first, stop)}
        text = ""
        places: dict[int, Span] = {}
        for number, (start, end) in enumerate(self.sentences):
            if number in gone:
                continue
            if places:
                text += self._gap(max(places), number)
            places[number] = len(text), len(text) + end - start
            text += self.text[start:end]
        return text, places

    def _gap(self, before: int, after: int) -> str:
        """The greatest break among the white space between two sentences."""
        around = pairwise(self.sentences[before : after + 1])
        gaps = [self.text[end:start] for (_, end), (start, _) in around]
        return max(gaps, key=lambda gap: (gap.count("\n"), len(gap)))


def find_runs(lengths: Counts, repeated: NDArray[np.bool_], longest: int, reach: float) -> Counts:
    """[runs, 2], the longest run that begins with each sentence of the first `reach` tokens."""
    ends = lengths.cumsum()
    runs = []
    for first, begin in enumerate(ends - lengths):
        stop = int(np.searchsorted(ends, begin + longest, side="right"))
        long_enough = stop > first and ends[stop - 1] - begin >= LEAST_TOKENS
        if begin < reach and long_enough and not repeated[first:stop].any():
            runs.append((first, stop))
    return np.array(runs, dtype=np.int64).reshape(-1, 2)
