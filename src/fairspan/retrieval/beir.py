"""Tasks in BEIR's layout: a corpus, queries, and judgements by split."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairspan.corpus.jsonl import decode, lines
from fairspan.errors import CorpusError, TaskError
from fairspan.retrieval.records import Record, file_in, records, required_file, with_ids
from fairspan.retrieval.task import Passage, Query, RetrievalTask, same_texts

_HEADERS = ("query-id", "query_id", "qid")


def read_beir(path: str | Path, *, split: str = "test") -> RetrievalTask:
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/{split}.tsv`; each may be gzipped.

    Only queries with a relevant document in the split are taken.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise TaskError(f"there is no folder {str(path)!r}.")
    corpus, asked = (required_file(folder, name) for name in ("corpus.jsonl", "queries.jsonl"))
    qrels = _qrels(folder, split)
    judgements = [_judgement(place, line) for place, line in _lines(qrels)]
    if not judgements:
        raise TaskError(f"qrels/{qrels.name} holds no judgements.")
    texts = {
        id: f"{record.optional('title')} {record.text('text', empty=True)}".strip()
        for id, record in with_ids(records(corpus), "_id")
    }
    of_queries = dict(with_ids(records(asked), "_id"))
    relevant, remarks = _judge(judgements, texts, of_queries)
    queries = tuple(Query(id, record.text("text")) for id, record in of_queries.items() if id in relevant)
    documents = tuple(Passage(id, text) for id, text in texts.items() if text)
    empty = len(texts) - len(documents)
    notes = (f"Documents without any text, left out of the index: {empty}.",) if empty else ()
    notes = (*notes, *remarks, *same_texts(documents))
    return RetrievalTask(f"{folder.resolve().name}-{split}", queries, documents, relevant, notes=notes)


@dataclass(frozen=True, slots=True)
class _Judgement:
    place: str
    query: str
    document: str
    score: float


def _judge(
    judgements: Sequence[_Judgement], texts: Mapping[str, str], queries: Mapping[str, Record]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The gains by query, and notes on what is not used."""
    relevant: dict[str, dict[str, float]] = {}
    unreadable: list[str] = []
    strangers = 0
    once = _once(judgements)
    for one in once:
        if one.score <= 0:
            strangers += one.query not in queries or one.document not in texts
            continue
        for what, id, known, file in (
            ("query", one.query, queries, "queries.jsonl"),
            ("document", one.document, texts, "corpus.jsonl"),
        ):
            if id not in known:
                raise TaskError(f"{one.place}: there is no {what} {id!r} in {file}.")
        if texts[one.document]:
            relevant.setdefault(one.query, {})[one.document] = one.score
        else:
            unreadable.append(one.query)
    lost = set(unreadable) - relevant.keys()
    counts = {
        "Judgements of documents without any text as relevant, dropped": len(unreadable),
        "Queries that lose all their relevant documents by this, left out": len(lost),
        "Judged queries without a relevant document, left out": len({one.query for one in once} - {*relevant, *lost}),
        "Duplicate judgements, used once": len(judgements) - len(once),
        "Judgements as not relevant whose query or document is not there, passed over": strangers,
    }
    return relevant, [f"{what}: {count}." for what, count in counts.items() if count]


def _once(judgements: Sequence[_Judgement]) -> list[_Judgement]:
    first: dict[tuple[str, str], _Judgement] = {}
    for one in judgements:
        before = first.setdefault((one.query, one.document), one)
        if before.score != one.score:
            raise TaskError(f"{one.place}: the score is {one.score:g}, but {before.score:g} at {before.place}.")
    return list(first.values())


def _qrels(folder: Path, split: str) -> Path:
    file = file_in(folder / "qrels", f"{split}.tsv")
    if file is None:
        there = sorted({one.name.partition(".tsv")[0] for one in folder.glob("qrels/*.tsv*")})
        raise TaskError(f"{folder} has no qrels/{split}.tsv. Splits there: {', '.join(there) or 'none'}.")
    return file


def _judgement(place: str, line: str) -> _Judgement:
    columns = [column.strip() for column in (line.split("\t") if "\t" in line else line.split())]
    if len(columns) not in (3, 4) or not all(columns):
        filled = sum(bool(column) for column in columns)
        raise TaskError(f"{place}: expected 3 columns (query-id, corpus-id, score) or TREC's 4, got {filled}.")
    query, *_, document, score = columns
    try:
        gain = float(score)
    except ValueError:
        gain = math.nan
    if not math.isfinite(gain):
        raise TaskError(f"{place}: the score must be a number, got {score!r:.40}.")
    return _Judgement(place, query, document, gain)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not empty, after a header if there is one, each with its place."""
    label = f"qrels/{path.name}"
    try:
        for number, content in lines(path, label):
            place = f"{label}, line {number}"
            try:
                line = decode(content)
            except CorpusError as error:
                raise TaskError(f"{place}: {error.message}") from None
            header = number == 1 and line.partition("\t")[0].strip() in _HEADERS
            if line.strip() and not header:
                yield place, line
    except CorpusError as error:
        raise TaskError(error.message) from None
