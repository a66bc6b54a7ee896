"""Questions with the place of their answer, and the task they make."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairspan.errors import TaskError
from fairspan.retrieval.records import Record
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask

LAYOUTS = (
    "a folder with queries.jsonl and documents.jsonl",
    "a folder of {language}.jsonl with the fields qid, question, article, answer and start_in_article",
    "a .json file like SQuAD's",
    "a .jsonl file of such rows with the fields id, title, context, question and answers",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query and where it is answered; `answer` is empty where its words are not known."""

    query: Query
    evidence: Evidence
    answer: str = ""
    gain: float = 1.0


def require_inside(record: Record, text: str, what: str, start: int, end: int, answer: str) -> None:
    if not 0 <= start < end <= len(text):
        raise record.fault(f"characters {start} to {end} are not inside {what}, which has {len(text)}.")
    if not text.startswith(answer, start):
        there = text[start : start + len(answer)]
        raise record.fault(
            f"the answer {answer!r:.60} does not stand at character {start} of {what}: {there!r:.60} does."
        )


def evidence_at(record: Record, document: Passage, start: int, end: int, answer: str) -> Evidence:
    require_inside(record, document.text, f"the document {document.id!r}", start, end, answer)
    return Evidence(document.id, start, end)


def make_task(
    name: str, documents: Iterable[Passage], asked: Sequence[Asked], notes: tuple[str, ...] = ()
) -> RetrievalTask:
    passages = tuple(documents)
    return RetrievalTask(
        name,
        queries=tuple(one.query for one in asked),
        documents=passages,
        relevant={one.query.id: {one.evidence.document: one.gain} for one in asked},
        evidence={one.query.id: one.evidence for one in asked},
        notes=(*notes, *_remarks(passages, asked), *same_texts(passages)),
    )


def _remarks(documents: Sequence[Passage], asked: Sequence[Asked]) -> Iterator[str]:
    texts = {document.id: document.text for document in documents}
    unasked = len(texts.keys() - {one.evidence.document for one in asked})
    if unasked:
        yield f"Documents that no query asks for, kept in the index: {unasked} of {len(texts)}."
    repeated = sum(bool(one.answer) and texts[one.evidence.document].count(one.answer) > 1 for one in asked)
    if repeated:
        yield f"Answers that stand more than once in their document, so that another place may be meant: {repeated}."


def same_texts(documents: Iterable[Passage]) -> tuple[str, ...]:
    """A note where documents share their text."""
    repeated = sum(times for times in Counter(document.text for document in documents).values() if times > 1)
    if not repeated:
        return ()
    return (f"Documents whose text another one has too, so that no search can tell them apart: {repeated}.",)


def unknown_layout(path: Path) -> TaskError:
    return TaskError(
        f"{path} is no task with evidence. That is {'; or '.join(LAYOUTS)}. A folder with corpus.jsonl, "
        "queries.jsonl and qrels is for read_beir."
    )
