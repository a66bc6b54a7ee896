"""Tasks in BEIR's layout, with the metadata of `docs/evaluate.md`."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairspan.corpus.files import decode, lines
from fairspan.corpus.sentences import Span
from fairspan.errors import CorpusError
from fairspan.retrieval.entries import Entry, entries_by_id
from fairspan.retrieval.task import (
    FIFTHS,
    Evidence,
    Passage,
    Query,
    RetrievalTask,
    same_texts,
)

_HEADERS = ("query-id", "query_id", "qid")


def read_beir(
    folder: Path, *, split: str | None = None, language: str | None = None
) -> RetrievalTask:
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/{split}.tsv`; each may be gzipped.

    The split is the only one, or "test", unless it is named. Only queries with a relevant document
    in the split are taken, and none in another `language`, which is that of texts whose metadata
    name none.
    """
    corpus_file = _file_in(folder, "corpus.jsonl")
    query_file = _file_in(folder, "queries.jsonl")
    usual = language or ""
    documents = {id: _document(id, entry, usual) for id, entry in entries_by_id(corpus_file, "_id")}
    entries = dict(entries_by_id(query_file, "_id"))
    texts = {id: document.passage.text for id, document in documents.items()}
    qrels = _qrels(folder, split)
    judged, notes = _read_judgements(qrels, texts, entries.keys())
    queries = []
    evidence = {}
    other_languages = set[str]()
    for id, entry in entries.items():
        if id not in judged:
            continue
        query_language = entry.child("metadata").optional("language") or usual
        if language is not None and query_language != language:
            other_languages.add(query_language)
            continue
        cluster, position = _evidence(entry, judged[id], documents)
        queries.append(Query(id, entry.text("text"), query_language, cluster))
        if position is not None:
            evidence[id] = position
    if other_languages and not queries:
        listed = ", ".join(sorted(other_languages))
        raise CorpusError(f"{folder} has no queries in {language!r}. Languages there: {listed}.")
    passages = tuple(document.passage for document in documents.values() if document.passage.text)
    counts = {
        "Documents without any text, left out of the index": len(documents) - len(passages),
        f"Queries not in {language!r}, left out": len(judged) - len(queries),
    }
    return RetrievalTask(
        f"{folder.resolve().name}-{qrels.name.partition('.tsv')[0]}",
        tuple(queries),
        passages,
        relevant={query.id: judged[query.id] for query in queries},
        evidence=evidence,
        notes=(*_count_notes(counts), *notes, *same_texts(passages)),
    )


@dataclass(frozen=True, slots=True)
class _Document:
    """A document, and the text of its entry, which begins at character `shift` of the passage."""

    passage: Passage
    text: str
    shift: int


def _document(id: str, entry: Entry, language: str) -> _Document:
    """The document of an entry: its title, a space and its text."""
    title = entry.optional("title")
    text = entry.text("text", empty=True)
    metadata = entry.child("metadata")
    joined = f"{title} {text}"
    shift = len(title) + 1 - (len(joined) - len(joined.lstrip()))
    spans = tuple((start + shift, end + shift) for start, end in _segments(metadata, len(text)))
    passage = Passage(id, joined.strip(), metadata.optional("language") or language, spans)
    return _Document(passage, text, shift)


def _segments(metadata: Entry, length: int) -> list[Span]:
    """The characters of each segment of a text of this length, in order."""
    spans: list[Span] = []
    listed = metadata.fields.get("segments") or []
    for pair in listed if isinstance(listed, list) else [listed]:
        is_pair = isinstance(pair, list) and [type(border) for border in pair] == [int, int]
        last_end = spans[-1][1] if spans else 0
        if not is_pair or not last_end <= pair[0] < pair[1] <= length:
            raise metadata.fault(
                "'segments' must list [start, end] of segments one after the other inside the "
                f"text, which has {length} characters, such as [[0, 120], [121, 300]]; "
                f"got {pair!r:.40}."
            )
        spans.append((pair[0], pair[1]))
    return spans


def _evidence(
    entry: Entry, gains: Mapping[str, float], documents: Mapping[str, _Document]
) -> tuple[str, Evidence | None]:
    """The cluster of a query, which is the document with its evidence, and where that is."""
    metadata = entry.child("metadata")
    if not any(map(metadata.has, ("start", "segment", "fifth"))):
        return "", None
    name = min(gains, key=lambda id: (-gains[id], id))
    if metadata.has("document"):
        name = metadata.id("document")
        if name not in gains:
            raise metadata.fault(
                f"'document' is {name!r}, which does not answer the query: {', '.join(gains)} does."
            )
    document = documents[name]
    fifth = _fifth(metadata)
    if metadata.has("start"):
        start = metadata.whole("start")
        answer = metadata.optional("answer")
        end = metadata.whole("end") if metadata.has("end") else start + max(len(answer), 1)
        metadata.require_inside(document.text, name, start, end, answer)
        return name, Evidence(name, start + document.shift, end + document.shift, fifth)
    if metadata.has("segment"):
        number = metadata.whole("segment")
        spans = document.passage.spans
        if not 0 <= number < len(spans):
            has = f"the document {name!r} has {len(spans)}, counted from 0"
            raise metadata.fault(f"'segment' is {number}, and {has}.")
        return name, Evidence(name, *spans[number], fifth)
    if fifth is None:
        return name, None
    middle = len(document.passage.text) * (2 * fifth + 1) // (2 * FIFTHS)
    return name, Evidence(name, middle, middle + 1, fifth, exact=False)


def _fifth(metadata: Entry) -> int | None:
    """The fifth from 0; None if it is not known."""
    if not metadata.has("fifth"):
        return None
    fifth = metadata.whole("fifth")
    if not -1 <= fifth < FIFTHS:
        raise metadata.fault(
            f"'fifth' must be from 0 to {FIFTHS - 1}, or -1 where it is not known, got {fifth}."
        )
    return None if fifth < 0 else fifth


def _read_judgements(
    qrels: Path, texts: Mapping[str, str], queries: Collection[str]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """The gains of documents by query, and notes."""
    relevant: dict[str, dict[str, float]] = {}
    scores: dict[tuple[str, str], float] = {}
    without_text = 0
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
            before = scores[query, document]
            if before != score:
                raise CorpusError(f"{place}: the score is {score:g}, but {before:g} before.")
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
            without_text += 1
    if not scores:
        raise CorpusError(f"qrels/{qrels.name} holds no judgements.")
    unanswered = {query for query, _ in scores} - relevant.keys()
    counts = {
        "Judgements of documents without any text as relevant, dropped": without_text,
        "Judged queries without a relevant document, left out": len(unanswered),
    }
    return relevant, _count_notes(counts)


def _count_notes(counts: Mapping[str, int]) -> list[str]:
    return [f"{what}: {count}." for what, count in counts.items() if count]


def _judgement(line: str) -> tuple[str, str, float]:
    """The query, the document and its score."""
    columns = [column.strip() for column in line.split("\t" if "\t" in line else None)]
    if len(columns) not in (3, 4) or not all(columns):
        filled = sum(map(bool, columns))
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


def _file_in(folder: Path, name: str) -> Path:
    files = [file for file in (folder / name, folder / f"{name}.gz") if file.is_file()]
    if len(files) > 1:
        raise CorpusError(f"{folder} has both {name} and {name}.gz: remove one.")
    if not files:
        raise CorpusError(f"{folder} has no {name} (or {name}.gz).")
    return files[0]


def _qrels(folder: Path, split: str | None) -> Path:
    """The judgements of a split: by default the only one, or "test"."""
    splits = sorted({path.name.partition(".tsv")[0] for path in folder.glob("qrels/*.tsv*")})
    chosen = split or (splits[0] if len(splits) == 1 else "test")
    if chosen not in splits:
        listed = ", ".join(splits) or "none"
        hint = f" Name one, such as {folder}/qrels/{splits[0]}.tsv." if splits else ""
        raise CorpusError(f"{folder} has no qrels/{chosen}.tsv. Splits there: {listed}.{hint}")
    return _file_in(folder / "qrels", f"{chosen}.tsv")
