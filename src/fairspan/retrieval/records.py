"""Records of files: their fields, and their place as errors name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.corpus.jsonl import jsonl
from fairspan.corpus.rows import Fault, missing_field
from fairspan.corpus.segment import describe, require_string, require_text
from fairspan.errors import CorpusError, TaskError

LAYOUTS = (
    "a folder with a JSONL file of documents (id, text) and one of queries (id, query, document, start)",
    "a folder of {language}.jsonl with the fields qid, question, article, answer and start_in_article",
    "a .json file like SQuAD's",
    "a .jsonl file of such rows with the fields id, title, context, question and answers",
)


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one record, and its place as errors name it."""

    place: str
    fields: Mapping[str, Any]

    def fault(self, message: str) -> TaskError:
        return TaskError(f"{self.place}: {message}")

    def value(self, field: str) -> Any:
        if field not in self.fields:
            raise self.fault(missing_field(field, self.fields))
        return self.fields[field]

    def id(self, field: str) -> str:
        given = self.value(field)
        if isinstance(given, str):
            return self.text(field)
        if isinstance(given, bool) or not isinstance(given, int):
            raise self.fault(f"'{field}' must be text or a whole number, got {describe(given)}.")
        return str(given)

    def text(self, field: str, *, empty: bool = False) -> str:
        """A text; one of white space only if `empty`."""
        try:
            given = require_string(field, self.value(field))
            if not empty:
                require_text(field, given)
        except CorpusError as error:
            raise self.fault(error.message) from None
        return given

    def optional(self, field: str) -> str:
        """A text, empty where it is absent or null."""
        return "" if self.fields.get(field) is None else self.text(field, empty=True)

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

    def require_inside(self, text: str, what: str, start: int, end: int, answer: str) -> None:
        if not 0 <= start < end <= len(text):
            raise self.fault(f"characters {start} to {end} are not inside {what}, which has {len(text)}.")
        if not text.startswith(answer, start):
            there = text[start : start + len(answer)]
            raise self.fault(f"the answer {answer!r:.60} is not at character {start} of {what}; found {there!r:.60}.")


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
        raise TaskError(error.message) from None


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


def unknown_layout(path: Path, found: str = "") -> TaskError:
    there = f" Files and their fields there: {found}." if found else ""
    return TaskError(
        f"{path} is no task with evidence. That is {'; or '.join(LAYOUTS)}. A BEIR folder has corpus.jsonl, "
        f"queries.jsonl and a folder qrels.{there}"
    )
