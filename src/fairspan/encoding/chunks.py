"""Chunks of documents: runs of whole sentences, the windows in which they are read, and the mean of their vectors."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import TaskError


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
        raise TaskError(f"[[chunk_tokens]] must be at least 1{limit}, got {size}.")
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
    made: np.ndarray = (vectors / np.maximum(lengths, 1e-30)).astype(np.float32)
    return made


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
