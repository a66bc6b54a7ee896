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
    """Where evidence is: in which of `groups` segments or fifths, from 1, and how many tokens are before it.

    `depth` is None where only the fifth was given.
    """

    group: int
    groups: int
    offset: int
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task with the lengths of its texts, prompt and special tokens included, and where known evidence is; by id.

    Documents that the model cuts have their whole length.
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
        too_long: "leave-out" takes such documents and the queries that only they answer out of the task; "shorten"
            ends them after the last sentence that fits, and leaves out the queries whose evidence comes later; "cut"
            leaves them as they are, and the model reads their beginning; "error" refuses them. All but the last are
            noted.
    """
    lengths, window = _lengths(task.documents, counter), counter.window
    over = {name for name, length in lengths.items() if window is not None and length > window}
    if over:
        task = _with_less(task, over, counter, too_long)
        lengths |= _lengths(
            [document for document in task.documents if document.id in over], counter
        )
    query_lengths = _lengths(task.queries, query_counter)
    cut = sum(length > (query_counter.window or length) for length in query_lengths.values())
    notes = [
        *task.notes,
        *([f"{cut} queries are longer than the model reads and were cut"] if cut else []),
    ]
    positions = _positions(task, counter)
    room = None if window is None else window - counter.count_whole([""])[0]
    cut_off = {query for query, found in task.evidence.items() if found.document in over}
    beyond = sum(
        room is not None and positions[query].offset >= room for query in cut_off & positions.keys()
    )
    if beyond:
        notes.append(f"the evidence of {beyond} queries is beyond the model's window")
    return MeasuredTask(replace(task, notes=tuple(notes)), lengths, query_lengths, positions)


def with_short_queries(measured: MeasuredTask, counter: TokenCounter, tokens: int) -> MeasuredTask:
    """The same with no more than the first `tokens` of every query."""
    queries = measured.task.queries
    short = [
        replace(one, text=text)
        for one, text in zip(queries, counter.cut([q.text for q in queries], tokens), strict=True)
    ]
    return replace(
        measured,
        task=replace(measured.task, queries=tuple(short)),
        query_lengths=_lengths(short, counter),
    )


def _lengths(texts: Sequence[Passage | Query], counter: TokenCounter) -> dict[str, int]:
    counts = counter.count_whole([one.text for one in texts])
    return {one.id: length for one, length in zip(texts, counts, strict=True)}


def _with_less(
    task: RetrievalTask, over: set[str], counter: TokenCounter, too_long: str
) -> RetrievalTask:
    """The task after something was done about the documents `over`, and the queries that still have an answer."""
    reads = f"longer than the {counter.window} {counter.unit} that the model reads"
    said = f"{len(over)} of {len(task.documents)} documents are {reads}"
    if too_long == "error":
        raise CorpusError(
            f"{said}: leave them out (too_long=leave-out), keep what fits (too_long=shorten), truncate them "
            "(too_long=cut), or use a model with a longer window."
        )
    if too_long == "cut":
        return replace(task, notes=(*task.notes, f"{said}: only their beginning is read"))
    documents, relevant = task.documents, task.relevant
    if too_long == "leave-out":
        documents = tuple(one for one in documents if one.id not in over)
        relevant = {
            query: {name: gain for name, gain in gains.items() if name not in over}
            for query, gains in relevant.items()
        }
        evidence = {
            query: found for query, found in task.evidence.items() if found.document not in over
        }
    else:
        documents = tuple(_that_fits(one, counter) if one.id in over else one for one in documents)
        ends = {one.id: len(one.text) for one in documents}
        # A fifth that was given is of the whole document.
        evidence = {
            query: replace(found, fifth=None) if found.document in over else found
            for query, found in task.evidence.items()
            if found.end <= ends[found.document]
        }
    lost = task.evidence.keys() - evidence.keys()
    queries = tuple(
        one
        for one in task.queries
        if one.id not in lost and any(gain > 0 for gain in relevant[one.id].values())
    )
    if not queries:
        raise CorpusError(
            f"no query is left: every document that answers one is {reads}. Use a model with a longer window, "
            "too_long=shorten, or too_long=cut."
        )
    gone = f"{len(task.queries) - len(queries)} of {len(task.queries)} queries"
    note = f"were shortened to the sentences that fit; {gone}, whose evidence comes later, were left out"
    if too_long == "leave-out":
        note = (
            f"were left out, with {gone}; what fits of them is kept if they are shortened instead"
        )
    notes = (*task.notes, f"{said} and {note}")
    return replace(
        task,
        documents=documents,
        queries=queries,
        relevant=relevant,
        evidence=evidence,
        notes=notes,
    )


def _that_fits(document: Passage, counter: TokenCounter) -> Passage:
    """The document to the end of the last sentence that fits; to the last token if it has no sentence so short."""
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
    documents = {document.id: document for document in task.documents}
    wanted = list(dict.fromkeys(found.document for found in task.evidence.values()))
    ends = dict(
        zip(wanted, _token_ends([documents[name] for name in wanted], counter), strict=True)
    )
    positions = {}
    for query in (query.id for query in task.queries if query.id in task.evidence):
        found = task.evidence[query]
        document, tokens = documents[found.document], ends[found.document]
        offset = int(np.searchsorted(tokens, found.start, side="right"))
        if task.lead:
            group, groups = document.spans.index((found.start, found.end)), len(document.spans)
        elif found.fifth is not None:
            group, groups = found.fifth, FIFTHS
        else:
            group, groups = min(FIFTHS - 1, FIFTHS * offset // max(1, len(tokens))), FIFTHS
        positions[query] = Position(
            group + 1, groups, offset, offset if found.fifth is None else None
        )
    return positions


def _token_ends(documents: Sequence[Passage], counter: TokenCounter) -> list[np.ndarray]:
    """Where each token of a document's own text ends; every character where the model shows no tokens."""
    from fairspan.encoding.tokens import (
        ModelTokens,
    )  # not before there is a model: it imports torch

    if not isinstance(counter, ModelTokens):
        return [np.arange(1, len(document.text) + 1) for document in documents]
    offsets = counter.offsets([document.text for document in documents])
    return [np.sort(found[found[:, 1] > np.maximum(found[:, 0], 0), 1]) for found in offsets]
