"""Chunks of documents: runs of whole sentences, the windows in which they are read, and the mean of their vectors."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

import numpy as np

from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.text import DerivedEncoder, Encoder, Text, key_of
from fairspan.errors import CorpusError


class Written(Protocol):
    """What can be cut into sentences."""

    @property
    def text(self) -> str: ...
    @property
    def language(self) -> str: ...


def chunk_documents(documents: Sequence[Written], counter: TokenCounter, size: int) -> list[list[Span]]:
    """The characters of every document's chunks: as many whole sentences as fit into `size` tokens.

    A sentence that is longer than a chunk is cut between tokens. Together the chunks hold every sentence.
    """
    room = room_of(counter)
    if size < 1 or (room is not None and size > room):
        limit = "" if room is None else f" and at most {room}, which is what the model reads"
        raise CorpusError(f"chunk_tokens must be at least 1{limit}, got {size}.")
    found = [sentences(document.text, document.language) for document in documents]
    counts = iter(counter.count([text for pair in zip(documents, found, strict=True) for text in _read(*pair)]))
    chunked = []
    for document, spans in zip(documents, found, strict=True):
        pieces: list[tuple[Span, int]] = []
        for span in spans:
            length = next(counts)
            pieces += [(span, length)] if length <= size else _cut(document.text, span, counter, size)
        chunked.append([(own[0][0], own[-1][1]) for own in _grouped(pieces, size)])
    return chunked


def windows(chunks: Sequence[Span], lengths: Sequence[int], counter: TokenCounter) -> list[list[Span]]:
    """Neighbouring chunks that the model can read in one pass, given the tokens of each.

    A document that fits is one window. Of a longer one every chunk is read together with as many neighbours as
    fit.
    """
    # One token more for the white space between chunks.
    return _grouped(zip(chunks, lengths, strict=True), room_of(counter), between=1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [V, d] at length 1."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-30), dtype=np.float32)


def mean_vector(vectors: np.ndarray, *, normalise: bool) -> np.ndarray:
    """[1, d], the mean of the vectors [V, d] of a document's chunks; `normalise` sets these and it to length 1."""
    mean = (unit(vectors) if normalise else vectors).mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32)
    return unit(mean) if normalise else mean


def room_of(counter: TokenCounter) -> int | None:
    """How many tokens of its own a text may have to be read whole; None if nothing is known of a limit."""
    return None if counter.window is None else counter.window - counter.count_whole([""])[0]


def _read(document: Written, spans: Sequence[Span]) -> list[str]:
    """Each sentence with the white space before it, which is read too where sentences are put together."""
    ends = [spans[0][0], *(end for _, end in spans)] if spans else []
    return [document.text[before:end] for before, (_, end) in zip(ends, spans, strict=False)]


def _cut(text: str, span: Span, counter: TokenCounter, size: int) -> list[tuple[Span, int]]:
    start, end = span
    pieces = []
    while start < end:
        head = counter.cut([text[start:end]], size)[0]
        # A single character of more tokens than a chunk stays whole.
        stop = start + max(1, len(head))
        pieces.append(((start, stop), counter.count([text[start:stop]])[0]))
        start = stop + len(text[stop:end]) - len(text[stop:end].lstrip())
    return pieces


def _grouped(pieces: Iterable[tuple[Span, int]], room: int | None, between: int = 0) -> list[list[Span]]:
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

    Chunks are runs of whole sentences of at most `size` in the unit of the counter. A text of one chunk is its own
    mean. With `normalise` chunks and their mean have length 1. With `by_segments` the vector of a text is the mean of
    those of its segments, whatever their lengths, and that of a segment is the mean of its chunks.
    """

    def __init__(
        self, alone: Encoder, counter: TokenCounter, size: int, *, normalise: bool = True, by_segments: bool = False
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
            [segment.text[slice(*span)] for span in spans] or [segment.text]
            for segment, spans in zip(segments, cut, strict=True)
        ]
        lengths = iter(self._counter.count_whole([piece for own in pieces for piece in own]))
        chunks = iter(tuple(Text(piece, next(lengths)) for piece in own) for own in pieces)
        self._known |= {text: [next(chunks) for _ in own] for text, own in unknown.items()}
        return [tuple(chain.from_iterable(self._known[text])) for text in texts]

    def combine(self, texts: Sequence[Text], vectors: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        means = []
        for text, own in zip(texts, vectors, strict=True):
            borders = np.cumsum([len(segment) for segment in self._known[text]])[:-1]
            segments = [self._mean(part) for part in np.split(np.stack(own), borders)]
            means.append((self._mean(np.concatenate(segments)) if len(segments) > 1 else segments[0])[0])
        return means

    def key(self, text: Text) -> bytes:
        """Where the vector of a text is stored: it depends on the chunks and on nothing else."""
        (own,) = self.parts([text])
        counts = str([len(segment) for segment in self._known[text]])
        return key_of("chunks", str(self._normalise), counts, *(self.alone.key(chunk).hex() for chunk in own))

    def _mean(self, vectors: np.ndarray) -> np.ndarray:
        return mean_vector(vectors, normalise=self._normalise)

    def _segments(self, text: Text) -> list[Text]:
        """What is cut into chunks on its own: the text, or each of its segments."""
        if not self._by_segments or len(text.borders) < 2:
            return [text]
        ends = (*text.borders[1:], len(text.text))
        return [
            Text(text.text[start:end].strip(), 0, language=text.language)
            for start, end in zip(text.borders, ends, strict=True)
        ]
