"""From the records of any source to segments, each in its language; errors name the file and the line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from itertools import chain
from pathlib import Path

from fairspan.corpus.hub import open_languages
from fairspan.corpus.rows import ENDINGS, TEXTS, Fault, Fields, Row, id_of, missing_field, text_of
from fairspan.corpus.segment import UNKNOWN, Segment, describe
from fairspan.corpus.source import Files, Given, Source, files_of, open_source, require_hub_name
from fairspan.errors import CorpusError

SAMPLE = "sample"
"""The corpus that comes with fairspan."""
SAMPLE_LANGUAGES = ("en", "zh", "de", "it", "ko", "hi")
QUESTION_FIELDS = {"query", "question", "start_in_article"}
# Names of files that are languages: codes such as en, pt-BR or zh-min-nan, and Wikipedia's Simple English.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-([A-Za-z]{2,8}|\d{3}))*|simple")


@dataclass(slots=True)
class Reading:
    """A corpus as read, before it is known to be aligned.

    Attributes:
        sources: what is read, one after the other.
        spoken: the language of each file or split that is in one language.
        labels: for each language there, also those that were not asked for, what errors call its source.
        notes: what a reader of results should know about how the corpus was read.
    """

    name: str
    sources: Sequence[Source]
    spoken: Mapping[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def read_segments(given: Given, languages: Sequence[str] | None, id_field: str = "id") -> Reading:
    """The segments of a source in the languages asked for, by default all.

    Records without a field `language` are in the language of their file (`en.jsonl` in a folder, the split of a
    dataset), or else in the one language that is asked for, or in `UNKNOWN`.
    """
    reading = _open(given, languages, Fields(id=None if id_field == "id" else id_field, more=("language", "title")))
    rows = chain.from_iterable(source.rows() for source in reading.sources)
    _collect(reading, (row for row, _ in rows), languages, id_field)
    if not reading.segments and not reading.labels:
        raise CorpusError(f"{reading.name} is empty: it needs records with 'id' and 'text'.")
    return reading


def _open(given: Given, languages: Sequence[str] | None, fields: Fields) -> Reading:
    if given == SAMPLE:
        with as_file(files("fairspan.corpus") / "data" / SAMPLE) as folder:
            found = _open(folder, languages, fields)
        return Reading(SAMPLE, found.sources, found.spoken, {one: f"{one}.jsonl" for one in SAMPLE_LANGUAGES})
    path = Path(given).expanduser() if isinstance(given, str | Path) else None
    if path is not None and path.exists():
        return _open_files(path, languages, fields)
    if path is None or ":" in path.name:
        source = open_source(given, fields)
        return Reading(source.name, [source])
    name = require_hub_name(str(given) if isinstance(given, str) else path)
    splits = open_languages(name, languages, fields)
    spoken = {dataset.name: one for one, dataset in splits.items() if one is not None and dataset is not None}
    labels = {one: f"{name} ({one})" for one in splits if one is not None}
    return Reading(name, [one for one in splits.values() if one is not None], spoken, labels)


def _open_files(path: Path, languages: Sequence[str] | None, fields: Fields) -> Reading:
    found = files_of(path)
    asking = next((file for label, file in found.items() if label.startswith("queries.jsonl")), None)
    if asking is not None:
        raise _holds_questions(asking)
    name = path.resolve().name
    if path.is_file():
        return Reading(_stem(name), [Files(str(path), found, fields)])
    spoken = {label: _stem(label) for label in found}
    named = all(_LANGUAGE.fullmatch(one) or one in (languages or ()) for one in spoken.values())
    if not named or any(label.endswith(TEXTS) for label in found):
        return Reading(name, [Files(str(path), found, fields)])
    twice = [label for label, one in spoken.items() if list(spoken.values()).count(one) > 1]
    if twice:
        raise CorpusError(f"{path} has two files for {spoken[twice[0]]!r}, {' and '.join(twice[:2])}: remove one.")
    if len(found) == 1:  # its records may name other languages
        return Reading(name, [Files(str(path), found, fields)], spoken)
    wanted = {label: file for label, file in found.items() if languages is None or spoken[label] in languages}
    return Reading(name, [Files(str(path), wanted, fields)], spoken, {one: label for label, one in spoken.items()})


def _stem(name: str) -> str:
    return next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)


def _holds_questions(what: Path | str) -> CorpusError:
    """A task for `evaluate` in the place of a corpus."""
    return CorpusError(
        f"{what} holds questions, and a corpus holds texts. Questions and their documents are a task, which evaluate "
        "searches; of a task, give the file of its documents as the corpus."
    )


def _collect(reading: Reading, rows: Iterable[Row | Fault], languages: Sequence[str] | None, id_field: str) -> None:
    """Add the segments to the reading; an error if any record was wrong, with the first and how many more."""
    default = languages[0] if languages is not None and len(languages) == 1 else UNKNOWN
    places: dict[tuple[str, str], str] = {}
    having: set[str] = set()
    lacking: dict[str, Row] = {}  # the first record without an id or a language: no other may have one then
    faults: list[Fault] = []

    def note(field: str, row: Row, there: bool) -> None:
        if there:
            having.add(field)
        else:
            lacking.setdefault(field, row)

    for row in rows:
        if isinstance(row, Fault):
            faults.append(row)
            continue
        if "text" not in row.fields and QUESTION_FIELDS & {*row.fields}:
            where = Path(reading.sources[0].name)
            raise _holds_questions(where / row.file if where.is_dir() else where)
        try:
            own = _language(reading, row)
            note("language", row, own is not None)
            language = own or default
            reading.labels.setdefault(language, f"{row.file} ({own})" if row.fields.get("language") else row.file)
            if languages is not None and language not in languages:
                continue
            named = id_field != "id" or "id" in row.fields
            number = str(row.number) if row.file in reading.spoken else f"{row.file}#{row.number}"
            id = id_of(row.fields, id_field) if named else number
            segment = Segment(id, language, text_of(row.fields, "text"), row.fields.get("title"))
            if (id, language) in places:
                raise CorpusError(f"the id {id!r} was already used at {places[id, language]}.")
            note("id", row, named)
            places[id, language] = row.place
            reading.segments.append(segment)
        except CorpusError as error:
            faults.append(Fault(row.file, row.number, None, str(error)))
    mixed = [(name, row) for name, row in lacking.items() if name in having]
    faults += [Fault(row.file, row.number, None, missing_field(name, row.fields)) for name, row in mixed]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CorpusError(f"{faults[0]}{more}")
    if "id" in lacking and len(reading.labels) > 1:
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
            f"({counts}). Name the field that aligns them: id_field."
        )
    reading.notes = (f"{reading.name} has no 'id': row numbers serve as ids, so equal rows must be translations.",)
