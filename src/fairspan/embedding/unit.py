"""`Unit`: consecutive rows that are embedded together and become one shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress, islice
from pathlib import Path

import numpy as np

from fairspan.corpus.record import Record, id_of, text_of
from fairspan.corpus.source import Records, Source
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import START, Cursor, Fault, ShardSummary, shard_name
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


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows from one place of the input to another; `digest` is of all their ids and texts."""

    number: int
    start: Cursor
    end: Cursor
    rows: Sequence[TextRow]
    rejected: Sequence[Fault]
    digest: str = ""


def text_rows(
    records: Iterable[Record], options: EmbedOptions, start: Cursor = START
) -> Iterator[tuple[TextRow | Fault, Cursor]]:
    """The text and the id of each record from a position on; the id may be file and row."""
    for count, record in enumerate(islice(records, start.row, None), start=start.row + 1):
        cursor = Cursor(count, record.done)
        id = record.fields.get("id") if record.fault else None
        try:
            if record.fault:
                raise CorpusError(record.fault)
            if options.id_field is None and "id" not in record.fields:
                id = f"{record.file}#{record.number}"
            else:
                id = id_of(record.fields, options.id_field or "id")
            text = text_of(record.fields, options.text_field)
            yield TextRow(record.file, record.number, id, text), cursor
        except CorpusError as error:
            yield Fault(record.file, record.number, id, str(error)), cursor


def cut(
    items: Iterable[tuple[TextRow | Fault, Cursor]], start: Cursor, number: int, most: int
) -> Iterator[Unit]:
    """Units of at most `most` rows, bad ones included, and of a bounded number of characters.

    Where a unit ends depends only on the rows since its start, so that an interrupted run forms the
    same units.
    """
    rows: list[TextRow] = []
    rejected: list[Fault] = []
    characters = 0
    end = start
    for item, end in items:
        if isinstance(item, TextRow):
            rows.append(item)
            characters += len(item.text)
        else:
            rejected.append(item)
        if len(rows) + len(rejected) >= most or characters >= _CHARACTERS:
            yield Unit(number, start, end, rows, rejected, _digest(rows))
            start = end
            number += 1
            rows = []
            rejected = []
            characters = 0
    if rows or rejected:
        yield Unit(number, start, end, rows, rejected, _digest(rows))


def _digest(rows: Sequence[TextRow]) -> str:
    """A hash of the ids and texts of rows."""
    digest = blake2b(digest_size=16)
    for row in rows:
        # With their lengths, no two lists of rows are the same bytes.
        digest.update(f"{len(row.id)} {len(row.text)} {row.id}{row.text}".encode())
    return digest.hexdigest()


def missing_units(
    source: Source, options: EmbedOptions, finished: Mapping[int, ShardSummary]
) -> Iterator[Unit]:
    """The units of a source but the finished ones, whose ends are known and rows are not read.

    Records have no state that would show a change: those of finished units are read and compared.
    """
    most = options.rows_per_shard
    if isinstance(source, Records):
        units = cut(text_rows(source.records(), options), START, 0, most)
        yield from _compared(units, source.name, options.out, finished)
        return
    number = 0
    start = START
    while True:
        while number in finished:
            start = finished[number].end
            number += 1
        for unit in cut(text_rows(source.records(), options, start), start, number, most):
            start = unit.end
            number = unit.number + 1
            yield unit
            if number in finished:
                break
        else:
            return


def _compared(
    units: Iterable[Unit], name: str, folder: Path | str, finished: Mapping[int, ShardSummary]
) -> Iterator[Unit]:
    """The units that are not finished; raise if the rows of others are not as they were."""
    count = 0
    for unit in units:
        if unit.number not in finished:
            yield unit
        elif unit.digest != finished[unit.number].digest:
            rows = f"{name} {unit.start.row + 1:,} to {unit.end.row:,}"
            raise ChangedInputError(folder, f"{rows} are not those of {shard_name(unit.number)}")
        count = unit.number + 1
    if count <= max(finished, default=-1):
        raise ChangedInputError(folder, f"there are no {name} for {shard_name(count)}")


class ChangedInputError(CorpusError):
    """The texts of a folder's vectors are not those of the input."""

    def __init__(self, folder: Path | str, difference: str) -> None:
        remedy = "Choose another folder, or remove this one to start over."
        super().__init__(f"{folder} was made from other texts: {difference}. {remedy}")


def stopped(fault: Fault) -> CorpusError:
    """The error of `strict` at the first bad row."""
    return CorpusError(f"{fault} Without strict such rows go to rejected.jsonl.")


class SeenIds:
    """Hashes of the ids so far, 8 bytes each, to detect repeated ids.

    Among a hundred million ids, two share a hash with a probability of 0.03 %.
    """

    def __init__(self) -> None:
        self._sorted: list[np.ndarray] = []

    def add(self, ids: Iterable[str]) -> None:
        self._keep(_hashes(ids))

    def without_seen(self, unit: Unit) -> Unit:
        """The unit with rows rejected whose id was there before."""
        hashes = _hashes(row.id for row in unit.rows)
        is_new = np.zeros(len(hashes), dtype=bool)
        is_new[np.unique(hashes, return_index=True)[1]] = True
        for seen in self._sorted:
            place = np.searchsorted(seen, hashes)
            is_new &= seen[np.minimum(place, len(seen) - 1)] != hashes
        self._keep(hashes[is_new])
        repeated = [
            Fault(row.file, row.number, row.id, f"the id {row.id!r} was already used.")
            for row in compress(unit.rows, ~is_new)
        ]
        rows = list(compress(unit.rows, is_new))
        return replace(unit, rows=rows, rejected=[*unit.rejected, *repeated])

    def _keep(self, hashes: np.ndarray) -> None:
        """Sorted arrays, each more than twice as long as the next: few to search, rarely merged."""
        if len(hashes):
            self._sorted.append(np.sort(hashes))
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]), kind="stable")


def _hashes(ids: Iterable[str]) -> np.ndarray:
    joined = b"".join(blake2b(id.encode("utf-8"), digest_size=8).digest() for id in ids)
    return np.frombuffer(joined, dtype=np.uint64)
