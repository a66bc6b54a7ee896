"""`Entry`: one object of a JSONL file, with checked fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.corpus.files import read_lines
from fairspan.corpus.record import id_of, text_of
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of an object, and its place as errors name it."""

    place: str
    fields: Mapping[str, Any]

    def fault(self, message: str) -> CorpusError:
        return CorpusError(f"{self.place}: {message}")

    def has(self, field: str) -> bool:
        """Whether a field is there and not null."""
        return self.fields.get(field) is not None

    def id(self, field: str) -> str:
        try:
            return id_of(self.fields, field)
        except CorpusError as error:
            raise self.fault(str(error)) from None

    def text(self, field: str, *, empty: bool = False) -> str:
        """A text; one of white space only if `empty`."""
        try:
            return text_of(self.fields, field, empty=empty)
        except CorpusError as error:
            raise self.fault(str(error)) from None

    def optional(self, field: str) -> str:
        """A text, empty where it is absent or null."""
        return self.text(field, empty=True) if self.has(field) else ""

    def whole(self, field: str) -> int:
        value = self.fields.get(field)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(f"'{field}' must be a whole number, got {describe(value)}.")
        return value

    def child(self, field: str) -> Entry:
        """An object inside this one, without fields where it is absent or null."""
        value = self.fields.get(field) or {}
        if not isinstance(value, dict):
            raise self.fault(f"'{field}' must be an object, got {describe(value)}.")
        return Entry(f"{self.place}, {field}", value)

    def require_inside(
        self, text: str, document: str, start: int, end: int, answer: str = ""
    ) -> None:
        """Raise unless these characters are in a document's text and the answer begins there."""
        if not 0 <= start < end <= len(text):
            raise self.fault(
                f"characters {start} to {end} are not inside the document {document!r}, "
                f"which has {len(text)}."
            )
        if not text.startswith(answer, start):
            raise self.fault(
                f"the answer {answer!r:.60} is not at character {start} of the document "
                f"{document!r}; found {text[start : start + len(answer)]!r:.60}."
            )


def read_entries(path: Path) -> Iterator[Entry]:
    """The lines of a JSONL file, plain or gzipped."""
    for record in read_lines(path.name, path):
        if record.fault:
            raise CorpusError(f"{record.place}: {record.fault}")
        yield Entry(record.place, record.fields)


def entries_by_id(path: Path, field: str) -> Iterator[tuple[str, Entry]]:
    """Each entry with its id."""
    places: dict[str, str] = {}
    for entry in read_entries(path):
        id = entry.id(field)
        if id in places:
            raise entry.fault(f"the id {id!r} was already used at {places[id]}.")
        places[id] = entry.place
        yield id, entry
