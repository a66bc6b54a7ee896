"""`Record`: one object of a source, and its text and id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairspan.corpus.formats import JSON, LINES, TEXTS, ends_in
from fairspan.corpus.segment import describe, require_string, require_text
from fairspan.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a source.

    Attributes:
        file: the name of its file or dataset.
        number: its line or row in it, counted from 1.
        fields: what was read; of a record with a fault, as much as was read.
        fault: what is wrong with it, in a sentence.
        done: how much of the source is read after it, in the unit of the source's `total`.
    """

    file: str
    number: int
    fields: Mapping[str, Any]
    fault: str = ""
    done: int = 0

    @property
    def place(self) -> str:
        """The file and the line, such as "name.jsonl, line 3"."""
        if ends_in(self.file, TEXTS):
            return self.file
        unit = "line" if ends_in(self.file, (*LINES, *JSON)) else "row"
        return f"{self.file}, {unit} {self.number}"


def missing_field(field: str, fields: Mapping[str, Any]) -> CorpusError:
    listed = ", ".join(map(str, fields)) or "none"
    return CorpusError(f"there is no field '{field}'. Fields there: {listed}.")


def id_of(fields: Mapping[str, Any], name: str) -> str:
    """The id of a record: text or a whole number, as text."""
    if name not in fields:
        raise missing_field(name, fields)
    value = fields[name]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise CorpusError(f"'{name}' must be text or a whole number, got {describe(value)}.")
    return require_text(name, str(value))


def text_of(fields: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    """The text of a record; `empty` allows one without words."""
    if name not in fields:
        raise missing_field(name, fields)
    return require_string(name, fields[name]) if empty else require_text(name, fields[name])
