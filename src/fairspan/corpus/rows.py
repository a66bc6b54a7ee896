"""`Row`: one record of any source; and readers of files in JSON Lines, Parquet and plain text."""

import bz2
import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from fairspan.corpus.segment import describe, require_string, require_text
from fairspan.errors import CorpusError, first_line

LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
# Also one object per line if such a file is named; in a folder they are not read.
JSON = (".json", ".json.gz")
PARQUET = (".parquet",)
MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")
TEXTS = (".txt", ".rst", *MARKDOWN)
ENDINGS = (*LINES, *JSON, *PARQUET, *TEXTS)
# Rows of a Parquet file that are decoded at once; polars decodes their row groups whole.
_SLICE = 16384


class Cursor(NamedTuple):
    """A position in a source: a file, and its rows and uncompressed bytes before the position.

    `offset` is 0 if rows are counted; `done` is how much of the source is read, in its own unit.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    done: int = 0


START = Cursor()


@dataclass(frozen=True, slots=True)
class Row:
    """One record; `number` counts from 1 in its file."""

    file: str
    number: int
    fields: Mapping[str, Any]

    @property
    def place(self) -> str:
        return place_of(self.file, self.number)


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that cannot be used, and why; with its id if that was read."""

    file: str
    row: int
    id: str | None
    reason: str

    def __str__(self) -> str:
        return f"{place_of(self.file, self.row)}: {self.reason}"


ReadRow = tuple[Row | Fault, Cursor]
"""A record, and the position after it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields that are read; a record may lack `more`, and "id" if `id` is None."""

    text: str = "text"
    id: str | None = None
    more: tuple[str, ...] = ()

    def columns(self, label: str, present: Iterable[str]) -> list[str]:
        """The columns of a table that are read."""
        present = list(present)
        for name in (self.text, self.id):
            if name is not None and name not in present:
                listed = ", ".join(present)
                raise CorpusError(f"{label} has no column '{name}'. Columns there: {listed}.")
        wanted = dict.fromkeys((self.id or "id", self.text, *self.more))
        return [name for name in wanted if name in present]


def place_of(file: str, number: int) -> str:
    """A record's place as errors name it."""
    if ends_in(file, TEXTS):
        return file
    return f"{file}, {'line' if ends_in(file, (*LINES, *JSON)) else 'row'} {number}"


def ends_in(name: str, endings: tuple[str, ...]) -> bool:
    """Whether a file has one of the endings, in capitals or not."""
    return name.lower().endswith(endings)


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


def decode(content: bytes, what: str = "line") -> str:
    """A line or a file as text."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} of the {what} (0x{content[error.start]:02x})"
        raise CorpusError(f"{bad} is not UTF-8. Save the file as UTF-8.") from None


@contextmanager
def opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A file, and its content out of gzip, bz2 or plain."""
    try:
        with path.open("rb") as raw:
            start = raw.read(3)
            raw.seek(0)
            if start.startswith(b"\x1f\x8b"):
                yield raw, cast(IO[bytes], gzip.GzipFile(fileobj=raw))
            elif start == b"BZh":
                yield raw, bz2.BZ2File(raw)
            else:
                yield raw, raw
    except CorpusError:
        raise
    except (OSError, EOFError, zlib.error, SyntaxError, ValueError, RecursionError) as error:
        # gzip and bz2 raise an OSError without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise unreadable(path, error) from None
        raise damaged(path) from None


def unreadable(path: Path | str, error: Exception) -> CorpusError:
    return CorpusError(f"{path} cannot be read: {first_line(error)}.")


def damaged(path: Path) -> CorpusError:
    remedy = "Download it again, and run the same command."
    return CorpusError(f"{path.name} is damaged or cut off. {remedy}")


def read_file(label: str, path: Path, start: Cursor, fields: Fields) -> Iterator[ReadRow]:
    """The records of a file from a position on; the ending of `label` says its format."""
    if ends_in(label, PARQUET):
        return read_parquet(label, path, start, fields)
    if ends_in(label, TEXTS):
        return read_text(label, path, start, fields)
    return read_lines(label, path, start)


def lines(path: Path, start: Cursor = START) -> Iterator[tuple[int, bytes, Cursor]]:
    """The lines of a file, counted from 1, without a byte order mark, each with its end."""
    with opened(path) as (raw, file):
        offset = file.seek(start.offset)
        for number, line in enumerate(file, start=start.row + 1):
            offset += len(line)
            content = line.removeprefix(BOM_UTF8) if number == 1 else line
            yield number, content, Cursor(start.file, number, offset, raw.tell())


def read_lines(label: str, path: Path, start: Cursor = START) -> Iterator[ReadRow]:
    """The objects of a JSON Lines file from a position on."""
    for number, line, after in lines(path, start):
        if line.strip():
            yield parse_line(label, number, line.rstrip()), after


def parse_line(label: str, number: int, line: bytes) -> Row | Fault:
    """The object on a line, or what is wrong with it."""
    try:
        fields: Any = json.loads(decode(line))
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error.msg}, character {error.colno}). Each line holds one object."
    except CorpusError as error:
        reason = str(error)
    except (ValueError, RecursionError) as error:
        reason = f"JSON that cannot be read ({error})."
    else:
        if isinstance(fields, dict):
            return Row(label, number, fields)
        reason = f"not an object but {describe(fields)}. Each line holds one object."
    return Fault(label, number, None, reason)


def read_parquet(label: str, path: Path, start: Cursor, fields: Fields) -> Iterator[ReadRow]:
    """The rows of a file from a position on, with the columns of `fields`."""
    import polars as pl

    try:
        table = pl.scan_parquet(path, glob=False)  # a folder's name may hold brackets and asterisks
        columns = fields.columns(label, table.collect_schema())
        size = path.stat().st_size
        count = int(table.select(pl.len()).collect().item())
        for begin in range(start.row, count, _SLICE):
            part = table.select(columns).slice(begin, _SLICE).collect()
            for row, values in enumerate(part.iter_rows(named=True), start=begin + 1):
                yield Row(label, row, values), Cursor(start.file, row, 0, size * row // count)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{label} is not a Parquet file: {first_line(error)}.") from None


def read_text(label: str, path: Path, start: Cursor, fields: Fields) -> Iterator[ReadRow]:
    """One document, whose id is its file's name."""
    if start.row:
        return
    content = path.read_bytes()
    after = Cursor(start.file, 1, 0, len(content))
    try:
        text = decode(content.removeprefix(BOM_UTF8), "file")
        yield Row(label, 1, {fields.id or "id": label, fields.text: text}), after
    except CorpusError as error:
        yield Fault(label, 1, label, str(error)), after
