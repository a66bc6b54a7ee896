"""`Segment`: one coherent text, the unit that documents are built from."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairspan.errors import CorpusError

UNKNOWN = "und"
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Segment:
    """A text in one language; its translations carry the same `id`."""

    id: str
    language: str
    text: str
    title: str | None = None

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_text("language", self.language)
        require_text("text", self.text)
        if self.title is not None:
            require_string("title", self.title)


def describe(value: object) -> str:
    """The beginning of a value as JSON."""
    return json.dumps(value, default=repr)[:40]


def few(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def require_text(field: str, value: object) -> str:
    text = require_string(field, value)
    if not text.strip():
        raise CorpusError(f"'{field}' is empty.")
    return text


def require_string(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise CorpusError(f"'{field}' must be text, got {describe(value)}.")
    lone = _SURROGATE.search(value)
    if lone:
        where = f"(\\u{ord(lone[0]):04x}) after {lone.start()} characters"
        raise CorpusError(f"'{field}' has a lone surrogate {where}, which no tokenizer accepts.")
    return value
