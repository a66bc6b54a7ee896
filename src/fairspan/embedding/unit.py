"""`Unit`: consecutive rows that are embedded together and become one shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fairspan.corpus.record import Record, id_of, text_of
from fairspan.corpus.source import Source
from fairspan.embedding.options import EmbedOptions
from fairspan.errors import CorpusError

# Of texts in a unit, so that long documents do not fill the memory: 2 to 6 million tokens.
_CHARACTERS = 16 << 20


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text to embed; `file` and `number`, from 1, say where it comes from."""

    file: str
    number: int
    id: str
    text: str

    def rejected(self, reason: str) -> Rejected:
        return Rejected(self.file, self.number, self.id, reason)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row without a vector, and why; with its id if that was read."""

    file: str
    row: int
    id: str | None
    reason: str

    def __str__(self) -> str:
        return f"{Record(self.file, self.row, {}).place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Consecutive rows of the input.

    Attributes:
        place: of its rows, such as "documents.jsonl, line 17 to 32".
        amount: how much of the input it is, in bytes or rows, as its source counts.
        digest: of the ids and texts of all its rows.
    """

    number: int
    place: str
    amount: int
    rows: Sequence[TextRow]
    rejected: Sequence[Rejected]
    digest: str


def units_of(source: Source, options: EmbedOptions) -> Iterator[Unit]:
    """All units of a source: of a number of rows, bad ones included, or of enough characters.

    They depend on the input alone, so that an interrupted run forms the same ones.
    """
    number = 0
    first: Record | None = None
    before = 0
    items: list[TextRow | Rejected] = []
    characters = 0
    for record in source.records():
        first = first or record
        last = record
        item = _item(record, options)
        items.append(item)
        characters += len(item.text) if isinstance(item, TextRow) else 0
        if len(items) >= options.rows_per_shard or characters >= _CHARACTERS:
            yield _unit(number, first, last, before, items)
            number += 1
            before = record.done
            first = None
            items = []
            characters = 0
    if first is not None:
        yield _unit(number, first, last, before, items)


def _item(record: Record, options: EmbedOptions) -> TextRow | Rejected:
    """The text and the id of a record; without an id, its file and its number."""
    place = (record.file, record.number)
    if record.fault:
        return Rejected(*place, record.fields.get("id"), record.fault)
    id = None
    try:
        if options.id_field is None and "id" not in record.fields:
            id = f"{record.file}#{record.number}"
        else:
            id = id_of(record.fields, options.id_field or "id")
        return TextRow(*place, id, text_of(record.fields, options.text_field))
    except CorpusError as error:
        return Rejected(*place, id, str(error))


def _unit(
    number: int, first: Record, last: Record, before: int, items: Sequence[TextRow | Rejected]
) -> Unit:
    """The unit of these rows; `before` is how much of the input is before it."""
    place = first.place
    if last.file != first.file:
        place += f" to {last.place}"
    elif last.number != first.number:
        place += f" to {last.number}"
    digest = blake2b(digest_size=16)
    for item in items:
        # With their lengths, no two lists of rows are the same bytes.
        content = "-"
        if isinstance(item, TextRow):
            content = f"{len(item.id)} {len(item.text)} {item.id}{item.text}"
        digest.update(content.encode())
    rows = [item for item in items if isinstance(item, TextRow)]
    rejected = [item for item in items if isinstance(item, Rejected)]
    return Unit(number, place, last.done - before, rows, rejected, digest.hexdigest())


def stopped(fault: Rejected) -> CorpusError:
    """The error of `strict` at the first bad row."""
    return CorpusError(f"{fault} Without strict such rows go to rejected.jsonl.")
