"""What an index holds of a document: one vector of the whole, or vectors of its chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.design.lengths import TokenCounter
from fairspan.encoding.chunks import chunk_documents, grouped, room_of
from fairspan.encoding.text import Text
from fairspan.model.averages import mean_vector, unit
from fairspan.retrieval.task import Passage, Span

INDEXES = ("whole", "chunk-mean", "chunk-max", "late-max")
"""One vector of the document; the mean of its chunks' vectors, each embedded alone; and a vector for each chunk, of
which the best counts: embedded alone, or pooled from one pass over the document."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """An index: vectors [V, d] in float32, and the number of each one's document [V]; None if all have one vector."""

    vectors: np.ndarray
    owners: np.ndarray | None


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index has to embed of each document by id: whole texts or chunks; spans where chunks are pooled."""

    kind: str
    texts: Mapping[str, tuple[Text, ...]]

    @property
    def tokens(self) -> int:
        return sum(text.length for text in self.flat)

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
    """What `kind` has to embed of these documents, given their lengths as the model reads them, and the chunks'.

    Where a document is longer than the model reads, its whole vector is that of its beginning; chunks cover all.
    """
    if kind == "whole":
        return IndexPlan(kind, {one.id: (_whole(one, lengths[one.id]),) for one in documents})
    made: dict[str, list[Text]] = {}
    texts = [Text(one.text, 0, language=one.language) for one in documents]
    for one, chunks in zip(documents, chunk_documents(texts, counter, size), strict=True):
        if kind == "late-max":
            made[one.id] = _passes(one, chunks, lengths[one.id], counter)
        else:
            made[one.id] = [Text(one.text[slice(*chunk)], 0) for chunk in chunks]
    counts = iter(counter.count_whole([text.text for own in made.values() for text in own]))
    return IndexPlan(
        kind,
        {id: tuple(replace(text, length=next(counts)) for text in own) for id, own in made.items()},
    )


def _whole(document: Passage, length: int) -> Text:
    return Text(document.text, length, (), _borders(document), document.language)


def _passes(
    document: Passage, chunks: Sequence[Span], length: int, counter: TokenCounter
) -> list[Text]:
    """A document with its chunks as spans, in as few texts as the model can read it in; not counted yet."""
    if counter.window is None or length <= counter.window:
        return [Text(document.text, 0, tuple(chunks), _borders(document), document.language)]
    sizes, found = counter.count([document.text[slice(*span)] for span in chunks]), []
    # One token more for the white space between chunks.
    for run in grouped(zip(chunks, sizes, strict=True), room_of(counter), between=1):
        first, last = run[0][0], run[-1][1]
        spans = tuple((start - first, end - first) for start, end in run)
        found.append(Text(document.text[first:last], 0, spans, language=document.language))
    return found


def assemble(
    kind: str, found: Sequence[Sequence[np.ndarray]], dimension: int, *, normalise: bool
) -> Vectors:
    """An index from the stored vectors of each document's texts, in which vectors of spans share one row."""
    own = [
        np.concatenate([vector.reshape(-1, dimension) for vector in vectors]) for vectors in found
    ]
    if kind.endswith("mean"):
        own = [mean_vector(vectors, normalise=normalise) for vectors in own]
    elif normalise:
        own = [unit(vectors) for vectors in own]
    counts = [len(vectors) for vectors in own]
    owners = None if max(counts) == 1 else np.repeat(np.arange(len(own)), counts)
    return Vectors(np.concatenate(own), owners)


def _borders(document: Passage) -> tuple[int, ...]:
    return tuple(start for start, _ in document.spans)
