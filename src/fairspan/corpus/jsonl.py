"""JSON Lines, plain or gzipped, read line by line."""

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairspan.corpus.rows import Fault, Row, Source
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError


def jsonl(path: Path) -> Source:
    """The lines of a file; blank ones are passed over but counted."""
    rows = (parse_line(number, line.rstrip()) for number, line in lines(path) if line.strip())
    return Source(path.name, "line", rows)


def lines(path: Path, label: str = "") -> Iterator[tuple[int, bytes]]:
    """The lines of a file, plain or gzipped, counted from 1, without a byte order mark."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, line.removeprefix(BOM_UTF8) if number == 1 else line
    except (EOFError, zlib.error, gzip.BadGzipFile):
        place = label or path.name
        raise CorpusError(f"{place}: the gzip file is damaged or cut off after line {number}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def decode(line: bytes) -> str:
    """A line as text; an error that names the first byte that is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} of the line (0x{line[error.start]:02x})"
        raise CorpusError(f"{bad} is not UTF-8. Save the file as UTF-8.") from None


def parse_line(number: int, line: bytes) -> Row | Fault:
    """The object on a line, or what is wrong with it."""
    try:
        fields: Any = json.loads(decode(line))
    except CorpusError as error:
        return Fault(number, error.message)
    except json.JSONDecodeError as error:
        return Fault(number, f"not JSON ({error.msg}, character {error.colno}). Each line holds one object.")
    except (ValueError, RecursionError) as error:
        return Fault(number, f"JSON that cannot be read ({error}).")
    if not isinstance(fields, dict):
        return Fault(number, f"not an object but {describe(fields)}. Each line holds one object.")
    return Row(number, fields)
