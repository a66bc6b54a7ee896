"""What an index keeps of a document: one vector, or one for each of several parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.calibration.calibration import WIDEST_WINDOW
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.text import Text
from fairspan.model.averages import unit
from fairspan.retrieval.rough_tokens import in_tokens
from fairspan.retrieval.task import Passage

WHOLE = "whole"
ONE_PER_CHUNK = "parts-all"
"""A vector for every chunk that the plain model reads."""
KEYWORDS = "keywords"
"""No vectors; the treatment of such a search has the same name."""
FUSED = "fused"
"""Vectors of whole documents and keywords together."""
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
    """How many vectors an index has of a document at most; None for other words.

    >>> most_vectors("parts-4"), most_vectors("whole"), most_vectors("keywords")
    (4, 1, None)
    """
    if index == WHOLE:
        return 1
    word = index.removeprefix("parts-")
    if word == "all" and word != index:
        return ALL_PARTS
    return int(word) if word != index and word.isdecimal() and int(word) > 0 else None


def index_of(vectors: int | str) -> str:
    """The index of a document that has so many vectors, or "all"."""
    return WHOLE if str(vectors) == "1" else f"parts-{vectors}"


def index_words(index: str) -> str:
    """What an index keeps of a document.

    >>> index_words("whole"), index_words("parts-4"), index_words(ONE_PER_CHUNK)
    ('one vector per document', '4 vectors per document', 'one vector per chunk')
    """
    most = most_vectors(index)
    if most == ALL_PARTS:
        return "one vector per chunk"
    return "one vector per document" if most == 1 else f"{most} vectors per document"


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index has to embed of each document, by id."""

    kind: str
    texts: Mapping[str, tuple[Text, ...]]

    @property
    def flat(self) -> list[Text]:
        return [text for texts in self.texts.values() for text in texts]


def plan_index(
    kind: str, documents: Sequence[Passage], lengths: Mapping[str, int], counter: TokenCounter
) -> IndexPlan:
    """What an index of this kind has to embed; a whole document is cut where the model ends."""
    if kind == WHOLE:
        return IndexPlan(kind, {text.id: (_whole(text, lengths[text.id]),) for text in documents})
    tokens = in_tokens(counter)
    fits = min(tokens.window or WIDEST_WINDOW, WIDEST_WINDOW)
    rule = PartRule(most_vectors(kind))
    texts = [document.text for document in documents]
    languages = [document.language for document in documents]
    spans_of = part_spans(texts, tokens, rule, fits, languages)
    parts = [
        [document.text[slice(*span)] for span in spans]
        for document, spans in zip(documents, spans_of, strict=True)
    ]
    counts = iter(counter.count_whole([text for texts in parts for text in texts]))
    return IndexPlan(
        kind,
        {
            document.id: tuple(Text(text, next(counts)) for text in texts)
            for document, texts in zip(documents, parts, strict=True)
        },
    )


def _whole(document: Passage, length: int) -> Text:
    borders = tuple(start for start, _ in document.spans)
    return Text(document.text, length, borders=borders, language=document.language)


def assemble(vectors: np.ndarray, counts: Sequence[int], *, normalise: bool) -> Vectors:
    """An index from the vectors of its documents, one document after another."""
    owners = None if max(counts) == 1 else np.repeat(np.arange(len(counts)), counts)
    return Vectors(unit(vectors) if normalise else vectors, owners)
