"""`Input`: the rows of files, folders and datasets, one after the other, from any place on."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import polars as pl

from fairspan.corpus.jsonl import decode, parse_line
from fairspan.corpus.rows import Fault, missing_field
from fairspan.corpus.segment import describe, require_text
from fairspan.errors import CorpusError
from fairspan.model.language_text import LanguageText

LINES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
ROWS = (".parquet",)
TEXTS = (".txt", ".md")
# A line that is longer is passed over without being held in memory.
_LONGEST_LINE = 64 << 20
# Rows of a Parquet file that are decoded at once; polars decodes their row groups whole.
_SLICE = 16384


class Place(NamedTuple):
    """Where reading stands.

    Attributes:
        file: number of the file, from 0.
        row: rows or lines of it that are before this place.
        offset: bytes of it that are before this place, uncompressed; 0 where rows are counted.
        done: how much of the whole input is before this place, in the input's own unit.
    """

    file: int = 0
    row: int = 0
    offset: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A text to embed; `file` and `number`, from 1, say where it comes from."""

    file: str
    number: int
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row without a vector, and why."""

    file: str
    row: int
    id: str | None
    reason: str

    def place(self) -> tuple[str, int]:
        """Grows in the order of the input."""
        return self.file, self.row


Item = tuple[Row | Rejected, Place]
"""A row, and the place after it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a row has its text, id and language. Without a name for the id, `id` is taken, or else `file#row`."""

    text: str = "text"
    id: str | None = None
    language: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The fields that a row has to have."""
        return [name for name in (self.text, self.id, self.language) if name is not None]

    @property
    def read(self) -> list[str]:
        """The fields that are read where they are there."""
        return list(dict.fromkeys([self.id or "id", *self.wanted]))

    def row(self, file: str, number: int, fields: Mapping[str, Any]) -> Row | Rejected:
        """The text and the id of a record, or what is wrong with them."""
        name, known = self.id or "id", None
        try:
            known = self._id(file, number, name, fields)
            if self.text not in fields:
                raise CorpusError(missing_field(self.text, fields))
            require_text(self.text, fields[self.text])
            text = fields[self.text]
            if self.language is not None:
                if self.language not in fields:
                    raise CorpusError(missing_field(self.language, fields))
                require_text(self.language, fields[self.language])
                text = LanguageText(text, fields[self.language])
        except CorpusError as error:
            return Rejected(file, number, known, error.message)
        return Row(file, number, known, text)

    def _id(self, file: str, number: int, name: str, fields: Mapping[str, Any]) -> str:
        if name not in fields:
            if self.id is None:
                return f"{file}#{number}"
            raise CorpusError(missing_field(name, fields))
        given = fields[name]
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise CorpusError(f"'{name}' must be text or a whole number, got {describe(given)}.")
        if isinstance(given, str):
            require_text(name, given)
        return str(given)


class Input(Protocol):
    """Rows that can be read from any place on, and always are the same.

    Attributes:
        name: as it was given.
        total: what `Place.done` is at the end; 0 if that is not known.
        identity: what has to stay the same from one call to the next.
    """

    name: str
    total: int
    identity: dict[str, Any]

    def items(self, start: Place = Place()) -> Iterator[Item]: ...  # noqa: B008 - a constant


class Files:
    """JSONL, Parquet or text files, in the order of their names; `done` counts their bytes."""

    def __init__(self, name: str, paths: Mapping[str, Path], fields: Fields) -> None:
        self.name, self._fields = name, fields
        self._files = list(paths.items())
        states = [path.stat() for path in paths.values()]
        self._sizes = [state.st_size for state in states]
        self.total = sum(self._sizes)
        digest = hashlib.sha256()
        for label, state in zip(paths, states, strict=True):
            digest.update(f"{label}\0{state.st_size}\0{state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        self.identity = {"files": len(states), "bytes": self.total, "state": digest.hexdigest()[:16]}

    def items(self, start: Place = Place()) -> Iterator[Item]:  # noqa: B008 - a constant
        before = sum(self._sizes[: start.file])
        for number in range(start.file, len(self._files)):
            label, path = self._files[number]
            begin = start if number == start.file else Place(number, 0, 0, before)
            read = _reader(path.name)
            try:
                for found, row, offset, done in read(label, path, self._sizes[number], begin, self._fields):
                    yield found, Place(number, row, offset, before + done)
            except OSError as error:
                raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None
            before += self._sizes[number]


Found = tuple[Row | Rejected, int, int, int]
"""A row, and of its file the rows, the uncompressed bytes and the bytes that are done after it."""
_Reader = Callable[[str, Path, int, Place, Fields], Iterator[Found]]


def _reader(name: str) -> _Reader:
    return _read_lines if name.endswith(LINES) else _read_rows if name.endswith(ROWS) else _read_text


def _read_lines(label: str, path: Path, size: int, start: Place, fields: Fields) -> Iterator[Found]:
    number, offset = start.row, start.offset
    with path.open("rb") as raw:
        packed = path.suffix == ".gz"
        file: IO[bytes] = gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[assignment]
        try:
            file.seek(offset)
            while line := file.readline(_LONGEST_LINE):
                number, offset = number + 1, offset + len(line)
                found: Row | Rejected | None = None
                if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                    while (more := file.readline(_LONGEST_LINE)) and not more.endswith(b"\n"):
                        offset += len(more)
                    offset += len(more)
                    found = Rejected(label, number, None, f"the line is longer than {_LONGEST_LINE >> 20} MiB.")
                elif not (line := line.removeprefix(BOM_UTF8) if number == 1 else line).strip():
                    continue
                else:
                    read = parse_line(number, line.rstrip())
                    if isinstance(read, Fault):
                        found = Rejected(label, number, None, read.message)
                    else:
                        found = fields.row(label, number, read.fields)
                yield found, number, offset, raw.tell() if packed else offset
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise CorpusError(f"{label}: the gzip file is damaged or cut off after line {number}.") from None


def _read_rows(label: str, path: Path, size: int, start: Place, fields: Fields) -> Iterator[Found]:
    try:
        table = pl.scan_parquet(path, glob=False)
        there = table.collect_schema()
        columns = [name for name in fields.read if name in there]
        for name in fields.wanted:
            if name not in there:
                raise CorpusError(f"{label} has no column '{name}'. Columns there: {', '.join(there)}.")
        count = int(table.select(pl.len()).collect().item())
        for begin in range(start.row, count, _SLICE):
            part = table.select(columns).slice(begin, _SLICE).collect()
            for row, values in enumerate(part.iter_rows(), start=begin + 1):
                found = fields.row(label, row, dict(zip(columns, values, strict=True)))
                yield found, row, 0, size * row // count
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{label} cannot be read as Parquet: {str(error).splitlines()[0]}.") from None


def _read_text(label: str, path: Path, size: int, start: Place, fields: Fields) -> Iterator[Found]:
    if start.row:
        return
    try:
        text = decode(path.read_bytes().removeprefix(BOM_UTF8))
    except CorpusError as error:
        yield Rejected(label, 1, label, error.message.replace("of the line ", "")), 1, 0, size
    else:
        yield Fields().row(label, 1, {"id": label, "text": text}), 1, 0, size


def open_input(name: str, fields: Fields) -> Input:
    """A JSONL or Parquet file, a folder of them, a folder of texts, or a dataset as `name` or `name:split`.

    Raises:
        CorpusError: if there is no such input, or nothing in it that could be read.
    """
    path = Path(name)
    try:
        if path.is_dir():
            return Files(name, _in_folder(path), fields)
        if path.exists():
            if not path.name.endswith((*LINES, *ROWS)):
                raise CorpusError(f"{name} is no input: its name must end in {', '.join((*LINES, *ROWS))}.")
            return Files(name, {path.name: path}, fields)
    except OSError as error:
        raise CorpusError(f"{name} cannot be read: {error.strerror or error}.") from None
    from fairspan.embedding.dataset import Dataset

    return Dataset(name, fields)


def _in_folder(folder: Path) -> dict[str, Path]:
    """The files of a folder and of those below it: data if there is any, and otherwise texts."""
    every = {str(file.relative_to(folder).as_posix()): file for file in folder.rglob("*") if file.is_file()}
    plain = {name: file for name, file in sorted(every.items()) if "/." not in f"/{name}"}
    for endings in ((*LINES, *ROWS), TEXTS):
        found = {name: file for name, file in plain.items() if name.endswith(endings)}
        if found:
            return found
    raise CorpusError(f"{folder} holds no file that ends in {', '.join((*LINES, *ROWS, *TEXTS))}.")
