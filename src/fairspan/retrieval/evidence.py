"""Tasks with the position of the evidence: own folders, positions in a corpus, and files like SQuAD's."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.jsonl import jsonl
from fairspan.corpus.rows import Fault, peek
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError, TaskError
from fairspan.retrieval.records import LAYOUTS, Record, file_in, records, unknown_layout, with_ids
from fairspan.retrieval.squad import from_contexts, read_flat, read_nested
from fairspan.retrieval.task import Asked, Evidence, Passage, Query, RetrievalTask, Span, make_task

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
    if unit not in UNITS:
        raise TaskError(f"[[unit]] must be one of {', '.join(UNITS)}, got {unit!r}.")
    corpus = None if documents is None else Path(documents).expanduser()
    try:
        return _read(Path(path).expanduser(), language, corpus, unit)
    except CorpusError as error:
        raise TaskError(error.message) from None


def has_translations(path: str | Path) -> bool:
    """Whether a task has the same questions in several languages, on the translations of a corpus."""
    layout, files = _layout(Path(path).expanduser())
    return layout == "positions" and sum(bool(stem) for stem in files) > 1


def _read(path: Path, language: str | None, documents: Path | None, unit: str) -> RetrievalTask:
    if not path.exists():
        raise TaskError(f"there is no file or folder {str(path)!r}.")
    layout, files = _layout(path)
    if documents is not None and layout != "positions":
        raise TaskError(f"{path} brings its own texts: [[documents]] is for {LAYOUTS[1]}.")
    if unit != "article" and layout in ("own", "positions"):
        raise TaskError(f"{path} defines its own documents: [[unit={unit}]] is for files like SQuAD's.")
    if layout == "own":
        return _read_own(path, files, language)
    if layout == "positions":
        return _read_positions(path, files, language, documents)
    if layout == "json":
        return from_contexts(path.name.removesuffix(".json"), read_nested(path), unit, language or "")
    return from_contexts(path.name.partition(".jsonl")[0], read_flat(path), unit, language or "")


def _layout(path: Path) -> tuple[str, dict[str, Path]]:
    """How a task is laid out, and the files of a folder: "documents" and "queries", or one for each language.

    The fields of a file say what it holds, whatever its name.
    """
    if not path.is_dir():
        if path.name.endswith(".json"):
            return "json", {}
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            fields = set(_first(path))
            if {"context", "answers"} <= fields:
                return "flat", {}
            if {"id", "text"} <= fields:
                raise _no_questions(path)
        raise unknown_layout(path)
    files = _by_stem(path)
    fields_of = {stem: set(_first(file)) for stem, file in files.items()}
    positions = {stem: files[stem] for stem, fields in fields_of.items() if "start_in_article" in fields}
    asking = [stem for stem, fields in fields_of.items() if {"query", "document", "start"} <= fields]
    texts = [stem for stem, fields in fields_of.items() if {"id", "text"} <= fields]
    if "queries" in files and "documents" in files:
        return "own", {name: files[name] for name in ("documents", "queries")}
    if len(texts) == 1 and len(asking) == 1 and texts != asking:
        return "own", {"documents": files[texts[0]], "queries": files[asking[0]]}
    if positions:
        return "positions", {**positions, **({"": files[texts[0]]} if len(texts) == 1 else {})}
    if texts and len(texts) == len(files):
        raise _no_questions(path)
    found = "; ".join(f"{files[stem].name} ({', '.join(fields_of[stem]) or 'empty'})" for stem in files)
    raise unknown_layout(path, found)


def _no_questions(path: Path) -> TaskError:
    return TaskError(
        f"{path} is a corpus, which has texts and no questions: to search pages made of it, give the task 'pages' "
        f"with [[corpus={path}]]."
    )


def _first(path: Path) -> Mapping[str, Any]:
    row, source = peek(jsonl(path))
    if row is not None:
        return row.fields
    first = next(source.rows, None)
    if isinstance(first, Fault):
        raise TaskError(f"{source.place(first.number)}: {first.message}")
    return {}


def _by_stem(folder: Path) -> dict[str, Path]:
    names = sorted(file.name.partition(".jsonl")[0] for file in folder.glob("[!.]*.jsonl*"))
    return {name: file for name in names if (file := file_in(folder, f"{name}.jsonl")) is not None}


def _passages(file: Path, language: str | None) -> dict[str, Passage]:
    documents = {}
    for id, record in with_ids(records(file), "id"):
        text, spoken = record.text("text"), record.optional("language") or language or ""
        documents[id] = Passage(id, text, spoken, _segments(record, len(text)))
    return documents


def _read_own(folder: Path, files: Mapping[str, Path], language: str | None) -> RetrievalTask:
    documents, queries = _passages(files["documents"], language), records(files["queries"])
    for_all = documents, files["documents"].name, language or ""
    asked = [_own_query(id, record, *for_all) for id, record in with_ids(queries, "id")]
    name = folder.resolve().name
    if language is None:
        return make_task(name, documents.values(), asked)
    chosen = [one for one in asked if one.query.language == language]
    if asked and not chosen:
        there = ", ".join(sorted({one.query.language for one in asked}))
        raise TaskError(f"{name} has no queries in {language!r}. Languages there: {there}.")
    others = len(asked) - len(chosen)
    notes = (f"Queries in other languages than {language!r}, left out: {others}.",) if others else ()
    return make_task(f"{name}-{language}", documents.values(), chosen, notes)


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


def _own_query(id: str, record: Record, documents: Mapping[str, Passage], file: str, language: str) -> Asked:
    text, document, start = record.text("query"), record.id("document"), record.whole("start")
    if document not in documents:
        raise record.fault(f"there is no document {document!r} in {file}.")
    answer = record.text("answer") if record.fields.get("answer") is not None else ""
    shortest = start + max(len(answer), 1)
    end = record.whole("end") if record.fields.get("end") is not None else shortest
    if end < shortest:
        raise record.fault(f"'end' is {end}, but what starts at {start} ends at {shortest} at the earliest.")
    query = Query(id, text, record.optional("language") or language, document)
    evidence = _evidence_at(record, documents[document], start, end, answer)
    gain = 1.0 if record.fields.get("gain") is None else record.fields["gain"]
    if isinstance(gain, bool) or not isinstance(gain, int | float) or not 0 < gain < math.inf:
        raise record.fault(f"'gain' must be a number above 0, got {describe(gain)}.")
    return Asked(query, evidence, answer, float(gain))


def _evidence_at(record: Record, document: Passage, start: int, end: int, answer: str) -> Evidence:
    record.require_inside(document.text, f"the document {document.id!r}", start, end, answer)
    return Evidence(document.id, start, end)


def _read_positions(
    folder: Path, files: Mapping[str, Path], language: str | None, documents: Path | None
) -> RetrievalTask:
    """Questions on a corpus, or on the one file of articles beside them, which is under an empty name."""
    name, asking = folder.resolve().name, {stem: file for stem, file in files.items() if stem}
    notes: tuple[str, ...] = ()
    if "" in files and documents is None and len(asking) == 1:
        (questions,) = asking.values()
        articles, where, spoken = _passages(files[""], language), files[""].name, language or ""
    else:
        spoken = _chosen(name, sorted(asking), language)
        corpus = Corpus.read(_articles(folder, documents), [spoken])
        articles = {id: Passage(id, corpus.text(id, spoken), spoken) for id in corpus.ids()}
        questions, where, notes = asking[spoken], f"{corpus.name} ({spoken})", corpus.notes
        name = f"{name}-{spoken}"
    borders: dict[str, set[Span]] = {id: set() for id in articles}
    asked: list[Asked] = []
    for id, record in with_ids(records(questions), "qid"):
        article, answer, start = record.id("article"), record.text("answer"), record.whole("start_in_article")
        if article not in articles:
            raise record.fault(f"there is no article {article!r} in {where}.")
        query = Query(id, record.text("question"), spoken, article)
        evidence = _evidence_at(record, articles[article], start, start + len(answer), answer)
        asked.append(Asked(query, evidence, answer))
        if "start_in_paragraph" in record.fields:
            opening = start - record.whole("start_in_paragraph")
            borders[article].add((opening, opening + record.whole("paragraph_chars")))
    passages = [replace(one, spans=one.spans or _covering(one.text, borders[one.id])) for one in articles.values()]
    unknown = sum(not one.spans for one in passages)
    note = f"Documents whose questions do not give the position of every paragraph, so none is marked: {unknown}."
    return make_task(name, passages, asked, (*notes, *([note] if unknown else [])))


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
    corpus = place.parent.parent / "corpora" / place.name.removesuffix("_positions")
    for guess in (inside, corpus):
        if guess.is_dir():
            return guess
    raise TaskError(
        f"{folder} holds questions but no articles, and neither {inside} nor {corpus} exists: name the corpus that "
        "holds them with [[documents=]]."
    )


def _covering(text: str, borders: Iterable[Span]) -> tuple[Span, ...]:
    """These spans in order if only white space is outside them; else none."""
    spans = sorted(borders)
    gaps = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    whole = all(0 <= end <= start and not text[end:start].strip() for end, start in gaps)
    return tuple(spans) if whole else ()
