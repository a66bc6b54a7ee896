"""From the records of any source to segments, each in its language; errors name the file and the line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from fairspan.corpus.rows import ENDINGS, TEXTS, Fault, Fields, Row, id_of, missing_field, text_of
from fairspan.corpus.segment import UNKNOWN, Segment, describe
from fairspan.corpus.source import Files, Given, Records, Source, files_of, find_dataset
from fairspan.errors import CorpusError

SAMPLE, LONG_SAMPLE = "sample", "long-sample"
"""The corpora that come with fairspan: paragraphs in several languages, and long essays in English."""
EMBEDDED = {name: Path(__file__).parent / "data" / name for name in (SAMPLE, LONG_SAMPLE)}
SAMPLE_LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
# Documents that are not text, and that people put beside those that are.
_DOCUMENTS = (".pdf", ".docx", ".doc", ".odt", ".html", ".htm", ".epub", ".rtf")
# Names of files that are languages: codes such as en, pt-BR or zh-min-nan, and Wikipedia's Simple English.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-([A-Za-z]{2,8}|\d{3}))*|simple")


@dataclass(slots=True)
class Reading:
    """A corpus as read, before it is known to be aligned.

    Attributes:
        sources: what is read, one after the other.
        spoken: the language of each file or split that is in one language.
        languages: all that are there, also those that were not asked for.
        notes: what a reader of results should know about how the corpus was read.
    """

    name: str
    sources: Sequence[Source]
    spoken: Mapping[str, str] = field(default_factory=dict)
    languages: list[str] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def read_segments(given: Given, languages: Sequence[str] | None) -> Reading:
    """The segments of a source in the languages asked for, by default all.

    Records without a field `language` are in the language of their file (`en.jsonl` in a folder, the split of a
    dataset), or else in the one language that is asked for, or in `UNKNOWN`.
    """
    reading = _open(given, languages, Fields(more=("language", "title")))
    rows = chain.from_iterable(source.rows() for source in reading.sources)
    _collect(reading, (row for row, _ in rows), languages)
    if not reading.languages:
        raise CorpusError(f"{reading.name} is empty: it needs records with 'id' and 'text'.")
    return reading


def _open(given: Given, languages: Sequence[str] | None, fields: Fields) -> Reading:
    if isinstance(given, str) and given in EMBEDDED:
        found = _open_files(EMBEDDED[given], languages, fields)
        return replace(found, languages=[*SAMPLE_LANGUAGES]) if given == SAMPLE else found
    if not isinstance(given, str | Path):
        return Reading(Records.name, [Records(given)])
    path = Path(given).expanduser()
    if path.exists():
        return _open_files(path, languages, fields)
    repository, named = find_dataset(given)
    there = () if any(named) else repository.languages
    if not there:
        return Reading(str(given), [repository.open(*named, fields)])
    wanted = [one for one in there if languages is None or one in languages]
    opened = {one: repository.open_language(one, fields) for one in wanted}
    spoken = {dataset.name: one for one, dataset in opened.items()}
    return Reading(repository.name, [*opened.values()], spoken, [*there])


def _open_files(path: Path, languages: Sequence[str] | None, fields: Fields) -> Reading:
    found, name = files_of(path), path.resolve().name
    if any(label.startswith("queries.jsonl") for label in found):
        raise CorpusError(
            f"{path} holds questions, and a corpus holds texts. Use it as a task of evaluate, or give only the "
            "file of its documents as the corpus."
        )
    if path.is_file():
        return Reading(_stem(name), [Files(str(path), found, fields)])
    spoken = {label: _stem(label) for label in found}
    named = all(_LANGUAGE.fullmatch(one) or one in (languages or ()) for one in spoken.values())
    if not named or any(label.endswith(TEXTS) for label in found):
        others = [file for file in path.rglob("*") if file.suffix.lower() in _DOCUMENTS]
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        notes = (f"not read, since it is not plain text: {others[0].name}{more}",) if others else ()
        return Reading(name, [Files(str(path), found, fields)], notes=notes)
    if len(found) == 1:  # its records may name other languages
        return Reading(name, [Files(str(path), found, fields)], spoken)
    wanted = {
        label: file
        for label, file in found.items()
        if languages is None or spoken[label] in languages
    }
    return Reading(
        name, [Files(str(path), wanted, fields)], spoken, [*dict.fromkeys(spoken.values())]
    )


def _stem(name: str) -> str:
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)


def _collect(
    reading: Reading, rows: Iterable[Row | Fault], languages: Sequence[str] | None
) -> None:
    """Add the segments to the reading; an error if any record was wrong, with the first and how many more."""
    default = languages[0] if languages is not None and len(languages) == 1 else UNKNOWN
    places: dict[tuple[str, str], str] = {}
    faults: list[Fault] = []
    first: dict[
        str, bool
    ] = {}  # whether the first record has an id and a language: then all need them
    empty = 0
    for row in rows:
        if isinstance(row, Fault):
            faults.append(row)
            continue
        if row.file.endswith(TEXTS) and not str(row.fields.get("text", "")).strip():
            empty += 1
            continue
        try:
            own = _language(reading, row)
            has = {"id": "id" in row.fields, "language": own is not None}
            first = first or has
            for name in (name for name in has if has[name] != first[name]):
                said = missing_field(name, row.fields)
                raise CorpusError(
                    said if first[name] else f"the field '{name}' is missing in earlier records."
                )
            language = own or default
            if language not in reading.languages:
                reading.languages.append(language)
            if languages is not None and language not in languages:
                continue
            number = str(row.number) if row.file in reading.spoken else f"{row.file}#{row.number}"
            id = id_of(row.fields, "id") if has["id"] else number
            segment = Segment(id, language, text_of(row.fields, "text"), row.fields.get("title"))
            if (id, language) in places:
                raise CorpusError(f"the id {id!r} was already used at {places[id, language]}.")
            places[id, language] = row.place
            reading.segments.append(segment)
        except CorpusError as error:
            faults.append(Fault(row.file, row.number, None, str(error)))
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CorpusError(f"{faults[0]}{more}")
    if empty:
        reading.notes += (f"{empty} {'files are' if empty > 1 else 'file is'} empty and left out",)
    if first and not first["id"] and len(reading.languages) > 1:
        _align_by_number(reading)


def _language(reading: Reading, row: Row) -> str | None:
    """The language of a record, which it or its file names; None where neither does."""
    given, of_file = row.fields.get("language"), reading.spoken.get(row.file)
    if given is None:
        return of_file
    if not isinstance(given, str) or not given.strip():
        raise CorpusError(f"'language' must be text such as \"en\", got {describe(given)}.")
    if of_file is not None and of_file != given and len(reading.spoken) > 1:
        raise CorpusError(f"'language' is {describe(given)}, but the file is read as {of_file!r}.")
    return given


def _align_by_number(reading: Reading) -> None:
    """Row numbers align languages that are equally long; a note says so."""
    lengths = Counter(segment.language for segment in reading.segments)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{language} {length}" for language, length in lengths.items())
        raise CorpusError(
            f"{reading.name} has no 'id', and row numbers cannot replace it, because its languages differ in length "
            f"({counts}): give translations the same 'id'."
        )
    reading.notes += (
        f"{reading.name} has no 'id': row numbers are used as ids and must match across languages.",
    )
