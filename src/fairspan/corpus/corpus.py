"""`Corpus`: segments aligned by id across languages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from fairspan.corpus.readers import Reading, read_segments
from fairspan.corpus.segment import Segment
from fairspan.corpus.source import Given
from fairspan.errors import CorpusError, require_list


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Segments, each known by its id and its language.

    Attributes:
        segments: in the order in which they were read; this order decides that of `languages` and `ids`.
        notes: what a reader of results should know about how the corpus was read.

    >>> Corpus.from_segments("two", [Segment("a", "en", "Hello."), Segment("a", "de", "Hallo.")]).languages
    ('en', 'de')
    """

    name: str
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    _by_language: dict[str, dict[str, Segment]] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        by_language: dict[str, dict[str, Segment]] = {}
        for segment in self.segments:
            ids = by_language.setdefault(segment.language, {})
            if segment.id in ids:
                raise CorpusError(
                    f"{self.name} has two segments {segment.id!r} in {segment.language!r}."
                )
            ids[segment.id] = segment
        if not by_language:
            raise CorpusError(f"{self.name} has no segments.")
        object.__setattr__(self, "_by_language", by_language)

    @classmethod
    def from_segments(cls, name: str, segments: Iterable[Segment]) -> Corpus:
        """A corpus of these segments; languages may have different ids."""
        return cls(name, tuple(segments))

    @classmethod
    def read(
        cls, source: Given, languages: Sequence[str] | None = None, partial: bool = False
    ) -> Corpus:
        """Read a corpus.

        Args:
            source: "sample" (a folder of that name is "./sample"); a folder of `{language}.jsonl` or `.parquet`
                files; a JSON Lines or Parquet file, or a folder of them, whose records may have a field `language`; a
                .txt or .md file or a folder of them; the name of a dataset on the Hugging Face hub with one split or
                one configuration per language, or of one of its splits, as name:split; or records in Python.
            languages: those to read, by default all. Only these are checked. What does not say its language is in
                the one that is named here, or else in "und".
            partial: accept that some segments lack a translation; `ids` then gives those that do not.
        """
        wanted = parse_languages(languages)
        reading = read_segments(source, wanted)
        chosen = wanted or tuple(reading.languages)
        _require_there(reading.name, chosen, reading.languages)
        if not partial:
            _require_aligned(reading, chosen)
        corpus = cls(reading.name, tuple(reading.segments), reading.notes).select(chosen)
        # Texts of several languages need not be translations, unless these languages are asked for.
        if wanted is not None and not corpus.ids():
            raise CorpusError(f"{corpus.name} has no id that is in all of {', '.join(chosen)}.")
        return corpus

    def __len__(self) -> int:
        """How many segments there are, translations counted."""
        return len(self.segments)

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, {len(self)} segments in {', '.join(self.languages)})"

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in order of appearance."""
        return tuple(self._by_language)

    def ids(self, languages: Sequence[str] | None = None) -> tuple[str, ...]:
        """The ids that are there in all of these languages (by default all of the corpus's), in its order."""
        chosen = self._chosen(languages)
        tables = [self._by_language[language] for language in chosen]
        return tuple(
            dict.fromkeys(s.id for s in self.segments if all(s.id in table for table in tables))
        )

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
        segments = (
            segment
            for language in self._chosen(languages)
            for segment in self._by_language[language].values()
        )
        return Corpus(self.name, tuple(segments), self.notes)

    def _chosen(self, languages: Sequence[str] | None) -> tuple[str, ...]:
        chosen = parse_languages(languages) or self.languages
        _require_there(self.name, chosen, self.languages)
        return chosen

    @property
    def fingerprint(self) -> str:
        """SHA-256 of ids, languages and texts: the same for the same content, whatever its files and their order."""
        digest = sha256()
        for key in sorted(
            (segment.id, segment.language, segment.text) for segment in self.segments
        ):
            digest.update(json.dumps(key).encode() + b"\n")
        return digest.hexdigest()


def parse_languages(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The languages asked for, each once; None for all."""
    if languages is None:
        return None
    of_words = not isinstance(languages, str) and all(
        isinstance(language, str) for language in languages
    )
    require_list(
        "languages", languages if of_words else str(languages), "['en', 'de']", CorpusError
    )
    if not languages:
        raise CorpusError("languages is empty: name at least one, or omit it to take all.")
    twice = [language for language in languages if list(languages).count(language) > 1]
    if twice:
        raise CorpusError(f"languages names {twice[0]!r} twice.")
    return tuple(languages)


def _require_there(name: str, languages: Sequence[str], there: Sequence[str]) -> None:
    missing = [language for language in languages if language not in there]
    if missing:
        raise CorpusError(
            f"{name} has no language {', '.join(map(repr, missing))}. Languages there: {', '.join(there)}."
        )


def _require_aligned(reading: Reading, languages: Sequence[str]) -> None:
    """An error unless every id is there in all of the languages."""
    ids = {
        language: {s.id for s in reading.segments if s.language == language}
        for language in languages
    }
    union = dict.fromkeys(s.id for s in reading.segments if s.language in ids)
    gaps = []
    for language in languages:
        lacking = [id for id in union if id not in ids[language]]
        if lacking:
            more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
            gaps.append(f"{language} lacks {', '.join(map(repr, lacking[:3]))}{more}")
    if gaps:
        counts = ", ".join(f"{language} {len(own)}" for language, own in ids.items())
        raise CorpusError(
            f"the languages of {reading.name} do not have the same segments ({counts}): {'; '.join(gaps)}. Complete "
            "them, or set partial to use only the ids that they share."
        )
