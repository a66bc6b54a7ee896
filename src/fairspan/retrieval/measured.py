"""`MeasuredTask`: a task in a model's own tokens."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.corpus.sentences import sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import CorpusError
from fairspan.retrieval.task import FIFTHS, Passage, Query, RetrievalTask

TOO_LONG = ("leave-out", "shorten", "cut", "error")


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

    Lengths include prompt, special tokens and what the model cuts.
    """

    task: RetrievalTask
    lengths: Mapping[str, int]
    query_lengths: Mapping[str, int]
    positions: Mapping[str, Position]


def measure_task(
    task: RetrievalTask, counter: TokenCounter, query_counter: TokenCounter, *, too_long: str
) -> MeasuredTask:
    """A task in tokens, after documents that the model does not read whole were dealt with.

    Args:
        too_long: "leave-out" omits them, and queries that only they answer; "shorten" ends them
            after the last sentence that fits, and omits queries whose evidence comes later; "cut"
            lets the model read their beginning; "error" refuses them.
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
        deep = [query for query, position in positions.items() if position.offset >= room]
        beyond = sum(task.evidence[query].document in over for query in deep)
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
    """The task after the documents `over` were dealt with."""
    reads = f"longer than the {counter.window} {counter.unit} that the model reads"
    count = f"{len(over)} of {len(task.documents)} documents are {reads}"
    if too_long == "error":
        raise CorpusError(
            f"{count}: leave them out (too_long=leave-out), keep what fits (too_long=shorten), "
            "truncate them (too_long=cut), or use a model with a longer window."
        )
    if too_long == "cut":
        return replace(task, notes=(*task.notes, f"{count}: only their beginning is read"))
    kept = _shorten(task, over, counter) if too_long == "shorten" else _leave_out(task, over)
    lost = task.evidence.keys() - kept.evidence.keys()
    queries = tuple(
        query
        for query in task.queries
        if query.id not in lost and any(gain > 0 for gain in kept.relevant[query.id].values())
    )
    if not queries:
        raise CorpusError(
            f"no query is left: every document that answers one is {reads}. Use a model with a "
            "longer window, too_long=shorten, or too_long=cut."
        )
    gone = f"{len(task.queries) - len(queries)} of {len(task.queries)} queries"
    note = f"were left out, with {gone}; what fits of them is kept if they are shortened instead"
    documents = tuple(document for document in task.documents if document.id not in over)
    if too_long == "shorten":
        documents = kept.documents
        later = f"{gone}, whose evidence comes later, were left out"
        note = f"were shortened to the sentences that fit; {later}"
    notes = (*task.notes, f"{count} and {note}")
    return replace(kept, documents=documents, queries=queries, notes=notes)


def _leave_out(task: RetrievalTask, over: set[str]) -> RetrievalTask:
    """The task in which the documents `over` answer nothing."""
    relevant = {
        query: {name: gain for name, gain in gains.items() if name not in over}
        for query, gains in task.relevant.items()
    }
    evidence = {
        query: where for query, where in task.evidence.items() if where.document not in over
    }
    return replace(task, relevant=relevant, evidence=evidence)


def _shorten(task: RetrievalTask, over: set[str], counter: TokenCounter) -> RetrievalTask:
    """The task with the beginnings of the documents `over`."""
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
    return replace(task, documents=documents, evidence=evidence)


def _that_fits(document: Passage, counter: TokenCounter) -> Passage:
    """The document to the end of the last sentence that fits; without one, to the last token."""
    text = document.text
    window = counter.window or 0
    ends = [end for _, end in sentences(text, document.language)]
    # The more sentences, the more tokens: what fits is a beginning of the list.
    fitting = bisect_right(ends, window, key=lambda end: counter.count_whole([text[:end]])[0])
    if fitting:
        length = ends[fitting - 1]
    else:
        length = len(counter.cut([text], window - counter.count_whole([""])[0])[0])
    spans = tuple((start, min(end, length)) for start, end in document.spans if start < length)
    return replace(document, text=text[:length], spans=spans)


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


def _token_ends(texts: Sequence[str], counter: TokenCounter) -> list[np.ndarray]:
    """Where each token of a text ends; every character if tokens are not shown."""
    # Imported only here, since it imports torch.
    from fairspan.encoding.tokens import ModelTokens

    if not isinstance(counter, ModelTokens):
        return [np.arange(1, len(text) + 1) for text in texts]
    offsets = counter.offsets(texts)
    return [np.sort(pairs[pairs[:, 1] > np.maximum(pairs[:, 0], 0), 1]) for pairs in offsets]
