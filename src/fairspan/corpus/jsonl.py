"""JSON Lines, plain or gzipped, read line by line."""

from __future__ import annotations

import gzip
import json
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from fairspan.corpus.rows import Fault, Row, Source
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError


def jsonl(path: Path) -> Source:
    """The lines of a file; blank ones are passed over but counted."""
    return Source(path.name, "line", _rows(path))


def _rows(path: Path) -> Iterator[Row | Fault]:
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                content = (line.removeprefix(BOM_UTF8) if number == 1 else line).rstrip()
                if content:
                    yield _row(number, content)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorpusError(f"{path.name}: the gzip file is damaged or cut off after line {number}.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _row(number: int, line: bytes) -> Row | Fault:
    try:
        fields: Any = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        bad = f"byte {error.start + 1} of the line (0x{line[error.start]:02x})"
        return Fault(number, f"{bad} is not UTF-8. Save the file as UTF-8.")
    except json.JSONDecodeError as error:
        return Fault(number, f"not JSON ({error.msg}, character {error.colno}). Each line holds one object.")
    except (ValueError, RecursionError) as error:
        return Fault(number, f"JSON that cannot be read ({error}).")
    if not isinstance(fields, dict):
        return Fault(number, f"not an object but {describe(fields)}. Each line holds one object.")
    return Row(number, fields)
