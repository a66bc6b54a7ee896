"""`Corpus`: segments aligned by id across languages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from fairspan.corpus.segment import Segment, few
from fairspan.errors import CorpusError, require_list

if TYPE_CHECKING:
    from fairspan.corpus.readers import Reading
    from fairspan.corpus.source import SourceLike


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Segments, in the order of `languages` and `ids`; `notes` are for readers of results."""

    name: str
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    _by_language: dict[str, dict[str, Segment]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Group the segments by language."""
        by_language: dict[str, dict[str, Segment]] = {}
        for segment in self.segments:
            ids = by_language.setdefault(segment.language, {})
            if segment.id in ids:
                twice = f"{segment.id!r} in {segment.language!r}"
                raise CorpusError(f"{self.name} has two segments {twice}.")
            ids[segment.id] = segment
        if not by_language:
            raise CorpusError(f"{self.name} has no segments.")
        object.__setattr__(self, "_by_language", by_language)

    @classmethod
    def from_segments(cls, name: str, segments: Iterable[Segment]) -> Corpus:
        return cls(name, tuple(segments))

    @classmethod
    def read(
        cls, source: SourceLike, languages: Sequence[str] | None = None, partial: bool = False
    ) -> Corpus:
        """Read a corpus.

        Args:
            source: "sample" (a folder of that name is "./sample"); a folder of `{language}.jsonl`
                or `.parquet` files, whose records have ids that translations share; a JSON Lines or
                Parquet file, or a folder of them, whose records may have a field `language`; a
                document (text, Markdown, HTML or PDF) or a folder of them; the name of a dataset on
                the Hugging Face hub with one split or one configuration per language, or of one of
                its splits or configurations, as name:split; or records in Python.
            languages: those to read, by default all. Records without a language are in the one that
                is named here, or else in "und".
            partial: accept that some segments lack a translation; `ids` then gives the others.
        """
        # Formats take longer to import than a command line should before it answers.
        from fairspan.corpus.readers import find_sources, read_segments

        wanted = parse_languages(languages)
        reading = read_segments(find_sources(source), wanted)
        chosen = wanted or tuple(reading.languages)
        _require_there(reading.name, chosen, reading.languages)
        if not partial:
            _require_aligned(reading, chosen)
        return _corpus(reading).select(chosen)

    @classmethod
    def read_first(cls, source: SourceLike) -> Corpus:
        """The texts of a source in one language: English, or else its first.

        No source of another language is opened. A note names what is left out.
        """
        from fairspan.corpus.readers import EMBEDDED, find_sources, read_segments

        sources = find_sources(source)
        asked = [_first(sources.languages)] if sources.languages else None
        corpus = _corpus(read_segments(sources, asked))
        first = _first(corpus.languages)
        chosen = corpus.select([first])
        ids = set(chosen.ids())
        untranslated = (part.language for part in corpus.segments if part.id not in ids)
        unread = [
            name for name in sources.languages or dict.fromkeys(untranslated) if name != first
        ]
        if not unread or sources.name in EMBEDDED:
            return chosen
        note = f"not read: texts in {few(unread, 8)}; name a language to use it"
        return replace(chosen, notes=(*chosen.notes, note))

    def __len__(self) -> int:
        """How many segments there are, translations counted."""
        return len(self.segments)

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, {len(self)} segments in {', '.join(self.languages)})"

    @property
    def label(self) -> str:
        """The name for errors on its size, with the notes that may explain it."""
        return f"{self.name} ({'; '.join(self.notes)})" if self.notes else self.name

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in order of appearance."""
        return tuple(self._by_language)

    def ids(self, languages: Sequence[str] | None = None) -> tuple[str, ...]:
        """The ids that exist in all of these languages (by default all of the corpus's)."""
        tables = self._tables(languages)
        every = dict.fromkeys(segment.id for segment in self.segments)
        return tuple(id for id in every if all(id in table for table in tables))

    def segment(self, id: str, language: str) -> Segment:
        _require_there(self.name, [language], self.languages)
        try:
            return self._by_language[language][id]
        except KeyError:
            raise CorpusError(f"{self.name} has no segment {id!r} in {language!r}.") from None

    def text(self, id: str, language: str) -> str:
        return self.segment(id, language).text

    def select(self, languages: Sequence[str]) -> Corpus:
        """Only these languages, in this order."""
        tables = self._tables(languages)
        segments = tuple(segment for table in tables for segment in table.values())
        return Corpus(self.name, segments, self.notes)

    def _tables(self, languages: Sequence[str] | None) -> list[dict[str, Segment]]:
        """The segments of these languages by id."""
        chosen = parse_languages(languages) or self.languages
        _require_there(self.name, chosen, self.languages)
        return [self._by_language[language] for language in chosen]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of ids, languages and texts, whatever their files and their order."""
        digest = sha256()
        for key in sorted((part.id, part.language, part.text) for part in self.segments):
            digest.update(json.dumps(key).encode() + b"\n")
        return digest.hexdigest()


def parse_languages(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The languages asked for; None for all."""
    if languages is None:
        return None
    if isinstance(languages, str) or not all(isinstance(name, str) for name in languages):
        require_list("languages", str(languages), "['en', 'de']", CorpusError)
    if not languages:
        raise CorpusError("languages is empty: name at least one, or omit it to take all.")
    twice = [language for language, count in Counter(languages).items() if count > 1]
    if twice:
        raise CorpusError(f"languages names {twice[0]!r} twice.")
    return tuple(languages)


def _corpus(reading: Reading) -> Corpus:
    return Corpus(reading.name, tuple(reading.segments), tuple(reading.notes))


def _first(languages: Sequence[str]) -> str:
    return "en" if "en" in languages else languages[0]


def _require_there(name: str, languages: Sequence[str], present: Sequence[str]) -> None:
    missing = [repr(language) for language in languages if language not in present]
    if missing:
        listed = f"Languages there: {', '.join(present)}."
        raise CorpusError(f"{name} has no language {', '.join(missing)}. {listed}")


def _require_aligned(reading: Reading, languages: Sequence[str]) -> None:
    """An error unless every id exists in all of the languages."""
    ids: dict[str, dict[str, None]] = {language: {} for language in languages}
    for segment in reading.segments:
        ids[segment.language][segment.id] = None
    union = dict.fromkeys(segment.id for segment in reading.segments)
    gaps = []
    for language in languages:
        lacking = [repr(id) for id in union if id not in ids[language]]
        if lacking:
            gaps.append(f"{language} lacks {few(lacking)}")
    if gaps:
        counts = ", ".join(f"{language} {len(present)}" for language, present in ids.items())
        wrong = f"the languages of {reading.name} do not have the same segments ({counts})"
        remedy = (
            "Complete them, set partial to use only the ids that they share, or rename files whose "
            "names are no languages."
        )
        raise CorpusError(f"{wrong}: {'; '.join(gaps)}. {remedy}")
