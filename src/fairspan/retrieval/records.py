"""Records of files: their fields, and their place as errors name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairspan.corpus.rows import Fault, id_of, read_lines, text_of
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one record, and its place as errors name it."""

    place: str
    fields: Mapping[str, Any]

    def fault(self, message: str) -> CorpusError:
        return CorpusError(f"{self.place}: {message}")

    def has(self, field: str) -> bool:
        """Whether a field is there and not null."""
        return self.fields.get(field) is not None

    def id(self, field: str) -> str:
        return self._checked(id_of, field)

    def text(self, field: str, *, empty: bool = False) -> str:
        """A text; one of white space only if `empty`."""
        return self._checked(partial(text_of, empty=empty), field)

    def optional(self, field: str) -> str:
        """A text, empty where it is absent or null."""
        return self.text(field, empty=True) if self.has(field) else ""

    def whole(self, field: str) -> int:
        given = self.fields.get(field)
        if isinstance(given, bool) or not isinstance(given, int):
            raise self.fault(f"'{field}' must be a whole number, got {describe(given)}.")
        return given

    def child(self, field: str) -> Record:
        """An object of fields, without any where it is absent or null."""
        given = self.fields.get(field) or {}
        if not isinstance(given, dict):
            raise self.fault(f"'{field}' must be an object, got {describe(given)}.")
        return Record(f"{self.place}, {field}", given)

    def _checked(self, check: Callable[[Mapping[str, Any], str], str], field: str) -> str:
        try:
            return check(self.fields, field)
        except CorpusError as error:
            raise self.fault(str(error)) from None

    def require_inside(
        self, text: str, document: str, start: int, end: int, answer: str = ""
    ) -> None:
        if not 0 <= start < end <= len(text):
            raise self.fault(
                f"characters {start} to {end} are not inside the document {document!r}, which has {len(text)}."
            )
        if not text.startswith(answer, start):
            there = text[start : start + len(answer)]
            raise self.fault(
                f"the answer {answer!r:.60} is not at character {start} of the document {document!r}; found "
                f"{there!r:.60}."
            )


def records(path: Path) -> Iterator[Record]:
    """The lines of a JSONL file, plain or gzipped."""
    for row, _ in read_lines(path.name, path):
        if isinstance(row, Fault):
            raise CorpusError(str(row))
        yield Record(row.place, row.fields)


def with_ids(
    found: Iterable[Record], field: str, *, optional: bool = False
) -> Iterator[tuple[str, Record]]:
    """Each record with its id, or its place if it has none and need not; an error if one comes twice."""
    places: dict[str, str] = {}
    for record in found:
        id = record.place if optional and not record.has(field) else record.id(field)
        if id in places:
            raise record.fault(f"the id {id!r} was already used at {places[id]}.")
        places[id] = record.place
        yield id, record


def file_in(folder: Path, name: str) -> Path | None:
    """A file of a folder, plain or gzipped."""
    there = [file for file in (folder / name, folder / f"{name}.gz") if file.is_file()]
    if len(there) > 1:
        raise CorpusError(f"{folder} has both {name} and {name}.gz: remove one.")
    return there[0] if there else None


def required_file(folder: Path, name: str) -> Path:
    file = file_in(folder, name)
    if file is None:
        raise CorpusError(f"{folder} has no {name} (or {name}.gz).")
    return file
