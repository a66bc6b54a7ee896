"""What an index holds of a document: one vector of the whole, or vectors of its chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.design.lengths import TokenCounter
from fairspan.encoding.encoder import Text
from fairspan.retrieval.chunks import chunk_documents, windows
from fairspan.retrieval.task import Passage, Span

INDEXES = {
    "whole": "one vector of the whole document",
    "chunk-mean": "the mean of the vectors of its chunks, each embedded alone",
    "chunk-max": "a vector for each chunk, embedded alone; the best one counts",
    "late-mean": "the mean of its chunks' vectors, each pooled from one pass over the document",
    "late-max": "a vector for each chunk, pooled from one pass over the document; the best one counts",
}


@dataclass(frozen=True, slots=True)
class Vectors:
    """An index in memory.

    Attributes:
        vectors: [V, d], float32.
        owners: [V], the number of the document that each belongs to; None where every document has one.
    """

    vectors: np.ndarray
    owners: np.ndarray | None

    @property
    def bytes(self) -> int:
        return int(self.vectors.nbytes)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The texts that an index of one kind has to embed, document by document.

    Attributes:
        texts: for each document by id, whole texts or chunks; with spans where chunks are pooled from them.
    """

    kind: str
    texts: Mapping[str, tuple[Text, ...]]

    @property
    def tokens(self) -> int:
        """What has to be read."""
        return sum(text.length for texts in self.texts.values() for text in texts)

    @property
    def flat(self) -> list[Text]:
        return [text for texts in self.texts.values() for text in texts]


def plan_index(
    kind: str, documents: Sequence[Passage], lengths: Mapping[str, int], counter: TokenCounter, chunk_tokens: int
) -> IndexPlan:
    """What `kind` has to embed of these documents, given their lengths as the model reads them.

    Where a document is longer than the model reads, its whole vector is that of its beginning; chunks cover all.
    """
    if kind == "whole":
        return IndexPlan(
            kind,
            {one.id: (Text(one.text, lengths[one.id], borders=_borders(one)),) for one in documents},
        )
    chunked = chunk_documents(documents, counter, chunk_tokens)
    if kind.startswith("chunk"):
        pieces = [[one.text[slice(*span)] for span in spans] for one, spans in zip(documents, chunked, strict=True)]
        counts = iter(counter.count_whole([piece for own in pieces for piece in own]))
        return IndexPlan(
            kind,
            {
                one.id: tuple(Text(piece, next(counts)) for piece in own)
                for one, own in zip(documents, pieces, strict=True)
            },
        )
    return _plan_late(kind, documents, chunked, lengths, counter)


def _plan_late(
    kind: str,
    documents: Sequence[Passage],
    chunked: Sequence[Sequence[Span]],
    lengths: Mapping[str, int],
    counter: TokenCounter,
) -> IndexPlan:
    read: dict[str, list[tuple[str, tuple[Span, ...], tuple[int, ...]]]] = {}
    for one, chunks in zip(documents, chunked, strict=True):
        if counter.window is None or lengths[one.id] <= counter.window:
            read[one.id] = [(one.text, tuple(chunks), _borders(one))]
            continue
        sizes = counter.count([one.text[slice(*span)] for span in chunks])
        read[one.id] = [
            (one.text[part[0][0] : part[-1][1]], tuple((a - part[0][0], b - part[0][0]) for a, b in part), ())
            for part in windows(chunks, sizes, counter)
        ]
    counts = iter(counter.count_whole([text for parts in read.values() for text, *_ in parts]))
    return IndexPlan(
        kind,
        {
            name: tuple(Text(text, next(counts), spans, borders) for text, spans, borders in parts)
            for name, parts in read.items()
        },
    )


def assemble(kind: str, found: Sequence[Sequence[np.ndarray]], dimension: int, *, normalise: bool) -> Vectors:
    """The index of documents of which each text's vector, or its spans' vectors in one row, were found.

    Args:
        found: for each document in order the stored vectors of its texts.
        normalise: whether the model compares by cosine.
    """
    own = [np.concatenate([vector.reshape(-1, dimension) for vector in vectors]) for vectors in found]
    if normalise:
        own = [_unit(vectors) for vectors in own]
    if kind.endswith("mean"):
        own = [vectors.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32) for vectors in own]
        own = [_unit(vectors) for vectors in own] if normalise else own
    counts = [len(vectors) for vectors in own]
    owners = None if max(counts) == 1 else np.repeat(np.arange(len(own)), counts)
    return Vectors(np.concatenate(own), owners)


def _borders(document: Passage) -> tuple[int, ...]:
    return tuple(start for start, _ in document.spans)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit: np.ndarray = (vectors / np.maximum(lengths, 1e-30)).astype(np.float32)
    return unit
