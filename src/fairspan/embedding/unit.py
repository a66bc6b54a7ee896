"""`Unit`: consecutive rows that are embedded together and become one shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fairspan.corpus.record import Record, id_of, text_of
from fairspan.corpus.source import Source
from fairspan.embedding.options import EmbedOptions
from fairspan.errors import CorpusError

# Characters in a unit, 2 to 6 million tokens, so that long documents do not fill the memory.
_CHARACTERS = 16 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """A text to embed, or why there is none; `file` and `number`, from 1, say where it is from."""

    file: str
    number: int
    id: str | None
    text: str = ""
    fault: str = ""

    def stopped(self) -> CorpusError:
        """The error of `strict` at a row with a fault."""
        remedy = "Without strict such rows go to rejected.jsonl."
        return CorpusError(f"{Record(self.file, self.number, {}).place}: {self.fault} {remedy}")


@dataclass(frozen=True, slots=True)
class Unit:
    """Consecutive rows of the input.

    Attributes:
        place: of its rows, such as "documents.jsonl, line 17 to 32".
        amount: how much of the input it is, in bytes or rows, as its source counts.
    """

    number: int
    place: str
    amount: int
    rows: Sequence[Row]

    @property
    def digest(self) -> str:
        """A hash of the ids and texts of all rows."""
        digest = blake2b(digest_size=16)
        for row in self.rows:
            # With their lengths, no two lists of rows are the same bytes.
            content = f"{len(row.id or '')} {len(row.text)} {row.id}{row.text}"
            digest.update(b"-" if row.fault else content.encode())
        return digest.hexdigest()


def units_of(source: Source, options: EmbedOptions) -> Iterator[Unit]:
    """All units of a source: of a number of rows, bad ones included, or of enough characters.

    They depend on the input alone, so that an interrupted run forms the same ones.
    """
    number = 0
    before = 0
    characters = 0
    rows: list[Row] = []
    first: Record | None = None
    for record in source.records():
        first = first or record
        last = record
        rows.append(_row(record, options))
        characters += len(rows[-1].text)
        if len(rows) >= options.rows_per_shard or characters >= _CHARACTERS:
            yield Unit(number, _place(first, last), last.done - before, rows)
            number += 1
            before = last.done
            characters = 0
            rows = []
            first = None
    if first is not None:
        yield Unit(number, _place(first, last), last.done - before, rows)


def _row(record: Record, options: EmbedOptions) -> Row:
    """The text and the id of a record; without an id, its file and its number."""
    place = (record.file, record.number)
    id = record.fields.get("id") if record.fault else None
    try:
        if record.fault:
            raise CorpusError(record.fault)
        if options.id_field is None and "id" not in record.fields:
            id = f"{record.file}#{record.number}"
        else:
            id = id_of(record.fields, options.id_field or "id")
        return Row(*place, id, text_of(record.fields, options.text_field))
    except CorpusError as error:
        return Row(*place, id, fault=str(error))


def _place(first: Record, last: Record) -> str:
    """Where the rows from the first to the last are."""
    if last.file != first.file:
        return f"{first.place} to {last.place}"
    return first.place if last.number == first.number else f"{first.place} to {last.number}"
