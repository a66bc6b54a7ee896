"""Chunks of documents: even runs of whole sentences, and the mean of their vectors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np

from fairspan.calibration.level import CommonDirection
from fairspan.corpus.sentences import Span, sentences, stripped
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.text import Encoder, Text, key_of
from fairspan.errors import DesignError
from fairspan.model.averages import mean_vector

Item = TypeVar("Item")
Piece = tuple[Span, int]
"""The characters of a sentence, or of a part of one, and how many tokens they have."""
# Characters of texts whose chunks an encoder remembers; each takes at most four bytes.
_REMEMBERED = 2**26


def chunk_tokens(size: int | str, counter: TokenCounter) -> int:
    """How many tokens a chunk may have: `size`, or for "window" as many as the model reads."""
    room = room_of(counter)
    if size == "window" and room is not None:
        return room
    if not isinstance(size, int) or size < 1 or (room is not None and size > room):
        allowed = "1 or more" if room is None else f"1 to {room}"
        raise DesignError(f"chunks for this model have {allowed} {counter.unit}, got {size}.")
    return size


def chunk_documents(
    documents: Sequence[Text], counter: TokenCounter, size: int | str
) -> list[list[Span]]:
    """The characters of every document's chunks: runs of whole sentences of up to `size` tokens.

    They are as few as possible, and as even as sentences allow. A sentence that is longer than a
    chunk is cut between tokens into even pieces.
    """
    size = chunk_tokens(size, counter)
    most = size + counter.count_whole([""])[0]
    chunks = [[stripped(document.text, 0, len(document.text))] for document in documents]
    too_long = list(range(len(documents)))
    # Sentences may have more tokens together than one by one, if a word has more at the beginning
    # of a text. Then they are put together again with a smaller size.
    while too_long and size:
        parts = [
            (number, documents[number].text[slice(*span)])
            for number in too_long
            for span in chunks[number]
        ]
        lengths = counter.count_whole([text for _, text in parts])
        checked = zip(parts, lengths, strict=True)
        longer = {number for (number, text), length in checked if length > most and len(text) > 1}
        too_long = sorted(longer)
        pieces = _pieces([documents[number] for number in too_long], counter, size)
        for number, document_pieces in zip(too_long, pieces, strict=True):
            chunks[number] = _balanced(document_pieces, size)
        size -= 1
    return chunks


def chunk_texts(
    documents: Sequence[Text], counter: TokenCounter, size: int | str
) -> list[list[str]]:
    """Every document's chunks; see `chunk_documents`."""
    chunks = zip(documents, chunk_documents(documents, counter, size), strict=True)
    return [[document.text[slice(*span)] for span in spans] for document, spans in chunks]


def room_of(counter: TokenCounter) -> int | None:
    """How many tokens a text may have, prompt and special ones aside; None without a limit."""
    return None if counter.window is None else counter.window - counter.count_whole([""])[0]


def _pieces(documents: Sequence[Text], counter: TokenCounter, size: int) -> Iterator[list[Piece]]:
    """The sentences of each document; those of more than `size` tokens in parts."""
    spans_of = [sentences(document.text, document.language) for document in documents]
    texts = []
    for document, spans in zip(documents, spans_of, strict=True):
        # White space before a sentence is read too where sentences are put together.
        borders = [spans[0][0], *(end for _, end in spans)]
        texts += [document.text[start:end] for start, end in pairwise(borders)]
    counts = iter(counter.count(texts))
    for document, spans in zip(documents, spans_of, strict=True):
        pieces: list[Piece] = []
        for span in spans:
            length = next(counts)
            pieces += [(span, length)] if length <= size else _cut(document, span, counter, size)
        yield pieces


def _cut(document: Text, span: Span, counter: TokenCounter, size: int) -> list[Piece]:
    """The fewest parts of a span of at most `size` tokens; their lengths differ by at most one."""
    start, end = span
    text = document.text[start:end]
    length = counter.count([text])[0]
    # A single character of more tokens than a chunk stays whole.
    if length <= size or end - start == 1:
        return [(span, length)]
    count = -(-length // size)
    half = count // 2
    head = counter.cut([text], half * (length // count) + min(half, length % count))[0]
    middle = start + min(max(1, len(head)), end - start - 1)
    rest = stripped(document.text, middle, end)
    return [*_cut(document, (start, middle), counter, size), *_cut(document, rest, counter, size)]


def _balanced(pieces: Sequence[Piece], size: int) -> list[Span]:
    """The characters of the fewest runs of pieces that fit into `size`, as even as possible.

    Of all such runs, those with the smallest sum of squared lengths; of equal ones, those whose
    last run is shortest. None is longer than the longest of the runs that take as many pieces as
    fit. A piece of more than `size` tokens is a run by itself.

    Pieces of 4, 2, 2 and 1 tokens need two runs of at most 8. Filling the first one gives lengths
    8 and 1 (sum of squares 65); 6 and 3 give 45, and 4 and 5 give 41:

    >>> _balanced([((0, 9), 4), ((9, 14), 2), ((14, 19), 2), ((19, 22), 1)], 8)
    [(0, 9), (9, 22)]
    """
    lengths = [length for _, length in pieces]
    filled = grouped(zip(lengths, lengths, strict=True), size)
    longest = min(size, max(map(sum, filled)))
    # Tokens before each border between two pieces, and the first border at which a run may begin
    # that ends at this one.
    before = np.cumsum([0, *lengths])
    firsts = np.minimum(np.searchsorted(before, before - longest), np.arange(len(before)) - 1)
    # A run costs the square of its length and more than all squares can add up to, so that the
    # fewest runs cost least.
    cost_of_run = before[-1] * (size + max(lengths))
    costs = np.zeros(len(before), dtype=np.int64)
    begins = [0]
    for end in range(1, len(before)):
        first = firsts[end]
        options = costs[first:end] + (before[end] - before[first:end]) ** 2
        begins.append(end - 1 - int(options[::-1].argmin()))
        costs[end] = cost_of_run + options.min()
    runs: list[Span] = []
    end = len(pieces)
    while end:
        begin = begins[end]
        runs.append((pieces[begin][0][0], pieces[end - 1][0][1]))
        end = begin
    return runs[::-1]


def grouped(
    items: Iterable[tuple[Item, int]], room: int | None, between: int = 0
) -> list[list[Item]]:
    """Neighbouring items, given with their tokens, in groups that are filled up to `room`.

    Two items have `between` tokens between them.
    """
    groups: list[list[Item]] = []
    used = 0
    for item, length in items:
        used += between + length
        if groups and (room is None or used <= room):
            groups[-1].append(item)
        else:
            groups.append([item])
            used = length
    return groups


class ChunkEncoder(Encoder):
    """The mean of the vectors of a text's chunks, each of which another encoder embeds alone.

    With `normalise` chunks and their mean have length 1. With `by_segments` the vector of a text is
    the mean of those of its segments, whatever their lengths, each the mean of its chunks.
    """

    def __init__(
        self,
        alone: Encoder,
        counter: TokenCounter,
        size: int,
        *,
        normalise: bool = True,
        by_segments: bool = False,
        common: CommonDirection | None = None,
    ) -> None:
        """Chunks have up to `size` tokens, as `counter` counts them; means are level with `common`,
        or with what makes chunks level."""
        self.alone = alone
        self.model = alone.model
        self.common = common or alone.common
        self._level = None if common is None else common.digest
        self._counter = counter
        self._size = size
        self._normalise = normalise
        self._by_segments = by_segments
        # What `_chunks` returned for the last texts.
        self._remembered: dict[Text, list[list[Text]]] = {}
        self._characters = 0

    def parts(self, texts: Sequence[Text]) -> list[tuple[Text, ...]]:
        """The chunks of every text."""
        return [tuple(chain.from_iterable(segments)) for segments in self._chunks(texts)]

    def _chunks(self, texts: Sequence[Text]) -> list[list[list[Text]]]:
        """The chunks of each segment of every text."""
        new = {text: self._segments(text) for text in texts if text not in self._remembered}
        if new:
            self._remember(new)
        chunks = [self._remembered[text] for text in texts]
        while self._characters > _REMEMBERED:
            oldest = next(iter(self._remembered))
            self._characters -= len(oldest.text)
            del self._remembered[oldest]
        return chunks

    def _remember(self, new: Mapping[Text, list[Text]]) -> None:
        """Cut texts, given with their segments, into chunks."""
        pieces = chunk_texts(list(chain.from_iterable(new.values())), self._counter, self._size)
        lengths = iter(self._counter.count_whole(list(chain.from_iterable(pieces))))
        chunks = iter([[Text(piece, next(lengths)) for piece in row] for row in pieces])
        for text, segments in new.items():
            self._remembered[text] = [next(chunks) for _ in segments]
            self._characters += len(text.text)

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        parts = self.parts(batch)
        vectors = iter(self.alone.vectors(list(chain.from_iterable(parts))))
        return [
            self.mean(text, [next(vectors) for _ in chunks])
            for text, chunks in zip(batch, parts, strict=True)
        ]

    def mean(self, text: Text, vectors: Sequence[np.ndarray]) -> np.ndarray:
        """[d], the vector of a text, given those of its chunks."""
        (segments,) = self._chunks([text])
        borders = np.cumsum([len(segment) for segment in segments])[:-1]
        parts = np.split(np.stack(vectors), borders)
        means = np.concatenate([mean_vector(part, normalise=self._normalise) for part in parts])
        if len(means) > 1:
            means = mean_vector(means, normalise=self._normalise)
        if self.common is not None:
            # The mean of level vectors has a larger share.
            means = self.common.level(means)
        return np.asarray(means[0])

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: it depends on the chunks and on nothing else."""
        (segments,) = self._chunks([text])
        counts = str([len(segment) for segment in segments])
        keys = [self.alone.key(chunk).hex() for chunk in chain.from_iterable(segments)]
        level = [] if self._level is None else [self._level]
        return key_of("chunks", str(self._normalise), counts, *level, *keys)

    def _segments(self, text: Text) -> list[Text]:
        """What is cut into chunks on its own: the text, or each of its segments."""
        if not self._by_segments or len(text.borders) < 2:
            return [text]
        # What stands before the first border, such as a title, belongs to the first segment.
        spans = pairwise((0, *text.borders[1:], len(text.text)))
        segments = [text.text[start:end].strip() for start, end in spans]
        return [Text(segment, 0, language=text.language) for segment in segments]


def innermost(encoder: Encoder, texts: Sequence[Text]) -> tuple[Encoder, list[Text]]:
    """The encoder that runs the model, and what it embeds for these texts."""
    if isinstance(encoder, ChunkEncoder):
        return encoder.alone, list(chain.from_iterable(encoder.parts(texts)))
    return encoder, list(texts)
