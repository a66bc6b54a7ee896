"""`Header`: what run.json says of a run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from fairspan.corpus.corpus import Corpus
from fairspan.errors import FairspanError
from fairspan.runs.entries import as_json, read_entries
from fairspan.runs.folder import HEADER
from fairspan.runs.versions import all_versions

FORMAT = 3
Entries = TypeVar("Entries")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class TransformerInfo:
    """A SentenceTransformer; `window` is None if it reads texts of any length."""

    window: int | None
    similarity: str
    device: str
    dtype: str | None
    calibrations: tuple[Mapping[str, Any], ...]
    parameters: int


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """An endpoint, with what its answers said."""

    url: str
    dimensions: int | None
    body: Mapping[str, Any] | None
    query_body: Mapping[str, Any] | None
    answers_name: tuple[str, ...]
    requests: int
    prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model of a run; without a fingerprint its vectors are not stored."""

    name: str
    fingerprint: str | None
    prompts: Mapping[str, str] | None = None
    transformer: TransformerInfo | None = None
    endpoint: EndpointInfo | None = None


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """A corpus in the languages that were read."""

    name: str
    fingerprint: str
    languages: tuple[str, ...]
    segments: int | None = None

    @classmethod
    def of(cls, corpus: Corpus, segments: int | None = None) -> CorpusInfo:
        return cls(corpus.name, corpus.fingerprint, tuple(corpus.languages), segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """What is searched.

    Attributes:
        clusters: groups of queries that share documents.
    """

    source: str
    names: tuple[str, ...]
    fingerprints: tuple[str, ...] = ()
    queries: int
    documents: int
    clusters: int | None = None


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

    seconds: float | None = None
    texts_computed: int | None = None
    tokens_computed: int | None = None
    texts_from_store: int | None = None
    batches_halved: int | None = None


@dataclass(frozen=True, slots=True)
class Sending:
    """What is sent to an endpoint, and how many texts of the run the store has."""

    texts: int
    characters: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a log says of its run.

    Attributes:
        spec: what was asked to be measured, as JSON holds it.
        analysis: how it was asked to be analysed.
        plans: languages of documents, in audits.
        study: entries that only this kind of study has: its dataclass, or as they were read.
    """

    verb: str
    run: str
    model: ModelInfo
    token_unit: str = "tokens"
    spec: Mapping[str, Any]
    analysis: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    corpus: CorpusInfo | None = None
    task: TaskInfo | None = None
    plans: tuple[str, ...] = ()
    documents: int | None = None
    windows: tuple[WindowInfo, ...] = ()
    status: str = "running"
    started: str = field(default_factory=now)
    finished: str | None = None
    error: str | None = None
    versions: Mapping[str, str] = field(default_factory=all_versions)
    machine: Machine = field(default_factory=Machine)
    rows: int = 0
    timings: Timings = field(default_factory=Timings)
    notes: tuple[str, ...] = ()
    sending: Sending | None = None
    study: Any = None

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
                f"by this one ({error}): run its command again with fresh."
            ) from None

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **as_json(self)}


def read_header(folder: Path) -> Header:
    """What run.json in a folder says."""
    file = folder / HEADER
    remedy = "choose another folder, or remove this one and run its command again"
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        written = entries.get("format") if isinstance(entries, dict) else None
        if written != FORMAT:
            raise FairspanError(
                f"{file} has format {written!r}, and this fairspan reads format {FORMAT}: {remedy}."
            )
        return read_entries(Header, entries)
    except FileNotFoundError:
        raise FairspanError(f"{folder} is not the folder of a run: it has no {HEADER}.") from None
    except (OSError, ValueError) as error:
        raise FairspanError(f"{file} cannot be read ({error}): {remedy}.") from None
