"""Files like SQuAD's: articles as lists of contexts, each with its questions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from fairspan.errors import TaskError
from fairspan.retrieval.records import Record, records, unknown_layout, with_ids
from fairspan.retrieval.task import Asked, Evidence, Passage, Query, RetrievalTask, Span, make_task


@dataclass(frozen=True, slots=True)
class _Contexts:
    """The paragraphs of every article, and each question with its article and the number of its paragraph."""

    articles: Mapping[str, Sequence[str]]
    questions: Sequence[tuple[Record, str, int]]
    notes: tuple[str, ...] = ()


def read_nested(path: Path) -> _Contexts:
    articles: dict[str, list[str]] = {}
    questions: list[tuple[Record, str, int]] = []
    for number, article in enumerate(_json(path).children("data")):
        name = article.optional("title").strip() or f"data[{number}]"
        if name in articles:
            name = f"{name} (data[{number}])"
        contexts = articles.setdefault(name, [])
        for paragraph in article.children("paragraphs"):
            contexts.append(paragraph.text("context"))
            questions += [(one, name, len(contexts) - 1) for one in paragraph.children("qas")]
        if not contexts:
            raise article.fault("'paragraphs' is empty.")
    return _Contexts(articles, questions)


def read_flat(path: Path) -> _Contexts:
    articles: dict[str, list[str]] = {}
    questions: list[tuple[Record, str, int]] = []
    for record in records(path):
        name, context = record.text("title"), record.text("context")
        contexts = articles.setdefault(name, [])
        if context not in contexts:
            contexts.append(context)
        questions.append((record, name, contexts.index(context)))
    note = "Articles hold the paragraphs that rows ask about, in the order in which rows first do."
    return _Contexts(articles, questions, (note,))


def from_contexts(name: str, found: _Contexts, unit: str, language: str) -> RetrievalTask:
    documents = [one for article, texts in found.articles.items() for one in _cut(article, texts, unit, language)]
    asked: list[Asked] = []
    ids = with_ids((record for record, *_ in found.questions), "id")
    for (_, article, number), (id, record) in zip(found.questions, ids, strict=True):
        answer, start = _first_answer(record)
        if not answer:
            continue
        contexts = found.articles[article]
        record.require_inside(contexts[number], "the context", start, start + len(answer), answer)
        document, opening = f"{article}/{number}", 0
        if unit == "article":
            document, opening = article, _joined(contexts)[number][0]
        query = Query(id, record.text("question"), language, article)
        asked.append(Asked(query, Evidence(document, opening + start, opening + start + len(answer)), answer))
    left_out = len(found.questions) - len(asked)
    notes = (f"Questions that their text does not answer, left out: {left_out}.",) if left_out else ()
    if unit == "article":
        return make_task(name, documents, asked, notes + found.notes)
    return make_task(f"{name}-paragraphs", documents, asked, notes)


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
            "object per line must be called .jsonl."
        ) from None
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path.name}: JSON that cannot be read ({error}).") from None
    if not isinstance(found, dict) or "data" not in found:
        raise unknown_layout(path)
    return Record(path.name, found)


def _cut(article: str, contexts: Sequence[str], unit: str, language: str) -> list[Passage]:
    """The documents that an article becomes."""
    if unit == "article":
        return [Passage(article, "\n".join(contexts), language, _joined(contexts))]
    return [Passage(f"{article}/{number}", context, language) for number, context in enumerate(contexts)]


def _joined(contexts: Iterable[str]) -> tuple[Span, ...]:
    """The characters of each after they are joined by one character."""
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
