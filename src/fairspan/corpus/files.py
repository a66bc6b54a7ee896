"""The records of one file: JSON Lines, Parquet or a document."""

import bz2
import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from fairspan.corpus.document_text import document_text
from fairspan.corpus.formats import JSON, LINES, PARQUET, TEXTS, ends_in
from fairspan.corpus.record import Record
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError, first_line

# Rows of a Parquet file that are decoded at once.
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of tables that are read: those that are needed, and optional ones."""

    needed: tuple[str, ...] = ("text",)
    optional: tuple[str, ...] = ()

    def of(self, table: str, present: Iterable[str]) -> list[str]:
        """The columns to read of a table; an error if one is missing."""
        present = list(present)
        for name in self.needed:
            if name not in present:
                listed = ", ".join(present)
                raise CorpusError(f"{table} has no column '{name}'. Columns there: {listed}.")
        return [name for name in dict.fromkeys((*self.needed, *self.optional)) if name in present]


TEXT = Columns()


def read_lines(label: str, path: Path, columns: Columns = TEXT) -> Iterator[Record]:
    """The objects of a JSON Lines file."""
    for number, line, done in lines(path):
        if line.strip():
            yield parse_line(label, number, line.rstrip(), done)


def parse_line(label: str, number: int, line: bytes, done: int = 0) -> Record:
    """The object on a line, or what is wrong with it."""
    try:
        fields: Any = json.loads(decode(line))
    except json.JSONDecodeError as error:
        fault = f"not JSON ({error.msg}, character {error.colno}). Each line holds one object."
    except CorpusError as error:
        fault = str(error)
    except (ValueError, RecursionError) as error:
        fault = f"JSON that cannot be read ({error})."
    else:
        if isinstance(fields, dict):
            return Record(label, number, fields, done=done)
        fault = f"not an object but {describe(fields)}. Each line holds one object."
    return Record(label, number, {}, fault, done)


def read_parquet(label: str, path: Path, columns: Columns) -> Iterator[Record]:
    """The rows of a Parquet file."""
    import polars as pl

    try:
        table = pl.scan_parquet(path, glob=False)  # a folder's name may hold brackets and asterisks
        names = columns.of(label, table.collect_schema())
        size = path.stat().st_size
        count = int(table.select(pl.len()).collect().item())
        # Slices of a table would decode a row group again for each.
        batches = table.select(names).collect_batches(chunk_size=_BATCH, lazy=True)
        rows = chain.from_iterable(batch.iter_rows(named=True) for batch in batches)
        for number, fields in enumerate(rows, start=1):
            yield Record(label, number, fields, done=size * number // count)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{label} is not a Parquet file: {first_line(error)}.") from None


def read_document(label: str, path: Path, columns: Columns) -> Iterator[Record]:
    """One document, whose id is its file's name."""
    content = path.read_bytes()
    try:
        fields = {"id": label, "text": document_text(label, content)}
        yield Record(label, 1, fields, done=len(content))
    except CorpusError as error:
        yield Record(label, 1, {"id": label}, str(error), len(content))


def lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """The lines of a file, counted from 1, without a byte order mark; the bytes read after each."""
    with opened(path) as (raw, file):
        for number, line in enumerate(file, start=1):
            yield number, line.removeprefix(BOM_UTF8) if number == 1 else line, raw.tell()


def decode(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} of the line (0x{line[error.start]:02x})"
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


Reader = Callable[[str, Path, Columns], Iterator[Record]]
_READERS: dict[tuple[str, ...], Reader] = {
    (*LINES, *JSON): read_lines,
    PARQUET: read_parquet,
    TEXTS: read_document,
}


def read_file(label: str, path: Path, columns: Columns) -> Iterator[Record]:
    """The records of a file; the ending of `label` says its format."""
    reader = next(reader for endings, reader in _READERS.items() if ends_in(label, endings))
    return reader(label, path, columns)
