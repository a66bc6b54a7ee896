"""From the records of any source to segments in languages; errors name the file and the line."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
# Codes such as en, pt-BR or zh-min-nan, and Wikipedia's Simple English.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-([A-Za-z]{2,8}|\d{3}))*|simple")


@dataclass(slots=True)
class RawCorpus:
    """A corpus as it is read, before its languages are aligned.

    `spoken` is the language of each file or split that is in one language; `languages` are also
    those that were not asked for. `may_be_others`: only the names of files say that.
    """

    name: str
    sources: Sequence[Source]
    spoken: Mapping[str, str] = field(default_factory=dict)
    languages: list[str] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    may_be_others: bool = False


def read_segments(source: SourceLike, languages: Sequence[str] | None) -> RawCorpus:
    """The segments of a source in the languages asked for, by default all."""
    raw = _open(source, languages, Columns(("text",), ("id", "language", "title")))
    rows: Iterable[Record] = (row for part in raw.sources for row in part.records())
    if raw.may_be_others:
        rows = list(rows)
        _require_translations(raw, rows)
    _collect(raw, rows, languages)
    if not raw.languages:
        raise CorpusError(f"{raw.name} is empty: it needs records with 'text'.")
    return raw


def _open(source: SourceLike, languages: Sequence[str] | None, columns: Columns) -> RawCorpus:
    """The corpus without its segments."""
    if isinstance(source, str) and source in EMBEDDED:
        raw = _open_files(EMBEDDED[source], languages, columns)
        raw.may_be_others = False
        return replace(raw, languages=[*SAMPLE_LANGUAGES]) if source == SAMPLE else raw
    if not isinstance(source, str | Path):
        return RawCorpus(Records.name, [Records(source)])
    path = Path(source).expanduser()
    if path.exists():
        return _open_files(path, languages, columns)
    repository, named = find_dataset(source)
    present = () if any(named) else repository.languages
    if not present:
        return RawCorpus(str(source), [repository.open(*named, columns)])
    wanted = [language for language in present if languages is None or language in languages]
    opened = [repository.open_language(language, columns) for language in wanted]
    spoken = {dataset.name: language for dataset, language in zip(opened, wanted, strict=True)}
    return RawCorpus(repository.name, opened, spoken, [*present])


def _open_files(path: Path, languages: Sequence[str] | None, columns: Columns) -> RawCorpus:
    """The corpus of a file or a folder, without its segments."""
    files, notes = files_of(path)
    name = path.resolve().name
    if any(label.startswith("queries.jsonl") for label in files):
        remedy = (
            "Use it as a task of evaluate, or give only the file of its documents as the corpus."
        )
        raise CorpusError(f"{path} holds questions, and a corpus holds texts. {remedy}")
    raw = RawCorpus(name, [Files(str(path), files, columns)], notes=notes)
    if path.is_file():
        return replace(raw, name=_stem(name))
    spoken = {label: _stem(label) for label in files}
    by_language = all(
        _LANGUAGE.fullmatch(stem) or stem in (languages or ()) for stem in spoken.values()
    )
    if not by_language or any(ends_in(label, TEXTS) for label in files):
        return raw
    raw.spoken = spoken
    if len(files) == 1:  # its records may name other languages
        return raw
    if languages is not None:
        files = {label: file for label, file in files.items() if spoken[label] in languages}
        raw.sources = [Files(str(path), files, columns)]
    raw.may_be_others = languages is None
    raw.languages = [*dict.fromkeys(spoken.values())]
    return raw


def _require_translations(raw: RawCorpus, rows: Iterable[Record]) -> None:
    """Read files such as hr and it as texts in no language unless they share ids."""
    ids: dict[str, list[str]] = {label: [] for label in raw.spoken}
    for row in rows:
        if not row.fault:
            if row.fields.get("language") is not None:
                return
            ids[row.file].append(str(row.fields.get("id", "")))
    if _share_ids([*ids.values()]):
        return
    names = ", ".join(ids)
    remedy = "name languages if they are translations of each other"
    repeated = Counter(id for listed in ids.values() for id in {*listed} - {""})
    if repeated and max(repeated.values()) > 1:
        raise CorpusError(
            f"{names} have the same ids, and not as many texts as translations would have: {remedy}"
            ", or give different texts different ids."
        )
    raw.notes += (f"{names} share no ids and are read as texts in no language; {remedy}",)
    raw.spoken = {}
    raw.languages = []


def _share_ids(files: Sequence[Sequence[str]]) -> bool:
    """Whether each file has at least half of its ids in common with the longest one.

    Ids that only count the rows, or none, are those of translations if all files are equally long.
    """
    counts = [[*map(str, range(first, first + len(ids)))] for ids in files for first in (0, 1)]
    if all(ids in counts or not any(ids) for ids in files):
        return len({*map(len, files)}) == 1
    longest = {*max(files, key=len)}
    return all(2 * len(longest & {*ids}) >= len({*ids}) for ids in files)


def _stem(name: str) -> str:
    return next((name[: -len(ending)] for ending in ENDINGS if ends_in(name, (ending,))), name)


def _collect(raw: RawCorpus, rows: Iterable[Record], languages: Sequence[str] | None) -> None:
    """Add the segments to the corpus."""
    places: dict[tuple[str, str], str] = {}
    faults: list[Record] = []
    # Whether the first record has an id and a language: then all need them.
    first: dict[str, bool] = {}
    empty: list[str] = []
    undecoded: list[Record] = []
    for row in rows:
        if row.fault:
            (undecoded if ends_in(row.file, TEXTS) else faults).append(row)
            continue
        if ends_in(row.file, TEXTS) and not row.fields["text"].strip():
            empty.append(row.file)
            continue
        try:
            spoken = _language(raw, row)
            has = {"id": "id" in row.fields, "language": spoken is not None}
            first = first or has
            _require_alike(has, first, row)
            segment = _segment(raw, row, spoken, languages)
            if segment is None:
                continue
            key = (segment.id, segment.language)
            if key in places:
                raise CorpusError(f"the id {segment.id!r} was already used at {places[key]}.")
            places[key] = row.place
            raw.segments.append(segment)
        except CorpusError as error:
            faults.append(replace(row, fault=str(error)))
    if not raw.segments:  # a file that is named, or nothing but such files
        faults += undecoded
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CorpusError(f"{faults[0].place}: {faults[0].fault}{more}")
    undecoded_files = [fault.file for fault in undecoded]
    for reason, files in (("empty", empty), ("not UTF-8", undecoded_files)):
        if files:
            raw.notes += (f"left out, since {reason}: {few(files)}",)
    if first and not first["id"] and len(raw.languages) > 1:
        _align_by_number(raw)


def _require_alike(has: Mapping[str, bool], first: Mapping[str, bool], row: Record) -> None:
    """An error unless a record has an id and a language as the first one has them."""
    for name in has:
        if has[name] and not first[name]:
            raise CorpusError(f"the field '{name}' is missing or null in earlier records.")
        if first[name] and not has[name] and name in row.fields:
            raise CorpusError(f"'{name}' is null, and earlier records have one.")
        if first[name] and not has[name]:
            raise missing_field(name, row.fields)


def _segment(
    raw: RawCorpus, row: Record, spoken: str | None, languages: Sequence[str] | None
) -> Segment | None:
    """The segment of a record; None if it is in a language that is not asked for."""
    only = languages[0] if languages is not None and len(languages) == 1 else UNKNOWN
    language = spoken or only
    if language not in raw.languages:
        raw.languages.append(language)
    if languages is not None and language not in languages:
        return None
    name = str(row.number) if row.file in raw.spoken else f"{row.file}#{row.number}"
    if "id" in row.fields:
        name = id_of(row.fields, "id")
    return Segment(name, language, text_of(row.fields, "text"), row.fields.get("title"))


def _language(raw: RawCorpus, row: Record) -> str | None:
    """The language that a record or its file names, if any."""
    language = row.fields.get("language")
    of_file = raw.spoken.get(row.file)
    if language is None:
        return of_file
    if not isinstance(language, str) or not language.strip():
        raise CorpusError(f"'language' must be text such as \"en\", got {describe(language)}.")
    if of_file not in (None, language) and len(raw.spoken) > 1:
        wrong = f"'language' is {describe(language)}"
        raise CorpusError(f"{wrong}, but the file is read as {of_file!r}.")
    return language


def _align_by_number(raw: RawCorpus) -> None:
    """Accept row numbers as ids of languages that are equally long."""
    lengths = Counter(segment.language for segment in raw.segments)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{language} {length}" for language, length in lengths.items())
        reason = f"because its languages differ in length ({counts})"
        wrong = f"{raw.name} has no 'id', and row numbers cannot replace it, {reason}"
        raise CorpusError(f"{wrong}: give translations the same 'id'.")
    numbers = "row numbers are used as ids and must match across languages"
    raw.notes += (f"{raw.name} has no 'id': {numbers}.",)
