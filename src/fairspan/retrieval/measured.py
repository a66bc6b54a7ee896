"""`MeasuredTask`: a task in a model's own tokens."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.corpus.sentences import sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import CorpusError
from fairspan.retrieval.task import FIFTHS, Evidence, Passage, Query, RetrievalTask

TOO_LONG = ("leave-out", "shorten", "cut", "error")

Kept = tuple[tuple[Passage, ...], Mapping[str, Mapping[str, float]], Mapping[str, Evidence]]
"""Documents, and what is relevant and where by query."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where evidence is: in which of `groups` segments or fifths, from 1, after `offset` tokens.

    `depth` is the offset, or None where only the fifth was given.
    """

    group: int
    groups: int
    offset: int
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task with the lengths of its texts and the positions of known evidence, by id.

    Lengths include prompt and special tokens. Documents that the model cuts have their whole
    length.
    """

    task: RetrievalTask
    lengths: Mapping[str, int]
    query_lengths: Mapping[str, int]
    positions: Mapping[str, Position]


def measure_task(
    task: RetrievalTask, counter: TokenCounter, query_counter: TokenCounter, *, too_long: str
) -> MeasuredTask:
    """Count a task's texts, and deal with documents that the model does not read whole.

    Args:
        too_long: "leave-out" takes such documents and the queries that only they answer out of the
            task; "shorten" ends them after the last sentence that fits, and leaves out the queries
            whose evidence comes later; "cut" leaves them as they are, and the model reads their
            beginning; "error" refuses them. All but the last are noted.
    """
    lengths = _lengths(task.documents, counter)
    window = counter.window
    over = {name for name, length in lengths.items() if window is not None and length > window}
    if over:
        task = _with_less(task, over, counter, too_long)
        lengths |= _lengths([text for text in task.documents if text.id in over], counter)
    query_lengths = _lengths(task.queries, query_counter)
    notes = [*task.notes]
    cut = sum(length > (query_counter.window or length) for length in query_lengths.values())
    if cut:
        notes.append(f"{cut} queries are longer than the model reads and were cut")
    positions = _positions(task, counter)
    if window is not None:
        room = window - counter.count_whole([""])[0]
        offsets = [
            position.offset
            for query, position in positions.items()
            if task.evidence[query].document in over
        ]
        beyond = sum(offset >= room for offset in offsets)
        if beyond:
            notes.append(f"the evidence of {beyond} queries is beyond the model's window")
    return MeasuredTask(replace(task, notes=tuple(notes)), lengths, query_lengths, positions)


def with_short_queries(measured: MeasuredTask, counter: TokenCounter, tokens: int) -> MeasuredTask:
    """The same with no more than the first `tokens` of every query."""
    queries = measured.task.queries
    texts = counter.cut([query.text for query in queries], tokens)
    short = tuple(replace(query, text=text) for query, text in zip(queries, texts, strict=True))
    task = replace(measured.task, queries=short)
    return replace(measured, task=task, query_lengths=_lengths(short, counter))


def _lengths(texts: Sequence[Passage | Query], counter: TokenCounter) -> dict[str, int]:
    counts = counter.count_whole([text.text for text in texts])
    return {text.id: length for text, length in zip(texts, counts, strict=True)}


def _with_less(
    task: RetrievalTask, over: set[str], counter: TokenCounter, too_long: str
) -> RetrievalTask:
    """The task after the documents `over` were dealt with, and the queries that have an answer."""
    reads = f"longer than the {counter.window} {counter.unit} that the model reads"
    count = f"{len(over)} of {len(task.documents)} documents are {reads}"
    if too_long == "error":
        raise CorpusError(
            f"{count}: leave them out (too_long=leave-out), keep what fits (too_long=shorten), "
            "truncate them (too_long=cut), or use a model with a longer window."
        )
    if too_long == "cut":
        return replace(task, notes=(*task.notes, f"{count}: only their beginning is read"))
    shortened = too_long == "shorten"
    keep = _shorten if shortened else _leave_out
    documents, relevant, evidence = keep(task, over, counter)
    lost = task.evidence.keys() - evidence.keys()
    queries = tuple(
        query
        for query in task.queries
        if query.id not in lost and any(gain > 0 for gain in relevant[query.id].values())
    )
    if not queries:
        raise CorpusError(
            f"no query is left: every document that answers one is {reads}. Use a model with a "
            "longer window, too_long=shorten, or too_long=cut."
        )
    gone = f"{len(task.queries) - len(queries)} of {len(task.queries)} queries"
    note = f"were left out, with {gone}; what fits of them is kept if they are shortened instead"
    if shortened:
        note = (
            "were shortened to the sentences that fit; "
            f"{gone}, whose evidence comes later, were left out"
        )
    notes = (*task.notes, f"{count} and {note}")
    return replace(
        task,
        documents=documents,
        queries=queries,
        relevant=relevant,
        evidence=evidence,
        notes=notes,
    )


def _leave_out(task: RetrievalTask, over: set[str], _: TokenCounter) -> Kept:
    """What the task has without the documents `over`."""
    documents = tuple(document for document in task.documents if document.id not in over)
    relevant = {
        query: {name: gain for name, gain in gains.items() if name not in over}
        for query, gains in task.relevant.items()
    }
    evidence = {
        query: where for query, where in task.evidence.items() if where.document not in over
    }
    return documents, relevant, evidence


def _shorten(task: RetrievalTask, over: set[str], counter: TokenCounter) -> Kept:
    """What the task has with the beginnings of the documents `over`."""
    documents = tuple(
        _that_fits(document, counter) if document.id in over else document
        for document in task.documents
    )
    ends = {document.id: len(document.text) for document in documents}
    # A fifth that was given is of the whole document.
    evidence = {
        query: replace(where, fifth=None) if where.document in over else where
        for query, where in task.evidence.items()
        if where.end <= ends[where.document]
    }
    return documents, task.relevant, evidence


def _that_fits(document: Passage, counter: TokenCounter) -> Passage:
    """The document to the end of the last sentence that fits; without one, to the last token."""
    window = counter.window or 0
    ends = [end for _, end in sentences(document.text, document.language)]
    # The more sentences, the more tokens: what fits is a beginning of the list.
    fitting = bisect_right(
        ends, window, key=lambda end: counter.count_whole([document.text[:end]])[0]
    )
    if fitting:
        text = document.text[: ends[fitting - 1]]
    else:
        text = counter.cut([document.text], window - counter.count_whole([""])[0])[0]
    spans = tuple(
        (start, min(end, len(text))) for start, end in document.spans if start < len(text)
    )
    return replace(document, text=text, spans=spans)


def _positions(task: RetrievalTask, counter: TokenCounter) -> dict[str, Position]:
    """The position of every query's evidence, where that is known."""
    documents = {document.id: document for document in task.documents}
    wanted = list(dict.fromkeys(where.document for where in task.evidence.values()))
    ends = dict(
        zip(wanted, _token_ends([documents[name] for name in wanted], counter), strict=True)
    )
    positions = {}
    for query in (query.id for query in task.queries if query.id in task.evidence):
        where = task.evidence[query]
        tokens = ends[where.document]
        offset = int(np.searchsorted(tokens, where.start, side="right"))
        if task.lead:
            spans = documents[where.document].spans
            number = spans.index((where.start, where.end))
            positions[query] = Position(number + 1, len(spans), offset, offset)
        elif where.fifth is not None:
            positions[query] = Position(where.fifth + 1, FIFTHS, offset)
        else:
            fifth = min(FIFTHS - 1, FIFTHS * offset // max(1, len(tokens)))
            positions[query] = Position(fifth + 1, FIFTHS, offset, offset)
    return positions


def _token_ends(documents: Sequence[Passage], counter: TokenCounter) -> list[np.ndarray]:
    """Where each token of a document's own text ends; every character if tokens are not shown."""
    # Imported only here, since it imports torch.
    from fairspan.encoding.tokens import ModelTokens

    if not isinstance(counter, ModelTokens):
        return [np.arange(1, len(document.text) + 1) for document in documents]
    offsets = counter.offsets([document.text for document in documents])
    return [np.sort(pairs[pairs[:, 1] > np.maximum(pairs[:, 0], 0), 1]) for pairs in offsets]
