"""JSON objects of a dump, line by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairspan.corpus.wikipedia.streams import CutOff, lines
from fairspan.errors import CorpusError


def numbered_records(path: Path, passed: int = 0) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Of every line its number from 1, the bytes of the file read so far, and the object on it.

    The first `passed` lines are not parsed.
    """
    number = 0
    try:
        for number, (line, reached) in enumerate(lines(path), start=1):
            if number > passed and not line.isspace():
                yield number, reached, _record(path, number, line)
    except CutOff:
        raise CorpusError(
            f"{path.name} is damaged or cut off after line {number}. Download it again; the pages before that place "
            "have been read."
        ) from None


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        if not line.endswith(b"\n"):
            raise CutOff from None
        raise CorpusError(f"{path.name}, line {number}: not JSON. Download the dump again.") from None
    if not isinstance(record, dict):
        raise CorpusError(f"{path.name}, line {number}: not an object, so this is no dump of articles.")
    return record


def whole(value: object) -> int | None:
    """A whole number, or a text of digits."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def word(value: object) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""
