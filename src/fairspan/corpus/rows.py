"""From records of any source to segments; errors name the file and the line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fairspan.corpus.segment import Segment, describe
from fairspan.errors import CorpusError


@dataclass(frozen=True, slots=True)
class Row:
    """One record and its number in its source, counted from 1."""

    number: int
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What kept a record from being read."""

    number: int
    message: str


@dataclass(frozen=True, slots=True)
class Source:
    """Records that are read one after the other, once.

    Attributes:
        label: what errors call it, such as `en.jsonl`.
        unit: what errors call a record: `line` or `row`.
    """

    label: str
    unit: str
    rows: Iterator[Row | Fault]

    def place(self, number: int) -> str:
        return f"{self.label}, {self.unit} {number}"


@dataclass(frozen=True, slots=True)
class Part:
    """What one source gave: segments, one line for each fault, and every language that it has."""

    source: Source
    segments: tuple[Segment, ...]
    faults: tuple[str, ...]
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A corpus as read, before it is known to be aligned.

    Attributes:
        labels: for each language, what errors call its source.
        available: every language there, also those that were not asked for.
        notes: what a reader of results should know about how the corpus was read.
    """

    name: str
    segments: tuple[Segment, ...]
    labels: Mapping[str, str]
    available: tuple[str, ...]
    notes: tuple[str, ...] = ()


def peek(source: Source) -> tuple[Row | None, Source]:
    """The first readable record, if any, and the same source, unread."""
    ahead: list[Row | Fault] = []
    for row in source.rows:
        ahead.append(row)
        if isinstance(row, Row):
            return row, Source(source.label, source.unit, chain(ahead, source.rows))
    return None, Source(source.label, source.unit, iter(ahead))


def collect(source: Source, language: str | None, wanted: Collection[str] | None, id_field: str = "id") -> Part:
    """The segments of a source.

    Args:
        language: the language of the whole source; None where every record has a field `language`.
        wanted: records in other languages are passed over; None takes all.
    """
    segments: list[Segment] = []
    faults: list[str] = []
    languages: dict[str, None] = {}
    lines: dict[tuple[str, str], int] = {}
    number = 0
    for row in source.rows:
        number = row.number
        try:
            if isinstance(row, Fault):
                raise CorpusError(row.message)
            spoken = _language(row.fields, language)
            languages[spoken] = None
            if wanted is not None and spoken not in wanted:
                continue
            segment = _segment(row.fields, spoken, id_field)
            key = (segment.id, segment.language)
            if key in lines:
                raise CorpusError(f"the id {segment.id!r} was already used on {source.unit} {lines[key]}.")
            lines[key] = number
            segments.append(segment)
        except CorpusError as error:
            faults.append(f"{source.place(number)}: {error.message}")
    if not number:
        faults.append(f"{source.label} is empty: it needs one segment per {source.unit}, with 'id' and 'text'.")
    return Part(source, tuple(segments), tuple(faults), tuple(languages))


def join(name: str, parts: Sequence[Part], notes: tuple[str, ...] = ()) -> Reading:
    """One reading from the parts of a corpus; an error if anything in them was wrong."""
    faults = [fault for part in parts for fault in part.faults]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CorpusError(faults[0] + more)
    labels: dict[str, str] = {}
    for part in parts:
        for language in part.languages:
            suffix = "" if len(part.languages) == 1 else f" ({language})"
            labels.setdefault(language, part.source.label + suffix)
    segments = tuple(segment for part in parts for segment in part.segments)
    return Reading(name, segments, labels, tuple(labels), notes)


def _language(fields: Mapping[str, Any], language: str | None) -> str:
    given = fields.get("language")
    if language is None:
        if "language" not in fields:
            raise CorpusError(missing_field("language", fields))
        if not isinstance(given, str) or not given.strip():
            raise CorpusError(f"'language' must be text such as \"en\", got {describe(given)}.")
        return given
    if given is not None and given != language:
        raise CorpusError(f"'language' is {describe(given)}, but the file is read as {language!r}.")
    return language


def _segment(fields: Mapping[str, Any], language: str, id_field: str) -> Segment:
    for field in (id_field, "text"):
        if field not in fields:
            raise CorpusError(missing_field(field, fields))
    given = fields[id_field]
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise CorpusError(f"'{id_field}' must be text or a whole number, got {describe(given)}.")
    return Segment(str(given), language, fields["text"], fields.get("title"))


def missing_field(field: str, fields: Mapping[str, Any]) -> str:
    return f"there is no field '{field}'. Fields there: {', '.join(fields) or 'none'}."
