"""`Header`: what run.json says of a run, read and written in one place."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fairspan.corpus.corpus import Corpus
from fairspan.errors import FairspanError
from fairspan.runs.folder import HEADER
from fairspan.runs.identity import library_versions
from fairspan.runs.options import as_json

FORMAT = 2
# Of a token, where a server does not count tokens: about what English has.
USUAL_CHARACTERS = 4.0
Entries = TypeVar("Entries")


def optional() -> Any:
    """A field whose entry is missing where the value is None."""
    return field(default=None, metadata={"optional": True})


def inlined() -> Any:
    """A dataclass whose entries stand among those of its owner; None if they are missing."""
    return field(default=None, metadata={"inline": True})


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **library_versions()}


@dataclass(frozen=True, slots=True)
class TransformerInfo:
    """A SentenceTransformer; `window` is None if it reads texts of any length."""

    window: int | None
    similarity: str
    device: str
    dtype: str | None
    calibrations: list[dict[str, Any]]
    parameters: int


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """An endpoint, with what its answers said."""

    endpoint: str
    dimensions: int | None
    body: dict[str, Any] | None
    query_body: dict[str, Any] | None
    answers_name: list[str]
    requests: int
    prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model of a run; without a fingerprint its vectors are not stored."""

    name: str
    fingerprint: str | None
    prompts: dict[str, str] | None = optional()
    transformer: TransformerInfo | None = inlined()
    endpoint: EndpointInfo | None = inlined()


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """A corpus in the languages that were read, with the fingerprint of each of them."""

    name: str
    fingerprint: str
    languages: list[str]
    segments: int | None = optional()
    by_language: dict[str, str] | None = optional()

    @classmethod
    def of(cls, corpus: Corpus, segments: int | None = None) -> CorpusInfo:
        languages = list(corpus.languages)
        prints = {language: corpus.select([language]).fingerprint for language in languages}
        return cls(corpus.name, corpus.fingerprint, languages, segments, prints)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """What is searched.

    Attributes:
        clusters: groups of queries that share documents.
    """

    source: str
    names: list[str]
    fingerprints: list[str] | None = optional()
    queries: int
    documents: int
    clusters: int | None = optional()


@dataclass(frozen=True, slots=True)
class WindowInfo:
    """How far a treatment reads one kind of text, and how many of these texts were cut.

    Attributes:
        texts: "documents", "segments", "queries", or "evidence": documents up to the end of it.
        window: None where no limit is known.
    """

    treatment: str
    texts: str
    window: int | None
    count: int
    cut: int


@dataclass(frozen=True, slots=True)
class Machine:
    system: str = field(default_factory=platform.system)
    processor: str = field(default_factory=platform.machine)
    cores: int | None = field(default_factory=os.cpu_count)


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a run took and what it computed; empty until it ends."""

    seconds: float | None = optional()
    texts_computed: int | None = optional()
    tokens_computed: int | None = optional()
    texts_from_store: int | None = optional()
    batches_halved: int | None = optional()


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent to an endpoint; `characters_per_token` is None if it counts no tokens."""

    texts: int
    characters: int
    tokens: int
    characters_per_token: float | None
    stored: int

    @property
    def words(self) -> str:
        """Such as "1,200 texts to send, 900,000 characters, about 230,000 tokens (…)"."""
        stored = f"; {self.stored:,} texts are in the store" if self.stored else ""
        if not self.texts:
            return f"nothing to send{stored}"
        measured = self.characters_per_token
        rate = f"{measured or USUAL_CHARACTERS:{'.1f' if measured else '.0f'}} characters per token"
        estimate = f"assuming {rate}, because the endpoint does not count them"
        if measured:
            estimate = f"estimated from a first small request, {rate}"
        tokens = f"about {round(self.tokens, 2 - len(str(self.tokens))):,} tokens ({estimate})"
        return f"{self.texts:,} texts to send, {self.characters:,} characters, {tokens}{stored}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a log says of its run.

    Attributes:
        key: see `key_of`; None if the run can only be found by its name.
        spec: what was asked, as JSON holds it.
        plans: languages of documents, in audits and of pages.
        study: entries that only this kind of study has: its dataclass, or as they were read.
    """

    verb: str
    run: str
    key: str | None = None
    model: ModelInfo
    token_unit: str = "tokens"
    seed: int = 0
    spec: dict[str, Any]
    sources: list[str] = field(default_factory=list)
    corpus: CorpusInfo | None = optional()
    task: TaskInfo | None = optional()
    plans: list[str] | None = optional()
    documents: int | None = optional()
    windows: list[WindowInfo] | None = optional()
    status: str = "running"
    started: str = field(default_factory=now)
    finished: str | None = None
    error: str | None = None
    versions: dict[str, str] = field(default_factory=_versions)
    machine: Machine = field(default_factory=Machine)
    rows: int = 0
    timings: Timings = field(default_factory=Timings)
    notes: list[str] = field(default_factory=list)
    sending: Sending | None = optional()
    study: Any = inlined()

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @property
    def searched(self) -> TaskInfo:
        """The task, of a study that has one."""
        if self.task is None:
            raise ValueError(f"{HEADER} has no task")
        return self.task

    def part(self, kind: type[Entries]) -> Entries:
        """The entries that only this study has, as its dataclass."""
        if isinstance(self.study, kind):
            return self.study
        try:
            return read_entries(kind, self.study)
        except ValueError as error:
            raise FairspanError(
                f"the run {self.run} was measured by another version of fairspan, and is not read "
                f"by this one ({error}): run its command again."
            ) from None

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **as_json(self)}


def read_header(folder: Path) -> Header:
    """What run.json in a folder says."""
    file = folder / HEADER
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        written = entries.get("format") if isinstance(entries, dict) else None
        if written != FORMAT:
            raise FairspanError(
                f"{file} has format {written!r}, and this fairspan reads format "
                f"{FORMAT}: run its command again."
            )
        return parse_header(entries)
    except FileNotFoundError:
        raise FairspanError(f"{folder} is not the folder of a run: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise FairspanError(
            f"{file} cannot be read ({error}): choose another folder, or remove this one."
        ) from None


def parse_header(entries: Mapping[str, Any]) -> Header:
    """The header with the entries of run.json; those of one study stay as they are."""
    names = {entry.name for entry in fields(Header)} | {"format"}
    study = {name: value for name, value in entries.items() if name not in names}
    return read_entries(Header, {**entries, "study": study})


def read_entries(kind: type[Entries], entries: Any, name: str = "it") -> Entries:
    """A dataclass from the entries of a JSON object; a ValueError says what is wrong with them."""
    if not isinstance(entries, Mapping):
        raise ValueError(f"{name} is no object")
    hints = get_type_hints(kind)
    values = {}
    for entry in fields(kind):  # type: ignore[arg-type]
        hint = hints[entry.name]
        if entry.metadata.get("inline") and hint is not Any:
            inner = get_args(hint)[0]
            if fields(inner)[0].name in entries:
                values[entry.name] = read_entries(inner, entries)
        elif entry.name in entries:
            values[entry.name] = _read(hint, entries[entry.name], entry.name)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{entry.name} is missing")
    return kind(**values)


def _read(hint: Any, value: Any, name: str) -> Any:
    """A JSON value as a dataclass, a list, a dict, a plain type, or one of these or None."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    if hint is Any or (value is None and NoneType in arguments):
        return value
    if origin is UnionType:
        return _read(arguments[0], value, name)
    if is_dataclass(hint):
        return read_entries(hint, value, name)  # type: ignore[arg-type]
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], item, name) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: _read(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    plain = isinstance(value, (int, float) if hint is float else origin or hint)
    if plain and isinstance(value, bool) == (hint is bool):
        return value
    raise ValueError(f"{name} is {str(value)[:40]!r}")
