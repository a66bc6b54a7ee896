"""From the records of any source to segments in languages; errors name the file and the line."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairspan.corpus.files import Columns
from fairspan.corpus.formats import ENDINGS, TEXTS, ends_in
from fairspan.corpus.record import Record, id_of, missing_field, text_of
from fairspan.corpus.segment import UNKNOWN, Segment, describe, few
from fairspan.corpus.source import Files, Records, Source, SourceLike, files_of, find_dataset
from fairspan.errors import CorpusError

SAMPLE = "sample"
LONG_SAMPLE = "long-sample"
EMBEDDED = {name: Path(__file__).parent / "data" / name for name in (SAMPLE, LONG_SAMPLE)}
SAMPLE_LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
_COLUMNS = Columns(("text",), ("id", "language", "title"))
# Codes such as en, pt-BR or zh-min-nan, and Wikipedia's Simple English.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-([A-Za-z]{2,8}|\d{3}))*|simple")
_NO_LANGUAGES = ("all", "dev", "val")


@dataclass(frozen=True, slots=True)
class Sources:
    """What a corpus is read from: how to open the source of each language.

    The records of a single source may name other languages than its own.
    """

    name: str
    openers: Mapping[str, Callable[[], Source]]
    notes: tuple[str, ...] = ()

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that have a source each; none if records name theirs."""
        return tuple(self.openers) if len(self.openers) > 1 else ()


@dataclass(slots=True)
class Reading:
    """Segments as they are read, in the languages `asked` for; None for all.

    `languages` are also others that are there. `aligned`: each source is in one language, and its
    records need ids.
    """

    name: str
    asked: Sequence[str] | None
    aligned: bool
    languages: list[str]
    notes: list[str]
    segments: list[Segment] = field(default_factory=list)
    faults: list[Record] = field(default_factory=list)
    _places: dict[tuple[str, str], str] = field(default_factory=dict)
    _names_language: bool | None = None

    def add(self, record: Record, usual: str) -> None:
        """Add a record of a source in a language to the segments, or to the faults."""
        try:
            if record.fault:
                raise CorpusError(record.fault)
            language = self._language(record, usual)
            if language not in self.languages:
                self.languages.append(language)
            if self.asked is None or language in self.asked:
                self._add(self._segment(record, language), record.place)
        except CorpusError as error:
            self.faults.append(replace(record, fault=str(error)))

    def _segment(self, record: Record, language: str) -> Segment:
        """The segment of a record, whose id may be its place if it needs none."""
        if "id" in record.fields:
            id = id_of(record.fields, "id")
        elif self.aligned:
            remedy = "Give translations the same id, or rename files whose names are no languages."
            raise CorpusError(f"{missing_field('id', record.fields)} {remedy}")
        else:
            id = f"{record.file}#{record.number}"
        return Segment(id, language, text_of(record.fields, "text"), record.fields.get("title"))

    def _add(self, segment: Segment, place: str) -> None:
        before = self._places.setdefault((segment.id, segment.language), place)
        if before != place:
            raise CorpusError(f"the id {segment.id!r} was already used at {before}.")
        self.segments.append(segment)

    def _language(self, record: Record, usual: str) -> str:
        """The language that a record names, or else the usual one."""
        named = record.fields.get("language")
        if usual == UNKNOWN:
            self._require_alike(named is not None)
            if self.asked is not None and len(self.asked) == 1:
                usual = self.asked[0]
        if named is None:
            return usual
        if not isinstance(named, str) or not named.strip():
            raise CorpusError(f"'language' must be text such as \"en\", got {describe(named)}.")
        if self.aligned and named != usual:
            wrong = f"'language' is {describe(named)}"
            raise CorpusError(f"{wrong}, but the file is read as {usual!r}.")
        return named

    def _require_alike(self, names_language: bool) -> None:
        """Raise unless all records name a language, or none does."""
        if self._names_language is None:
            self._names_language = names_language
        if self._names_language != names_language:
            before = "no" if names_language else "a"
            raise CorpusError(f"earlier records have {before} 'language': give all one, or none.")

    def finish(self) -> None:
        """Raise for faults; documents that cannot be read are left out if others can."""
        left_out: dict[str, list[str]] = {}
        faults = []
        for record in self.faults:
            if self.segments and ends_in(record.file, TEXTS):
                left_out.setdefault(record.fault, []).append(record.file)
            else:
                faults.append(record)
        if faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise CorpusError(f"{faults[0].place}: {faults[0].fault}{more}")
        self.notes += [f"left out: {few(files)}: {fault}" for fault, files in left_out.items()]
        if not self.languages:
            raise CorpusError(f"{self.name} is empty: it needs records with 'text'.")


def read_segments(sources: Sources, languages: Sequence[str] | None) -> Reading:
    """The segments in the languages asked for, by default all; no other source is opened."""
    aligned = bool(sources.languages)
    reading = Reading(sources.name, languages, aligned, [*sources.languages], [*sources.notes])
    for language, open_language in sources.openers.items():
        if aligned and languages is not None and language not in languages:
            continue
        for record in open_language().records():
            reading.add(record, language)
    reading.finish()
    return reading


def find_sources(source: SourceLike) -> Sources:
    """What a file, a folder, a dataset, an embedded sample or records hold; no text is read."""
    if isinstance(source, str) and source in EMBEDDED:
        sources = _sources_in(EMBEDDED[source])
        order = [language for language in SAMPLE_LANGUAGES if language in sources.openers]
        return replace(sources, openers={name: sources.openers[name] for name in order})
    if not isinstance(source, str | Path):
        return Sources(Records.name, {UNKNOWN: lambda: Records(source)})
    path = Path(source).expanduser()
    if path.exists():
        return _sources_in(path)
    repository, configuration, split = find_dataset(source)
    if configuration is None and split is None:
        places = repository.places
        if all(map(_is_language, places)):
            openers = {name: _opener(repository.open, *places[name], _COLUMNS) for name in places}
            return Sources(repository.name, openers)
    dataset = repository.open(configuration, split, _COLUMNS)
    return Sources(str(source), {UNKNOWN: lambda: dataset})


def _sources_in(path: Path) -> Sources:
    """The sources of a file or a folder, whose files may be named by their languages."""
    files, notes = files_of(path)
    if any(label.startswith("queries.jsonl") for label in files):
        remedy = (
            "Use it as a task of evaluate, or give only the file of its documents as the corpus."
        )
        raise CorpusError(f"{path} holds questions, and a corpus holds texts. {remedy}")
    name = path.resolve().name
    by_language: dict[str, dict[str, Path]] = {}
    for label, file in files.items():
        by_language.setdefault(_stem(label), {})[label] = file
    is_text = any(ends_in(label, TEXTS) for label in files)
    if path.is_file() or is_text or not all(map(_is_language, by_language)):
        by_language = {UNKNOWN: files}
    openers = {
        language: _opener(Files, str(path), of_language, _COLUMNS)
        for language, of_language in by_language.items()
    }
    return Sources(_stem(name) if path.is_file() else name, openers, notes)


def _opener(open_source: Callable[..., Source], *arguments: object) -> Callable[[], Source]:
    return lambda: open_source(*arguments)


def _is_language(name: str) -> bool:
    return _LANGUAGE.fullmatch(name) is not None and name not in _NO_LANGUAGES


def _stem(name: str) -> str:
    return next((name[: -len(ending)] for ending in ENDINGS if ends_in(name, (ending,))), name)
