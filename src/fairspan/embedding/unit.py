"""`Unit`: consecutive rows that are embedded together and become one shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress

import numpy as np

from fairspan.corpus.rows import Cursor, Fault, Fields, ReadRow, id_of, text_of
from fairspan.corpus.source import Source
from fairspan.errors import CorpusError

# Of texts in a unit, so that long documents do not fill the memory: 2 to 6 million tokens.
_CHARACTERS = 16 << 20


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed; `file` and `number`, from 1, say where it comes from."""

    file: str
    number: int
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows from one place of the input to another."""

    number: int
    start: Cursor
    end: Cursor
    rows: Sequence[Text]
    rejected: Sequence[Fault]


def texts(rows: Iterable[ReadRow], fields: Fields) -> Iterator[tuple[Text | Fault, Cursor]]:
    """The text and the id of each record; an id of the file and the row where none is named and none is there."""
    for row, place in rows:
        if isinstance(row, Fault):
            yield row, place
            continue
        id = None
        try:
            unnamed = fields.id is None and "id" not in row.fields
            id = f"{row.file}#{row.number}" if unnamed else id_of(row.fields, fields.id or "id")
            yield Text(row.file, row.number, id, text_of(row.fields, fields.text)), place
        except CorpusError as error:
            yield Fault(row.file, row.number, id, str(error)), place


def cut(
    items: Iterable[tuple[Text | Fault, Cursor]], start: Cursor, number: int, most: int
) -> Iterator[Unit]:
    """Units of at most `most` rows, bad ones included, and of a bounded number of characters.

    Where a unit ends depends on the rows since its start alone, so that an interrupted run finds the same units.
    """
    rows: list[Text] = []
    rejected: list[Fault] = []
    characters, end = 0, start
    for found, end in items:
        if isinstance(found, Text):
            rows.append(found)
            characters += len(found.text)
        else:
            rejected.append(found)
        if len(rows) + len(rejected) >= most or characters >= _CHARACTERS:
            yield Unit(number, start, end, rows, rejected)
            start, number, rows, rejected, characters = end, number + 1, [], [], 0
    if rows or rejected:
        yield Unit(number, start, end, rows, rejected)


def missing_units(
    source: Source, fields: Fields, finished: Mapping[int, Cursor], most: int
) -> Iterator[Unit]:
    """The units of a source that are not finished; where the others end is given, and their rows are not read."""
    number, start = 0, Cursor()
    while True:
        while number in finished:
            number, start = number + 1, finished[number]
        for unit in cut(texts(source.rows(start), fields), start, number, most):
            number, start = unit.number + 1, unit.end
            yield unit
            if number in finished:
                break
        else:
            return


def stopped(bad: Fault) -> CorpusError:
    """What `strict` says of the first bad row."""
    return CorpusError(f"{bad} Without strict such rows go to rejected.jsonl.")


class SeenIds:
    """Hashes of the ids so far, 8 bytes each, to detect repeated ids.

    Among a hundred million ids, two share a hash with a probability of 0.03 %; the second one would be rejected and
    listed in rejected.jsonl.
    """

    def __init__(self) -> None:
        self._sorted: list[np.ndarray] = []

    def add(self, ids: Iterable[str]) -> None:
        self._keep(_hashes(ids))

    def without_seen(self, unit: Unit) -> Unit:
        """The unit with rows rejected whose id was there before."""
        hashes = _hashes(row.id for row in unit.rows)
        new = np.zeros(len(hashes), dtype=bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for known in self._sorted:
            place = np.searchsorted(known, hashes)
            new &= known[np.minimum(place, len(known) - 1)] != hashes
        self._keep(hashes[new])
        if new.all():
            return unit
        twice = [
            Fault(row.file, row.number, row.id, f"the id {row.id!r} was already used.")
            for row in compress(unit.rows, ~new)
        ]
        return replace(unit, rows=list(compress(unit.rows, new)), rejected=[*unit.rejected, *twice])

    def _keep(self, hashes: np.ndarray) -> None:
        """Sorted arrays, each more than twice as long as the next: few to search, rarely merged."""
        if len(hashes):
            self._sorted.append(np.sort(hashes))
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]), kind="stable")


def _hashes(ids: Iterable[str]) -> np.ndarray:
    joined = b"".join(blake2b(one.encode("utf-8"), digest_size=8).digest() for one in ids)
    return np.frombuffer(joined, dtype=np.uint64)
