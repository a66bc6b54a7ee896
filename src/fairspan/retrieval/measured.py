"""`MeasuredTask`: a task in a model's own tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.design.lengths import TokenCounter
from fairspan.retrieval.task import FIFTHS, Passage, Query, RetrievalTask


@dataclass(frozen=True, slots=True)
class Position:
    """Where evidence is: in which fifth of its document, from 1, after `offset` tokens.

    `depth` is the offset, or None where only the fifth was given.
    """

    fifth: int
    offset: int
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task with the lengths of its texts and the positions of known evidence, by id.

    Lengths include the prompt, special tokens and what the model truncates.
    """

    task: RetrievalTask
    lengths: Mapping[str, int]
    query_lengths: Mapping[str, int]
    positions: Mapping[str, Position]


def measure_task(
    task: RetrievalTask, counter: TokenCounter, query_counter: TokenCounter
) -> MeasuredTask:
    """A task in the tokens of a model."""
    query_lengths = _lengths(task.queries, query_counter)
    cut = sum(length > (query_counter.window or length) for length in query_lengths.values())
    if cut:
        note = f"{cut:,} queries are longer than the model reads and were cut"
        task = replace(task, notes=(*task.notes, note))
    lengths = _lengths(task.documents, counter)
    return MeasuredTask(task, lengths, query_lengths, _positions(task, counter))


def _lengths(texts: Sequence[Passage | Query], counter: TokenCounter) -> dict[str, int]:
    counts = counter.count_whole([text.text for text in texts])
    return {text.id: length for text, length in zip(texts, counts, strict=True)}


def _positions(task: RetrievalTask, counter: TokenCounter) -> dict[str, Position]:
    """The position of every query's evidence, where that is known."""
    documents = {document.id: document for document in task.documents}
    wanted = list(dict.fromkeys(where.document for where in task.evidence.values()))
    texts = [documents[name].text for name in wanted]
    ends = dict(zip(wanted, _token_ends(texts, counter), strict=True))
    positions = {}
    for query in (query.id for query in task.queries if query.id in task.evidence):
        where = task.evidence[query]
        tokens = ends[where.document]
        offset = int(np.searchsorted(tokens, where.start, side="right"))
        fifth = where.fifth
        if fifth is None:
            fifth = min(FIFTHS - 1, FIFTHS * offset // max(1, len(tokens)))
        positions[query] = Position(fifth + 1, offset, offset if where.exact else None)
    return positions


def _token_ends(texts: Sequence[str], counter: TokenCounter) -> list[np.ndarray]:
    """Where each token of a text ends; every character if tokens are not shown."""
    # Imported only here, since it imports torch.
    from fairspan.encoding.tokens import ModelTokens

    if not isinstance(counter, ModelTokens):
        return [np.arange(1, len(text) + 1) for text in texts]
    offsets = counter.offsets(texts)
    return [np.sort(pairs[pairs[:, 1] > np.maximum(pairs[:, 0], 0), 1]) for pairs in offsets]
