"""Chunks of documents: even runs of whole sentences, and the mean of their vectors."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise

import numpy as np

from fairspan.corpus.sentences import Span, sentences, stripped
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.text import DerivedEncoder, Encoder, Text, key_of
from fairspan.errors import DesignError
from fairspan.model.averages import mean_vector


def chunk_tokens(asked: int | str, counter: TokenCounter) -> int:
    """How long a chunk may be: as asked, or for "window" as long as what the model reads."""
    room = room_of(counter)
    if asked == "window" and room is not None:
        return room
    if not isinstance(asked, int) or asked < 1 or (room is not None and asked > room):
        allowed = "1 or more" if room is None else f"1 to {room}"
        raise DesignError(f"chunks for this model have {allowed} {counter.unit}, got {asked}.")
    return asked


def chunk_documents(
    documents: Sequence[Text], counter: TokenCounter, size: int | str
) -> list[list[Span]]:
    """The characters of every document's chunks: runs of whole sentences that are read in `size` tokens.

    They are as few as can be, and as even as sentences allow. A sentence that is longer than a chunk is cut between
    tokens into even pieces. A document that fits is one chunk. Together the chunks hold every sentence.
    """
    size = chunk_tokens(size, counter)
    most = size + counter.count_whole([""])[0]
    chunked = [[stripped(document.text, 0, len(document.text))] for document in documents]
    longer = list(range(len(documents)))
    # Sentences may have more tokens together than one by one, if a word has more at the beginning of a text.
    while longer and size:
        parts = [
            (number, documents[number].text[slice(*span)])
            for number in longer
            for span in chunked[number]
        ]
        lengths = zip(parts, counter.count_whole([text for _, text in parts]), strict=True)
        longer = sorted(
            {number for (number, text), length in lengths if length > most and len(text) > 1}
        )
        for number, own in zip(
            longer, _pieces([documents[one] for one in longer], counter, size), strict=True
        ):
            chunked[number] = _balanced(own, size)
        size -= 1
    return chunked


def room_of(counter: TokenCounter) -> int | None:
    """How many tokens of its own a text may have to be read whole; None if nothing is known of a limit."""
    return None if counter.window is None else counter.window - counter.count_whole([""])[0]


def _pieces(
    documents: Sequence[Text], counter: TokenCounter, size: int
) -> Iterator[list[tuple[Span, int]]]:
    """The sentences of every document, and the parts of those that are longer than `size`, with their tokens."""
    found = [sentences(document.text, document.language) for document in documents]
    # White space before a sentence is read too where sentences are put together.
    read = [pairwise([spans[0][0], *(end for _, end in spans)]) for spans in found]
    counts = iter(
        counter.count(
            [one.text[a:b] for one, own in zip(documents, read, strict=True) for a, b in own]
        )
    )
    for document, spans in zip(documents, found, strict=True):
        counted = [(span, next(counts)) for span in spans]
        parts = (
            [one] if one[1] <= size else _cut(document.text, one[0], counter, size)
            for one in counted
        )
        yield list(chain.from_iterable(parts))


def _cut(text: str, span: Span, counter: TokenCounter, size: int) -> list[tuple[Span, int]]:
    """The fewest parts of a span that have at most `size` tokens each; their lengths differ by at most one."""
    start, end = span
    length = counter.count([text[start:end]])[0]
    # A single character of more tokens than a chunk stays whole.
    if length <= size or end - start == 1:
        return [(span, length)]
    count = -(-length // size)
    half = count // 2
    head = counter.cut([text[start:end]], half * (length // count) + min(half, length % count))[0]
    stop = start + min(max(1, len(head)), end - start - 1)
    return _cut(text, (start, stop), counter, size) + _cut(
        text, stripped(text, stop, end), counter, size
    )


def _balanced(pieces: Sequence[tuple[Span, int]], size: int) -> list[Span]:
    """The fewest runs of pieces that fit into `size`: those whose lengths vary least, of equal ones longer first.

    None is longer than the longest that there is when every run takes as many pieces as fit.
    """
    ends = np.cumsum([0, *(length for _, length in pieces)])
    filled = grouped(((span, span[1] - span[0]) for span in pairwise(ends.tolist())), size)
    longest = min(size, max(run[-1][1] - run[0][0] for run in filled))
    firsts = np.minimum(np.searchsorted(ends, ends - longest), np.arange(len(ends)) - 1)
    # A run costs the square of its length, and more than all squares can add up to.
    costs, begins, each = (
        np.zeros(len(ends), dtype=np.int64),
        [0],
        ends[-1] * (size + np.diff(ends).max()),
    )
    for last, first in enumerate(firsts[1:], start=1):
        found = costs[first:last] + (ends[last] - ends[first:last]) ** 2
        begins.append(last - 1 - int(found[::-1].argmin()))
        costs[last] = each + found.min()
    borders = [len(pieces)]
    while borders[-1]:
        borders.append(begins[borders[-1]])
    return [
        (pieces[begin][0][0], pieces[end - 1][0][1]) for begin, end in pairwise(reversed(borders))
    ]


def grouped(
    pieces: Iterable[tuple[Span, int]], room: int | None, between: int = 0
) -> list[list[Span]]:
    """Neighbouring spans, each with its tokens, that fit into `room` together with the tokens between them."""
    groups: list[list[Span]] = []
    used = 0
    for span, length in pieces:
        used += between + length
        if groups and (room is None or used <= room):
            groups[-1].append(span)
        else:
            groups.append([span])
            used = length
    return groups


class ChunkEncoder(DerivedEncoder):
    """The mean of the vectors of a text's chunks, each of which another encoder embeds alone.

    A text of one chunk is its own mean. With `normalise` chunks and their mean have length 1. With `by_segments` the
    vector of a text is the mean of those of its segments, whatever their lengths, each the mean of its chunks.
    """

    def __init__(
        self,
        alone: Encoder,
        counter: TokenCounter,
        size: int,
        *,
        normalise: bool = True,
        by_segments: bool = False,
    ) -> None:
        self.alone, self.model, self._normalise = alone, alone.model, normalise
        self._counter, self._size, self._by_segments = counter, size, by_segments
        self._known: dict[Text, list[tuple[Text, ...]]] = {}

    def parts(self, texts: Sequence[Text]) -> list[tuple[Text, ...]]:
        """The chunks of every text."""
        unknown = {text: self._segments(text) for text in texts if text not in self._known}
        segments = [segment for own in unknown.values() for segment in own]
        cut = chunk_documents(segments, self._counter, self._size)
        pieces = [
            [one.text[slice(*span)] for span in spans]
            for one, spans in zip(segments, cut, strict=True)
        ]
        lengths = iter(self._counter.count_whole([piece for own in pieces for piece in own]))
        chunks = iter(tuple(Text(piece, next(lengths)) for piece in own) for own in pieces)
        self._known |= {text: [next(chunks) for _ in own] for text, own in unknown.items()}
        return [tuple(chain.from_iterable(self._known[text])) for text in texts]

    def combine(
        self, texts: Sequence[Text], vectors: Sequence[Sequence[np.ndarray]]
    ) -> list[np.ndarray]:
        mean, means = partial(mean_vector, normalise=self._normalise), []
        for text, own in zip(texts, vectors, strict=True):
            borders = np.cumsum([len(segment) for segment in self._known[text]])[:-1]
            segments = [mean(part) for part in np.split(np.stack(own), borders)]
            means.append((mean(np.concatenate(segments)) if len(segments) > 1 else segments[0])[0])
        return means

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: it depends on the chunks and on nothing else."""
        (own,) = self.parts([text])
        counts = str([len(segment) for segment in self._known[text]])
        return key_of(
            "chunks", str(self._normalise), counts, *(self.alone.key(chunk).hex() for chunk in own)
        )

    def _segments(self, text: Text) -> list[Text]:
        """What is cut into chunks on its own: the text, or each of its segments."""
        if not self._by_segments or len(text.borders) < 2:
            return [text]
        spans = pairwise((*text.borders, len(text.text)))
        return [
            Text(text.text[start:end].strip(), 0, language=text.language) for start, end in spans
        ]
