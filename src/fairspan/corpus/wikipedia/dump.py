"""Dumps of a Wikipedia: what they are, and their pages one after the other."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairspan.corpus.wikipedia import cirrus, enterprise, export_xml, parquet
from fairspan.corpus.wikipedia.names import database
from fairspan.corpus.wikipedia.page import Page
from fairspan.corpus.wikipedia.records import numbered_records
from fairspan.corpus.wikipedia.streams import PARQUET, first_bytes, is_tar
from fairspan.errors import CorpusError

Reader = Callable[[Path, str, int, int], Iterator[tuple[Page, int, int]]]
READERS: dict[str, Reader] = {
    export_xml.NAME: export_xml.read,
    enterprise.NAME: enterprise.read,
    cirrus.NAME: cirrus.read,
    parquet.NAME: parquet.read,
}
FORMATS = (
    "pages-articles XML (.xml, .xml.bz2, multistream or not), Wikimedia Enterprise HTML (.ndjson, .tar.gz), "
    "CirrusSearch (.json.gz, .json.bz2) and wikimedia/wikipedia Parquet (.parquet)"
)
ENDINGS = (".xml", ".bz2", ".gz", ".tgz", ".tar", ".ndjson", ".jsonl", ".json", ".parquet")
# Files that stand beside dumps: the index of a multistream dump, tables in SQL, titles, abstracts.
_BESIDE = re.compile(
    r"-index\d*\.txt|\.sql\.gz$|-all-titles|-abstract|-stub-|-siteinfo-|sums\.txt|langlinks|sitelinks"
)
_WIKI = re.compile(r"([a-z][a-z_]*wiki)[-_]")
_DATE = re.compile(r"(?<!\d)(20[0-3]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))(?!\d)")
# Wikipedia's terms changed from version 3.0 of the licence to 4.0 in June 2023.
_LICENCE, _LICENCE_BEFORE, _CHANGED = "CC BY-SA 4.0 and GFDL", "CC BY-SA 3.0 and GFDL", "20230607"


class Place(NamedTuple):
    """Where reading can go on: behind a page. `Place(*json.loads(json.dumps(place)))` is the same place.

    Attributes:
        file: the name of the file.
        offset: bytes; where a bz2 stream starts, or where a plain XML file goes on. In other formats it only says how
            much of the file has been read.
        passed: pages behind `offset`, in other formats lines or rows of the file, that have been read.
    """

    file: str
    offset: int
    passed: int


@dataclass(frozen=True, slots=True)
class DumpInfo:
    """What is known of a dump without reading it.

    Attributes:
        format: one of the names in `READERS`.
        date: YYYYMMDD, where the name of the file or of its folder says it.
        licence: of its texts.
        files: its parts in the order in which they are read.
    """

    format: str
    date: str | None
    licence: str
    files: tuple[Path, ...]


def read_pages(
    path: Path | Sequence[Path], language: str, *, after: Place | None = None
) -> Iterator[tuple[Page, Place]]:
    """The pages of a dump's main namespace, each with the place behind it.

    Args:
        path: a file, a folder of parts, or parts.
        after: a place that was given with a page: reading goes on with the next page.

    Raises:
        CorpusError: no dump, a dump of another wiki, or one that is cut off; then, the pages before have been given.
        MissingExtra: the format needs a package that is not installed.
    """
    files = parts(path, language)
    names = [file.name for file in files]
    if after is not None and after.file not in names:
        raise CorpusError(f"reading cannot go on in {after.file}: it is not among {', '.join(names)}.")
    for file in files[names.index(after.file) if after else 0 :]:
        read = READERS[recognise(file)]
        offset, count = (after.offset, after.passed) if after and after.file == file.name else (0, 0)
        for page, reached, number in read(file, language, offset, count):
            yield page, Place(file.name, reached, number)


def describe(path: Path | Sequence[Path], language: str) -> DumpInfo:
    """The format, date and licence of a dump; raises as `read_pages` does for what is no dump."""
    files = parts(path, language)
    kind = recognise(files[0])
    date = _date(files[0])
    licence = _LICENCE_BEFORE if date and date < _CHANGED else _LICENCE
    if kind == enterprise.NAME:
        licence = next((enterprise.licence(record) for _, _, record in numbered_records(files[0])), "") or licence
    return DumpInfo(kind, date, licence, tuple(files))


def parts(path: Path | Sequence[Path], language: str) -> list[Path]:
    """The files of a dump in natural order: part 2 before part 10.

    Of a folder with dumps of several wikis, those of the language.
    """
    if not isinstance(path, Path):
        files = [Path(one) for one in path]
    elif path.is_dir():
        found = [file for file in path.iterdir() if file.is_file() and file.name.lower().endswith(ENDINGS)]
        files = [file for file in found if not file.name.startswith(".") and not _BESIDE.search(file.name)]
        wikis = {file: match[1] for file in files if (match := _WIKI.match(file.name))}
        own = [file for file in files if wikis.get(file) == database(language)]
        files = own or files
        twice = {file.name.replace("-multistream", "") for file in files}
        if len(twice) < len(files):
            raise CorpusError(
                f"{path} holds the same dump twice, with and without multistream: name one of the files."
            )
    else:
        files = [path]
    if not files:
        raise CorpusError(f"{path} holds no dump. Dumps that are read: {FORMATS}.")
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise CorpusError(f"there is no file {missing}.")
    return sorted(files, key=lambda file: [(int(run) if run.isdecimal() else 0, run) for run in _runs(file.name)])


def recognise(path: Path) -> str:
    """The format of a file, from its first bytes; its name does not matter."""
    start = first_bytes(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(PARQUET):
        return parquet.NAME
    if export_xml.is_export(start):
        return export_xml.NAME
    if start.startswith(b"{") or is_tar(start):
        record = next((record for _, _, record in numbered_records(path)), {})
        if enterprise.is_article(record):
            return enterprise.NAME
        if cirrus.is_document(record):
            return cirrus.NAME
    if not start and path.stat().st_size:
        raise CorpusError(f"{path.name} is damaged or cut off before its first page. Download it again.")
    raise CorpusError(f"{path.name} is not a dump that can be read. Formats: {FORMATS}.")


def _date(path: Path) -> str | None:
    """The date in the file's name, or in that of one of the two folders above it."""
    whole = path.absolute()
    found = (_DATE.search(name) for name in (path.name, whole.parent.name, whole.parent.parent.name))
    return next((match[1] for match in found if match), None)


def _runs(name: str) -> list[str]:
    return re.split(r"(\d+)", name)
