"""Tasks that know where the evidence lies: own folders, positions beside a corpus, and files like SQuAD's."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.jsonl import jsonl
from fairspan.corpus.rows import Fault, _missing, peek
from fairspan.corpus.segment import _require_string, _require_text, describe
from fairspan.errors import CorpusError, TaskError
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask, Span

LAYOUTS = (
    "a folder with queries.jsonl and documents.jsonl",
    "a folder of {language}.jsonl with the fields qid, question, article, answer and start_in_article",
    "a .json file like SQuAD's",
    "a .jsonl file of such rows with the fields id, title, context, question and answers",
)
UNITS = ("article", "paragraph")


def read_evidence(
    path: str | Path, *, language: str | None = None, documents: str | Path | None = None, unit: str = "article"
) -> RetrievalTask:
    """A task whose queries know where their document answers them. `docs/tasks.md` has the layouts.

    Args:
        language: of several, the one to read; where the files name none, the one that they are in.
        documents: the corpus that holds the articles of a folder of positions.
        unit: what a document is in files like SQuAD's: the whole "article", or each "paragraph" alone.
    """
    where = Path(path).expanduser()
    if unit not in UNITS:
        raise TaskError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}.")
    try:
        return _read(where, language, None if documents is None else Path(documents).expanduser(), unit)
    except CorpusError as error:
        raise TaskError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one record, and what errors call the place where it stands."""

    place: str
    fields: Mapping[str, Any]

    def fault(self, message: str) -> TaskError:
        return TaskError(f"{self.place}: {message}")

    def value(self, field: str) -> Any:
        if field not in self.fields:
            raise self.fault(_missing(field, self.fields))
        return self.fields[field]

    def id(self, field: str) -> str:
        given = self.value(field)
        whole = isinstance(given, int) and not isinstance(given, bool)
        if not whole and not isinstance(given, str):
            raise self.fault(f"'{field}' must be text or a whole number, got {describe(given)}.")
        return str(given) if whole else self.text(field)

    def text(self, field: str) -> str:
        """A text that says something."""
        given = self.string(field)
        try:
            _require_text(field, given)
        except CorpusError as error:
            raise self.fault(str(error)) from None
        return given

    def string(self, field: str) -> str:
        """A text that may be empty."""
        try:
            return _require_string(field, self.value(field))
        except CorpusError as error:
            raise self.fault(str(error)) from None

    def optional(self, field: str) -> str:
        """A text that may also be absent or null, which are the empty one."""
        return "" if self.fields.get(field) is None else self.string(field)

    def whole(self, field: str) -> int:
        given = self.value(field)
        if isinstance(given, bool) or not isinstance(given, int):
            raise self.fault(f"'{field}' must be a whole number, got {describe(given)}.")
        return given

    def children(self, field: str) -> Iterator[Record]:
        """The objects of a list, counted from 0."""
        given = self.value(field)
        if not isinstance(given, list):
            raise self.fault(f"'{field}' must be a list of objects, got {describe(given)}.")
        for number, child in enumerate(given):
            record = Record(f"{self.place}, {field}[{number}]", child)
            if not isinstance(child, dict):
                raise record.fault(f"not an object but {describe(child)}.")
            yield record


def records(path: Path) -> Iterator[Record]:
    """The lines of a JSONL file, plain or gzipped."""
    source = jsonl(path)
    try:
        for row in source.rows:
            place = source.place(row.number)
            if isinstance(row, Fault):
                raise TaskError(f"{place}: {row.message}")
            yield Record(place, row.fields)
    except CorpusError as error:
        raise TaskError(str(error)) from None


def with_ids(found: Iterable[Record], field: str) -> Iterator[tuple[str, Record]]:
    """Each record with its id; an error if one comes twice."""
    places: dict[str, str] = {}
    for record in found:
        id = record.id(field)
        if id in places:
            raise record.fault(f"the id {id!r} was already used at {places[id]}.")
        places[id] = record.place
        yield id, record


def file_in(folder: Path, name: str) -> Path | None:
    """A file of a folder, plain or gzipped."""
    there = [file for file in (folder / name, folder / f"{name}.gz") if file.is_file()]
    if len(there) > 1:
        raise TaskError(f"{folder} has both {name} and {name}.gz: remove one.")
    return there[0] if there else None


def required_file(folder: Path, name: str) -> Path:
    file = file_in(folder, name)
    if file is None:
        raise TaskError(f"{folder} has no {name} (or {name}.gz).")
    return file


def same_texts(documents: Iterable[Passage]) -> tuple[str, ...]:
    """A note where documents share their text."""
    repeated = sum(times for times in Counter(document.text for document in documents).values() if times > 1)
    if not repeated:
        return ()
    return (f"Documents whose text another one has too, so that no search can tell them apart: {repeated}.",)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query and where it is answered; `answer` is empty where its words are not known."""

    query: Query
    evidence: Evidence
    answer: str = ""
    gain: float = 1.0


def _read(path: Path, language: str | None, documents: Path | None, unit: str) -> RetrievalTask:
    if not path.exists():
        raise TaskError(f"there is no file or folder {str(path)!r}.")
    layout = _layout(path)
    if documents is not None and layout != "positions":
        raise TaskError(f"{path} brings its own texts: documents={str(documents)!r} is for {LAYOUTS[1]}.")
    if unit != "article" and layout in ("own", "positions"):
        raise TaskError(f"{path} says itself what a document is: unit={unit!r} is for files like SQuAD's.")
    match layout:
        case "own":
            return _read_own(path, language)
        case "positions":
            return _read_positions(path, language, documents)
        case "json":
            return _from_contexts(path.name.removesuffix(".json"), _nested(path), unit, language or "")
    return _from_contexts(path.name.partition(".jsonl")[0], _flat(path), unit, language or "")


def _layout(path: Path) -> str:
    if path.is_dir():
        if file_in(path, "queries.jsonl") and file_in(path, "documents.jsonl"):
            return "own"
        if any("start_in_article" in _first(file) for file in _by_language(path).values()):
            return "positions"
    elif path.name.endswith(".json"):
        return "json"
    elif path.name.endswith((".jsonl", ".jsonl.gz")) and {"context", "answers"} <= set(_first(path)):
        return "flat"
    raise _unknown(path)


def _unknown(path: Path) -> TaskError:
    return TaskError(
        f"{path} is no task with evidence. That is {'; or '.join(LAYOUTS)}. A folder with corpus.jsonl, "
        "queries.jsonl and qrels is for read_beir."
    )


def _first(path: Path) -> Mapping[str, Any]:
    row, source = peek(jsonl(path))
    if row is not None:
        return row.fields
    first = next(source.rows, None)
    if isinstance(first, Fault):
        raise TaskError(f"{source.place(first.number)}: {first.message}")
    return {}


def _by_language(folder: Path) -> dict[str, Path]:
    names = sorted(file.name.partition(".jsonl")[0] for file in folder.glob("[!.]*.jsonl*"))
    files = {name: file_in(folder, f"{name}.jsonl") for name in names}
    return {name: file for name, file in files.items() if file is not None}


def _read_own(folder: Path, language: str | None) -> RetrievalTask:
    texts, queries = (records(required_file(folder, f"{name}.jsonl")) for name in ("documents", "queries"))
    documents = {id: _passage(id, record, language or "") for id, record in with_ids(texts, "id")}
    asked = [_own_query(id, record, documents, language or "") for id, record in with_ids(queries, "id")]
    name = folder.resolve().name
    if language is None:
        return _task(name, documents.values(), asked)
    chosen = [one for one in asked if one.query.language == language]
    if asked and not chosen:
        there = ", ".join(sorted({one.query.language for one in asked}))
        raise TaskError(f"{name} has no queries in {language!r}. Languages there: {there}.")
    others = len(asked) - len(chosen)
    notes = (f"Queries in other languages than {language!r}, left out: {others}.",) if others else ()
    return _task(f"{name}-{language}", documents.values(), chosen, notes)


def _passage(id: str, record: Record, language: str) -> Passage:
    text = record.text("text")
    return Passage(id, text, record.optional("language") or language, _segments(record, len(text)))


def _segments(record: Record, length: int) -> tuple[Span, ...]:
    given = record.fields.get("segments")
    if given is None:
        return ()
    spans: list[Span] = []
    for pair in given if isinstance(given, list) else [given]:
        numbers = isinstance(pair, list) and len(pair) == 2 and all(type(border) is int for border in pair)
        if not numbers:
            raise record.fault("'segments' must be a list of [start, end], such as [[0, 120], [121, 300]].")
        start, end = pair
        if not (spans[-1][1] if spans else 0) <= start < end <= length:
            raise record.fault(
                f"the segment [{start}, {end}] is empty, overlaps the one before or leaves the text, which has "
                f"{length} characters."
            )
        spans.append((start, end))
    return tuple(spans)


def _own_query(id: str, record: Record, documents: Mapping[str, Passage], language: str) -> _Asked:
    text, document, start = record.text("query"), record.id("document"), record.whole("start")
    if document not in documents:
        raise record.fault(f"there is no document {document!r} in documents.jsonl.")
    answer = record.text("answer") if record.fields.get("answer") is not None else ""
    shortest = start + max(len(answer), 1)
    end = record.whole("end") if record.fields.get("end") is not None else shortest
    if end < shortest:
        raise record.fault(f"'end' is {end}, but what starts at {start} ends at {shortest} at the earliest.")
    query = Query(id, text, record.optional("language") or language, document)
    evidence = _evidence(record, documents[document], start, end, answer)
    return _Asked(query, evidence, answer, _gain(record))


def _gain(record: Record) -> float:
    given = 1.0 if record.fields.get("gain") is None else record.fields["gain"]
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not 0 < given < math.inf:
        raise record.fault(f"'gain' must be a number above 0, got {describe(given)}.")
    return float(given)


def _read_positions(folder: Path, language: str | None, documents: Path | None) -> RetrievalTask:
    files = _by_language(folder)
    name = folder.resolve().name
    spoken = _chosen(name, sorted(files), language)
    corpus = Corpus.read(_articles(folder, documents), [spoken])
    articles = {id: Passage(id, corpus.text(id, spoken), spoken) for id in corpus.ids()}
    borders: dict[str, set[Span]] = {id: set() for id in articles}
    asked: list[_Asked] = []
    for id, record in with_ids(records(files[spoken]), "qid"):
        article, answer, start = record.id("article"), record.text("answer"), record.whole("start_in_article")
        if article not in articles:
            raise record.fault(f"there is no article {article!r} in {corpus.name} ({spoken}).")
        query = Query(id, record.text("question"), spoken, article)
        evidence = _evidence(record, articles[article], start, start + len(answer), answer)
        asked.append(_Asked(query, evidence, answer))
        opening = start - record.whole("start_in_paragraph")
        borders[article].add((opening, opening + record.whole("paragraph_chars")))
    passages = [Passage(one.id, one.text, spoken, _covering(one.text, borders[one.id])) for one in articles.values()]
    unknown = sum(not one.spans for one in passages)
    notes = (f"Documents whose questions do not tell where every paragraph lies, so that none is marked: {unknown}.",)
    return _task(f"{name}-{spoken}", passages, asked, (*corpus.notes, *(notes if unknown else ())))


def _chosen(name: str, languages: Sequence[str], language: str | None) -> str:
    wanted = languages[0] if language is None and len(languages) == 1 else language or "en"
    if wanted in languages:
        return wanted
    problem = f"has no {wanted!r}" if language else "needs a language"
    raise TaskError(f"{name} {problem}. Languages there: {', '.join(languages)}.")


def _articles(folder: Path, documents: Path | None) -> Path:
    if documents is not None:
        if not documents.exists():
            raise TaskError(f"there is no file or folder {str(documents)!r} to read the articles from.")
        return documents
    place = folder.resolve()
    inside = place / "documents"
    beside = place.parent.parent / "corpora" / place.name.removesuffix("_positions")
    for guess in (inside, beside):
        if guess.is_dir():
            return guess
    raise TaskError(
        f"{folder} holds questions but no articles, and neither {inside} nor {beside} is there: name the corpus that "
        "holds them with documents=…."
    )


def _covering(text: str, borders: Iterable[Span]) -> tuple[Span, ...]:
    """These spans in order, if they hold all of the text but white space between them; else none."""
    spans = sorted(borders)
    gaps = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    whole = all(0 <= end <= start and not text[end:start].strip() for end, start in gaps)
    return tuple(spans) if whole else ()


@dataclass(frozen=True, slots=True)
class _Question:
    """A question about a paragraph of an article, counted from 0."""

    record: Record
    article: str
    paragraph: int


@dataclass(frozen=True, slots=True)
class _Contexts:
    """The paragraphs of every article, and what is asked about them."""

    articles: Mapping[str, Sequence[str]]
    questions: Sequence[_Question]
    notes: tuple[str, ...] = ()


def _nested(path: Path) -> _Contexts:
    articles: dict[str, list[str]] = {}
    questions: list[_Question] = []
    for number, article in enumerate(_json(path).children("data")):
        name = article.optional("title").strip() or f"data[{number}]"
        if name in articles:
            name = f"{name} (data[{number}])"
        contexts = articles.setdefault(name, [])
        for paragraph in article.children("paragraphs"):
            contexts.append(paragraph.text("context"))
            questions += [_Question(one, name, len(contexts) - 1) for one in paragraph.children("qas")]
        if not contexts:
            raise article.fault("'paragraphs' is empty.")
    return _Contexts(articles, questions)


def _flat(path: Path) -> _Contexts:
    articles: dict[str, list[str]] = {}
    questions: list[_Question] = []
    for record in records(path):
        name, context = record.text("title"), record.text("context")
        contexts = articles.setdefault(name, [])
        if context not in contexts:
            contexts.append(context)
        questions.append(_Question(record, name, contexts.index(context)))
    note = "Articles hold the paragraphs that rows ask about, in the order in which rows first do."
    return _Contexts(articles, questions, (note,))


def _json(path: Path) -> Record:
    content = b""
    try:
        content = path.read_bytes()
        found: Any = json.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TaskError(f"{path.name}, line {line}: not UTF-8. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise TaskError(
            f"{path.name}, line {error.lineno}: not JSON ({error.msg}, character {error.colno}). A file with one "
            "object a line must be called .jsonl."
        ) from None
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path.name}: JSON that cannot be read ({error}).") from None
    if not isinstance(found, dict) or "data" not in found:
        raise _unknown(path)
    return Record(path.name, found)


def _from_contexts(name: str, found: _Contexts, unit: str, language: str) -> RetrievalTask:
    documents = [one for article, texts in found.articles.items() for one in _cut(article, texts, unit, language)]
    asked: list[_Asked] = []
    records_of_questions = with_ids((question.record for question in found.questions), "id")
    for question, (id, record) in zip(found.questions, records_of_questions, strict=True):
        answer, start = _first_answer(record)
        if not answer:
            continue
        contexts, number = found.articles[question.article], question.paragraph
        _require_inside(record, contexts[number], "the context", start, start + len(answer), answer)
        if unit == "article":
            document, opening = question.article, _joined(contexts)[number][0]
        else:
            document, opening = f"{question.article}/{number}", 0
        query = Query(id, record.text("question"), language, question.article)
        asked.append(_Asked(query, Evidence(document, opening + start, opening + start + len(answer)), answer))
    left_out = len(found.questions) - len(asked)
    notes = (f"Questions that their text does not answer, left out: {left_out}.",) if left_out else ()
    if unit == "article":
        return _task(name, documents, asked, notes + found.notes)
    return _task(f"{name}-paragraphs", documents, asked, notes)


def _cut(article: str, contexts: Sequence[str], unit: str, language: str) -> list[Passage]:
    """The documents that an article becomes."""
    if unit == "article":
        return [Passage(article, "\n".join(contexts), language, _joined(contexts))]
    return [Passage(f"{article}/{number}", context, language) for number, context in enumerate(contexts)]


def _joined(contexts: Iterable[str]) -> tuple[Span, ...]:
    """Where each lies once they are joined by one character."""
    ends = list(accumulate(len(context) + 1 for context in contexts))
    return tuple((start, end - 1) for start, end in pairwise([0, *ends]))


def _first_answer(record: Record) -> tuple[str, int]:
    """The words of the first answer and where they start; no words if the question has no answer."""
    given = None if record.fields.get("is_impossible") is True else record.value("answers")
    if not given:
        return "", 0
    if isinstance(given, dict):
        answers = Record(f"{record.place}, answers", given)
        texts, starts = answers.value("text"), answers.value("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise answers.fault("'text' and 'answer_start' must be lists of the same length.")
        if not texts:
            return "", 0
        first = Record(answers.place, {"text": texts[0], "answer_start": starts[0]})
    else:
        first = next(record.children("answers"))
    return first.text("text"), first.whole("answer_start")


def _require_inside(record: Record, text: str, what: str, start: int, end: int, answer: str) -> None:
    if not 0 <= start < end <= len(text):
        raise record.fault(f"characters {start} to {end} are not inside {what}, which has {len(text)}.")
    if not text.startswith(answer, start):
        there = text[start : start + len(answer)]
        raise record.fault(
            f"the answer {answer!r:.60} does not stand at character {start} of {what}: {there!r:.60} does."
        )


def _evidence(record: Record, document: Passage, start: int, end: int, answer: str) -> Evidence:
    _require_inside(record, document.text, f"the document {document.id!r}", start, end, answer)
    return Evidence(document.id, start, end)


def _task(
    name: str, documents: Iterable[Passage], asked: Sequence[_Asked], notes: tuple[str, ...] = ()
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


def _remarks(documents: Sequence[Passage], asked: Sequence[_Asked]) -> Iterator[str]:
    texts = {document.id: document.text for document in documents}
    unasked = len(texts.keys() - {one.evidence.document for one in asked})
    if unasked:
        yield f"Documents that no query asks for, kept in the index: {unasked} of {len(texts)}."
    repeated = sum(bool(one.answer) and texts[one.evidence.document].count(one.answer) > 1 for one in asked)
    if repeated:
        yield f"Answers that stand more than once in their document, so that another place may be meant: {repeated}."
