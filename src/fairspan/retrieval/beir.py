"""Tasks in BEIR's layout: a corpus, queries, and judgements by split; and XQuAD with positions.

Metadata may say more: of a document its language and segments, of a query its language and where its evidence is.
`docs/tasks.md` has the fields.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.rows import decode, lines
from fairspan.errors import CorpusError
from fairspan.retrieval.records import Record, file_in, records, required_file, with_ids
from fairspan.retrieval.task import (
    FIFTHS,
    Evidence,
    Passage,
    Query,
    RetrievalTask,
    Span,
    make_task,
    same_texts,
)

_HEADERS = ("query-id", "query_id", "qid")
_POSITION = ("start", "segment", "fifth")


def read_beir(folder: Path, *, split: str = "test", language: str | None = None) -> RetrievalTask:
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/{split}.tsv`; each may be gzipped.

    Only queries with a relevant document in the split are taken.

    Args:
        language: of the texts whose metadata name none; queries in another one are left out.
    """
    corpus, asked = (required_file(folder, name) for name in ("corpus.jsonl", "queries.jsonl"))
    found = {
        id: _document(id, record, language or "") for id, record in with_ids(records(corpus), "_id")
    }
    of_queries = dict(with_ids(records(asked), "_id"))
    texts = {id: one.passage.text for id, one in found.items()}
    relevant, remarks = _judge(_qrels(folder, split), texts, of_queries)
    queries, evidence, others = [], {}, set[str]()
    for id, record in of_queries.items():
        if id not in relevant:
            continue
        spoken = record.child("metadata").optional("language") or language or ""
        if language is not None and spoken != language:
            others.add(spoken)
            continue
        cluster, where = _evidence(record, relevant[id], found)
        queries.append(Query(id, record.text("text"), spoken, cluster))
        if where is not None:
            evidence[id] = where
    if others and not queries:
        raise CorpusError(
            f"{folder} has no queries in {language!r}. Languages there: {', '.join(sorted(others))}."
        )
    documents = tuple(one.passage for one in found.values() if one.passage.text)
    counts = {
        "Documents without any text, left out of the index": len(found) - len(documents),
        f"Queries not in {language!r}, left out": len(relevant) - len(queries),
    }
    notes = (
        *(f"{what}: {count}." for what, count in counts.items() if count),
        *remarks,
        *same_texts(documents),
    )
    relevant = {query.id: relevant[query.id] for query in queries}
    name = f"{folder.resolve().name}-{split}"
    return RetrievalTask(name, tuple(queries), documents, relevant, evidence, notes=notes)


@dataclass(frozen=True, slots=True)
class _Document:
    """A document with the text of its record, whose characters are `shift` further on in that of the passage."""

    passage: Passage
    text: str
    shift: int


def _document(id: str, record: Record, language: str) -> _Document:
    title, text, metadata = (
        record.optional("title"),
        record.text("text", empty=True),
        record.child("metadata"),
    )
    joined = f"{title} {text}"
    shift = len(title) + 1 - (len(joined) - len(joined.lstrip()))
    spans = tuple((start + shift, end + shift) for start, end in _segments(metadata, len(text)))
    passage = Passage(id, joined.strip(), metadata.optional("language") or language, spans)
    return _Document(passage, text, shift)


def _segments(metadata: Record, length: int) -> list[Span]:
    spans: list[Span] = []
    given = metadata.fields.get("segments") or []
    for pair in given if isinstance(given, list) else [given]:
        numbers = (
            isinstance(pair, list)
            and len(pair) == 2
            and all(type(border) is int for border in pair)
        )
        if not numbers or not (spans[-1][1] if spans else 0) <= pair[0] < pair[1] <= length:
            raise metadata.fault(
                f"'segments' must list [start, end] of segments one after the other inside the text, which has "
                f"{length} characters, such as [[0, 120], [121, 300]]; got {pair!r:.40}."
            )
        spans.append((pair[0], pair[1]))
    return spans


def _evidence(
    record: Record, gains: Mapping[str, float], documents: Mapping[str, _Document]
) -> tuple[str, Evidence | None]:
    """The cluster of a query, and where its evidence is. Queries about one document are not independent."""
    metadata = record.child("metadata")
    if not any(map(metadata.has, _POSITION)):
        return "", None
    document = min(gains, key=lambda id: (-gains[id], id))
    if metadata.has("document"):
        document = metadata.id("document")
        if document not in gains:
            raise metadata.fault(
                f"'document' is {document!r}, which does not answer the query: {', '.join(gains)} does."
            )
    found, fifth = documents[document], None
    if metadata.has("fifth"):
        fifth = metadata.whole("fifth")
        if not -1 <= fifth < FIFTHS:
            raise metadata.fault(
                f"'fifth' must be from 0 to {FIFTHS - 1}, or -1 where it is not known, got {fifth}."
            )
        fifth = None if fifth < 0 else fifth
    if metadata.has("start"):
        start, answer = metadata.whole("start"), metadata.optional("answer")
        end = metadata.whole("end") if metadata.has("end") else start + max(len(answer), 1)
        metadata.require_inside(found.text, document, start, end, answer)
        return document, Evidence(document, start + found.shift, end + found.shift, fifth)
    if metadata.has("segment"):
        number, spans = metadata.whole("segment"), found.passage.spans
        if not 0 <= number < len(spans):
            raise metadata.fault(
                f"'segment' is {number}, and the document {document!r} has {len(spans)}, counted from 0."
            )
        return document, Evidence(document, *spans[number], fifth)
    if fifth is None:
        return document, None
    middle = len(found.passage.text) * (2 * fifth + 1) // (2 * FIFTHS)
    return document, Evidence(document, middle, middle + 1, fifth)


def _judge(
    qrels: Path, texts: Mapping[str, str], queries: Mapping[str, Record]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The gains by query, and notes on what is not used."""
    relevant: dict[str, dict[str, float]] = {}
    scores: dict[tuple[str, str], float] = {}
    unreadable = 0
    for number, content, _ in lines(qrels):
        place = f"qrels/{qrels.name}, line {number}"
        try:
            line = decode(content)
            if not line.strip() or (number == 1 and line.partition("\t")[0].strip() in _HEADERS):
                continue
            query, document, score = _judgement(line)
        except CorpusError as error:
            raise CorpusError(f"{place}: {error}") from None
        if (query, document) in scores:
            if scores[query, document] != score:
                raise CorpusError(
                    f"{place}: the score is {score:g}, but {scores[query, document]:g} before."
                )
            continue
        scores[query, document] = score
        if score <= 0:
            continue
        if query not in queries:
            raise CorpusError(f"{place}: there is no query {query!r} in queries.jsonl.")
        if document not in texts:
            raise CorpusError(f"{place}: there is no document {document!r} in corpus.jsonl.")
        if texts[document]:
            relevant.setdefault(query, {})[document] = score
        else:
            unreadable += 1
    if not scores:
        raise CorpusError(f"qrels/{qrels.name} holds no judgements.")
    counts = {
        "Judgements of documents without any text as relevant, dropped": unreadable,
        "Judged queries without a relevant document, left out": len(
            {query for query, _ in scores} - relevant.keys()
        ),
    }
    return relevant, [f"{what}: {count}." for what, count in counts.items() if count]


def _qrels(folder: Path, split: str) -> Path:
    file = file_in(folder / "qrels", f"{split}.tsv")
    if file is None:
        there = sorted({one.name.partition(".tsv")[0] for one in folder.glob("qrels/*.tsv*")})
        raise CorpusError(
            f"{folder} has no qrels/{split}.tsv. Splits there: {', '.join(there) or 'none'}."
        )
    return file


def _judgement(line: str) -> tuple[str, str, float]:
    """The query, the document and the score."""
    columns = [column.strip() for column in (line.split("\t") if "\t" in line else line.split())]
    if len(columns) not in (3, 4) or not all(columns):
        filled = sum(bool(column) for column in columns)
        raise CorpusError(
            f"expected 3 columns (query-id, corpus-id, score) or TREC's 4, got {filled}."
        )
    query, *_, document, score = columns
    try:
        gain = float(score)
    except ValueError:
        gain = math.nan
    if not math.isfinite(gain):
        raise CorpusError(f"the score must be a number, got {score!r:.40}.")
    return query, document, gain


def files_of_positions(folder: Path) -> dict[str, Path]:
    """The file of each language of a folder of XQuAD with positions; none of another folder."""
    files = {file: next(records(file), None) for file in sorted(folder.glob("[!.]*.jsonl"))}
    return {
        file.stem: file
        for file, first in files.items()
        if first is not None and first.has("start_in_article")
    }


def read_positions(file: Path, language: str) -> RetrievalTask:
    """The questions of one language, on the articles of the corpus that belongs to their folder."""
    folder = file.resolve().parent
    inside, beside = (
        folder / "documents",
        folder.parent.parent / "corpora" / folder.name.removesuffix("_positions"),
    )
    place = next((one for one in (inside, beside) if one.is_dir()), None)
    if place is None:
        raise CorpusError(
            f"{folder} has questions but no articles: put the corpus that has them into {inside}."
        )
    corpus = Corpus.read(place, [language])
    texts = {id: corpus.text(id, language) for id in corpus.ids()}
    paragraphs: dict[str, set[Span]] = {id: set() for id in texts}
    asked = []
    for id, record in with_ids(records(file), "qid"):
        article, answer, start = (
            record.id("article"),
            record.text("answer"),
            record.whole("start_in_article"),
        )
        if article not in texts:
            raise record.fault(f"there is no article {article!r} in {corpus.name} ({language}).")
        record.require_inside(texts[article], article, start, start + len(answer), answer)
        opening = start - record.whole("start_in_paragraph")
        paragraphs[article].add((opening, opening + record.whole("paragraph_chars")))
        query = Query(id, record.text("question"), language, article)
        asked.append((query, Evidence(article, start, start + len(answer))))
    passages = [
        Passage(id, text, language, tuple(sorted(paragraphs[id]))) for id, text in texts.items()
    ]
    return make_task(f"{folder.name}-{language}", passages, asked, corpus.notes)
