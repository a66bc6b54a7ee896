"""One document from a file or from stdin: text, Markdown, HTML, PDF, JSON or JSON Lines."""

import json
import sys
from pathlib import Path
from typing import Any

from fairspan.corpus.document_text import document_text
from fairspan.corpus.files import unreadable
from fairspan.corpus.formats import MARKDOWN
from fairspan.corpus.marked_text import MarkedText, join_segments, mark
from fairspan.corpus.record import missing_field, text_of
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError

STDIN = "-"
JSON_LINES = (".jsonl", ".ndjson")
# How a JSON document begins if no file name shows its format, as in a pipe.
_JSON_BEGINS = ('{"', '["', "[{")


def read_document(source: Path | str, borders: str = "auto") -> MarkedText:
    """The document in a file, or in stdin ("-"), with borders as in `marked_text.mark`.

    Its segments are marked if something shows them. A file's ending says its format; in stdin the
    beginning of the text does.
    """
    piped = str(source) == STDIN
    try:
        content = sys.stdin.buffer.read() if piped else Path(source).read_bytes()
    except OSError as error:
        raise unreadable(source, error) from None
    label = "stdin" if piped else Path(source).name
    try:
        text = document_text(label, content).replace("\r\n", "\n").replace("\r", "\n")
        return _parsed(text, Path(label).suffix.lower(), borders)
    except CorpusError as error:
        placed = str(error).startswith(("line ", "segment "))
        raise CorpusError(f"{label}{', ' if placed else ': '}{error!s}") from None


def _parsed(text: str, ending: str, borders: str) -> MarkedText:
    if ending in JSON_LINES:
        lines = enumerate(text.split("\n"), start=1)
        return _join([_json(line, number) for number, line in lines if line.strip()], borders)
    bare_json = not ending and "".join(text[:200].split()).startswith(_JSON_BEGINS)
    if ending == ".json" or bare_json:
        return _from_json(_json(text), borders)
    return mark(text, borders, markdown=ending in MARKDOWN)


def _json(text: str, first: int = 1) -> Any:
    """The value of a JSON text, whose first line has that number."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {first + error.lineno - 1}"
        raise CorpusError(f"{place}: not JSON ({error.msg}, character {error.colno}).") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"JSON that cannot be read ({error}).") from None


def _from_json(value: Any, borders: str) -> MarkedText:
    """A list of segments, `{"segments": […]}` or `{"text": …}`."""
    if isinstance(value, list):
        return _join(value, borders)
    if not isinstance(value, dict):
        raise CorpusError(f"a document is an object or a list of segments, got {describe(value)}.")
    if "segments" in value:
        return _join(value["segments"], borders)
    if "text" not in value:
        raise missing_field("segments' or 'text", value)
    return mark(text_of(value, "text"), borders)


def _join(segments: Any, borders: str) -> MarkedText:
    if borders == "auto":
        return join_segments(segments)
    reason = "the segments are given in the file"
    raise CorpusError(f"{reason}, so borders={borders} cannot be used: omit it.")
