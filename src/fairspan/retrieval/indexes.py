"""What an index holds of a document: one vector of the whole, or vectors of its chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.corpus.sentences import Span
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_documents, grouped, room_of
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.text import Text
from fairspan.model.averages import mean_vector, unit
from fairspan.retrieval.rough_tokens import in_tokens
from fairspan.retrieval.task import Passage

INDEXES = ("whole", "chunk-mean", "chunk-max", "late-max", "parts-K")
"""One vector of the document; the mean of its chunks' vectors, each embedded alone; a vector for
each chunk, of which the best counts: embedded alone, or pooled from one pass over the document; and
a vector for each of at most K parts of equal length, or of as many as it takes ("parts-all")."""
ONE_PER_CHUNK = "parts-all"
ALL_PARTS = 2**31 - 1
"""The most vectors of an index that has as many as it takes."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """An index: vectors [V, d] in float32, and the number of each one's document [V].

    `owners` is None if every document has one vector.
    """

    vectors: np.ndarray
    owners: np.ndarray | None


def most_vectors(index: str) -> int | None:
    """How many vectors an index has of a document at most; None for chunks, and for other words.

    >>> most_vectors("parts-4"), most_vectors("whole"), most_vectors("late-max")
    (4, 1, None)
    """
    if index == "whole":
        return 1
    word = index.removeprefix("parts-")
    if word == "all" and word != index:
        return ALL_PARTS
    return int(word) if word != index and word.isdecimal() and int(word) > 0 else None


def index_of(vectors: int | str) -> str:
    """The index of a document that has so many vectors, or "all"."""
    return "whole" if str(vectors) == "1" else f"parts-{vectors}"


def index_words(index: str) -> str:
    """What an index keeps of a document.

    >>> index_words("whole"), index_words("parts-4"), index_words(ONE_PER_CHUNK)
    ('one vector per document', '4 vectors per document', 'one vector per chunk')
    """
    most = most_vectors(index)
    if most == ALL_PARTS:
        return "one vector per chunk"
    if most == 1:
        return "one vector per document"
    return index if most is None else f"{most} vectors per document"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index has to embed of each document by id; with spans where chunks are pooled."""

    kind: str
    texts: Mapping[str, tuple[Text, ...]]

    @property
    def flat(self) -> list[Text]:
        return [text for texts in self.texts.values() for text in texts]


def plan_index(
    kind: str,
    documents: Sequence[Passage],
    lengths: Mapping[str, int],
    counter: TokenCounter,
    size: int | str,
) -> IndexPlan:
    """What an index of this kind has to embed of documents, with chunks of at most `size` tokens.

    The whole vector of a document longer than the model reads is that of its beginning; chunks
    cover all of it.
    """
    if kind == "whole":
        wholes = {text.id: (_whole(text, lengths[text.id]),) for text in documents}
        return IndexPlan(kind, wholes)
    planned: dict[str, list[Text]] = {}
    texts = [Text(document.text, 0, language=document.language) for document in documents]
    most = most_vectors(kind)
    if most is not None:
        tokens = in_tokens(counter)
        fits = min(tokens.window or WIDEST_WINDOW, WIDEST_WINDOW)
        chunked = part_spans([text.text for text in texts], tokens, PartRule(most), fits)
    else:
        chunked = chunk_documents(texts, counter, size)
    for document, chunks in zip(documents, chunked, strict=True):
        if kind == "late-max":
            planned[document.id] = _passes(document, chunks, lengths[document.id], counter)
        else:
            planned[document.id] = [Text(document.text[slice(*chunk)], 0) for chunk in chunks]
    counts = iter(counter.count_whole([text.text for parts in planned.values() for text in parts]))
    counted = {}
    for id, parts in planned.items():
        counted[id] = tuple(replace(text, length=next(counts)) for text in parts)
    return IndexPlan(kind, counted)


def _whole(document: Passage, length: int, spans: tuple[Span, ...] = ()) -> Text:
    borders = tuple(start for start, _ in document.spans)
    return Text(document.text, length, spans, borders, document.language)


def _passes(
    document: Passage, chunks: Sequence[Span], length: int, counter: TokenCounter
) -> list[Text]:
    """A document with its chunks as spans, in as few texts as the model can read; not counted."""
    if counter.window is None or length <= counter.window:
        return [_whole(document, 0, tuple(chunks))]
    sizes = counter.count([document.text[slice(*span)] for span in chunks])
    passes = []
    # One token more for the white space between chunks.
    for run in grouped(zip(chunks, sizes, strict=True), room_of(counter), between=1):
        first = run[0][0]
        last = run[-1][1]
        spans = tuple((start - first, end - first) for start, end in run)
        passes.append(Text(document.text[first:last], 0, spans, language=document.language))
    return passes


def assemble(
    kind: str, stored: Sequence[Sequence[np.ndarray]], dimension: int, *, normalise: bool
) -> Vectors:
    """An index from the stored vectors of each document's texts; those of spans share one row."""
    documents = [
        np.concatenate([vector.reshape(-1, dimension) for vector in vectors]) for vectors in stored
    ]
    if kind.endswith("mean"):
        documents = [mean_vector(vectors, normalise=normalise) for vectors in documents]
    elif normalise:
        documents = [unit(vectors) for vectors in documents]
    counts = [len(vectors) for vectors in documents]
    owners = None if max(counts) == 1 else np.repeat(np.arange(len(documents)), counts)
    return Vectors(np.concatenate(documents), owners)
