"""`Row`: one record of any source, and what reads the formats of files: JSON Lines, Parquet and plain text."""

from __future__ import annotations

import bz2
import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from fairspan.corpus.segment import describe, require_string, require_text
from fairspan.errors import CorpusError

LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
# One object per line as well, where one such file is named; in a folder these are other things.
JSON = (".json", ".json.gz")
PARQUET = (".parquet",)
TEXTS = (".txt", ".md")
ENDINGS = (*LINES, *JSON, *PARQUET, *TEXTS)
# Rows of a Parquet file that are decoded at once; polars decodes their row groups whole.
_SLICE = 16384


class Place(NamedTuple):
    """Where reading stands.

    Attributes:
        file: number of the file, from 0.
        row: rows or lines of it that are before this place.
        offset: bytes of it that are before this place, uncompressed; 0 where rows are counted.
        done: how much of the whole source is before this place, in the source's own unit.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    done: int = 0


START = Place()


@dataclass(frozen=True, slots=True)
class Row:
    """One record; `file` and `number`, from 1, say where it stands."""

    file: str
    number: int
    fields: Mapping[str, Any]

    @property
    def place(self) -> str:
        """As errors name it."""
        return place_of(self.file, self.number)


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that cannot be used, and why; `id` where it is known."""

    file: str
    row: int
    id: str | None
    reason: str

    def __str__(self) -> str:
        return f"{place_of(self.file, self.row)}: {self.reason}"


Found = tuple[Row | Fault, Place]
"""A record, and the place after it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a record has its text and its id, and what else is read. Without a name for the id, it may lack `id`."""

    text: str = "text"
    id: str | None = None
    more: tuple[str, ...] = ()

    def columns(self, label: str, there: Mapping[str, Any] | list[str]) -> list[str]:
        """Those of a table's columns that are read; an error if one is missing that every record has to have."""
        for name in filter(None, (self.text, self.id)):
            if name not in there:
                raise CorpusError(
                    f"{label} has no column '{name}'. Columns there: {', '.join(there)}."
                )
        wanted = dict.fromkeys((self.id or "id", self.text, *self.more))
        return [name for name in wanted if name in there]


def place_of(file: str, number: int) -> str:
    if file.endswith(TEXTS):
        return file
    return f"{file}, {'line' if file.endswith((*LINES, *JSON)) else 'row'} {number}"


def missing_field(field: str, fields: Mapping[str, Any]) -> str:
    return f"there is no field '{field}'. Fields there: {', '.join(map(str, fields)) or 'none'}."


def id_of(fields: Mapping[str, Any], name: str) -> str:
    """The id of a record: text or a whole number, as text."""
    if name not in fields:
        raise CorpusError(missing_field(name, fields))
    given = fields[name]
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise CorpusError(f"'{name}' must be text or a whole number, got {describe(given)}.")
    return require_text(name, str(given))


def text_of(fields: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    """The text of a record; one of white space only if `empty`."""
    if name not in fields:
        raise CorpusError(missing_field(name, fields))
    return require_string(name, fields[name]) if empty else require_text(name, fields[name])


def decode(content: bytes, what: str = "line") -> str:
    """A line or a file as text; an error that names the first byte that is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} of the {what} (0x{content[error.start]:02x})"
        raise CorpusError(f"{bad} is not UTF-8. Save the file as UTF-8.") from None


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A file, and its content in gzip, in bz2 of one or many streams, or plain; what fails in one line."""
    try:
        with path.open("rb") as raw:
            start = raw.read(3)
            raw.seek(0)
            packed = (
                gzip.open
                if start.startswith(b"\x1f\x8b")
                else bz2.open
                if start == b"BZh"
                else None
            )
            yield raw, cast(IO[bytes], packed(raw) if packed else raw)
    except CorpusError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise CorpusError(f"{path} cannot be read: {error.strerror}.") from None
        raise damaged(path) from None  # gzip and bz2: not what it should be
    except (EOFError, zlib.error, SyntaxError, ValueError, RecursionError):
        raise damaged(path) from None


def damaged(path: Path) -> CorpusError:
    return CorpusError(
        f"{path.name} is damaged or cut off. Download it again, and run the same command."
    )


def read_file(label: str, path: Path, start: Place, fields: Fields) -> Iterator[Found]:
    """The records of a file from a place on; the ending of `label` says its format."""
    if label.endswith((*PARQUET, *TEXTS)):
        return (read_parquet if label.endswith(PARQUET) else read_text)(label, path, start, fields)
    return read_lines(label, path, start)


def lines(path: Path, start: Place = START) -> Iterator[tuple[int, bytes, Place]]:
    """The lines of a file, counted from 1, without a byte order mark, each with the place after it.

    `done` counts the file's bytes.
    """
    with opened(path) as (raw, file):
        offset = file.seek(start.offset)
        for number, line in enumerate(file, start=start.row + 1):
            offset += len(line)
            content = line.removeprefix(BOM_UTF8) if number == 1 else line
            yield number, content, Place(start.file, number, offset, raw.tell())


def read_lines(label: str, path: Path, start: Place = START) -> Iterator[Found]:
    """The objects of a file in JSON Lines from a place on; blank lines are passed over but counted."""
    for number, line, after in lines(path, start):
        if line.strip():
            yield parse_line(label, number, line.rstrip()), after


def parse_line(label: str, number: int, line: bytes) -> Row | Fault:
    """The object on a line, or what is wrong with it."""
    try:
        fields: Any = json.loads(decode(line))
        if not isinstance(fields, dict):
            raise CorpusError(f"not an object but {describe(fields)}. Each line holds one object.")
        return Row(label, number, fields)
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error.msg}, character {error.colno}). Each line holds one object."
    except CorpusError as error:
        reason = str(error)
    except (ValueError, RecursionError) as error:
        reason = f"JSON that cannot be read ({error})."
    return Fault(label, number, None, reason)


def read_parquet(label: str, path: Path, start: Place, fields: Fields) -> Iterator[Found]:
    """The rows of a file from a place on, with the columns that are asked for; `done` counts the file's bytes."""
    import polars as pl

    try:
        table = pl.scan_parquet(path, glob=False)  # a folder's name may hold brackets and asterisks
        columns = fields.columns(label, table.collect_schema())
        size, count = path.stat().st_size, int(table.select(pl.len()).collect().item())
        for begin in range(start.row, count, _SLICE):
            part = table.select(columns).slice(begin, _SLICE).collect()
            for row, values in enumerate(part.iter_rows(named=True), start=begin + 1):
                yield Row(label, row, values), Place(start.file, row, 0, size * row // count)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{label} is not a Parquet file: {str(error).splitlines()[0]}.") from None


def read_text(label: str, path: Path, start: Place, fields: Fields) -> Iterator[Found]:
    """One document, whose id is its file's name."""
    if start.row:
        return
    content = path.read_bytes()
    after = Place(start.file, 1, 0, len(content))
    try:
        named = {
            fields.id or "id": label,
            fields.text: decode(content.removeprefix(BOM_UTF8), "file"),
        }
        yield Row(label, 1, named), after
    except CorpusError as error:
        yield Fault(label, 1, label, str(error)), after
