"""`Source`: the records of files, folders, datasets and lists."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairspan.corpus.files import Columns, read_file, unreadable
from fairspan.corpus.formats import DATA, ENDINGS, TEXTS, ends_in
from fairspan.corpus.hub import Dataset, Repository
from fairspan.corpus.record import Record
from fairspan.corpus.segment import describe, few
from fairspan.errors import CorpusError

_SOURCES = "corpus.json"
"""May lie beside the files of a corpus: their sources and licence. It is not read."""
_ON_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[^:/]+){0,2}")

SourceLike = str | Path | Iterable[Mapping[str, Any]]
"""A file, a folder, the name of a dataset, or records."""


class Files:
    """Files of data or of documents by their labels; `done` counts their bytes."""

    def __init__(
        self, name: str, paths: Mapping[str, Path], columns: Columns, notes: tuple[str, ...] = ()
    ) -> None:
        """Their labels, sizes and times are their identity."""
        self.name = name
        self.notes = notes
        self._columns = columns
        self._files: list[tuple[str, Path, int]] = []
        digest = hashlib.sha256()
        for label, path in paths.items():
            stat = path.stat()
            self._files.append((label, path, stat.st_size))
            digest.update(f"{label}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        self.total = sum(size for _, _, size in self._files)
        state = digest.hexdigest()[:16]
        self.identity = {"files": len(self._files), "bytes": self.total, "state": state}

    def records(self) -> Iterator[Record]:
        """The records in the order of the files' names."""
        before = 0
        for label, path, size in self._files:
            try:
                for record in read_file(label, path, self._columns):
                    yield replace(record, done=before + record.done)
            except OSError as error:
                raise unreadable(path, error) from None
            before += size


class Records:
    """Records in Python; `done` counts them. An iterator can be read only once."""

    name = "records"
    notes = ()

    def __init__(self, records: Iterable[Any]) -> None:
        self._records = records
        self.is_read_once = isinstance(records, Iterator)
        self._numbered = enumerate(records, start=1)
        self.total = len(records) if isinstance(records, Sized) else 0
        self.identity = {"records": self.total or None}

    def records(self) -> Iterator[Record]:
        """The records from the first on, or those of an iterator that were not read before."""
        numbered = self._numbered if self.is_read_once else enumerate(self._records, start=1)
        for number, fields in numbered:
            fault = ""
            if not isinstance(fields, Mapping):
                fault = f"not an object but {describe(fields)}."
            yield Record(self.name, number, {} if fault else fields, fault, number)


Source = Files | Records | Dataset
"""`total` is a record's `done` at the end, or 0; `identity` is the same from one call to the next.
"""


def open_source(
    source: SourceLike, *, columns: Sequence[str] = ("text",), optional: Sequence[str] = ()
) -> Source:
    """The records of a file, a folder, a list, or a dataset.

    Of tables only `columns` are read, which they must have, and `optional` ones that they have.
    """
    if not isinstance(source, str | Path):
        return Records(source)
    read = Columns(tuple(columns), tuple(optional))
    path = Path(source).expanduser()
    if path.exists():
        files, notes = files_of(path)
        return Files(str(source), files, read, notes)
    repository, configuration, split = find_dataset(source)
    return repository.open(configuration, split, read)


def find_dataset(name: str | Path) -> tuple[Repository, str | None, str | None]:
    """A dataset, and the configuration and the split in its name."""
    place, *parts = str(name).split(":")
    may_be = _ON_HUB.fullmatch(str(name)) and not ends_in(str(name), ENDINGS)
    if not isinstance(name, str) or not (may_be or Path(place).is_dir()):
        hub = "the Hugging Face hub, named as owner/name or owner/name:split"
        raise CorpusError(
            f"there is no file or folder {str(name)!r}. Texts are read from files that end in "
            f"{', '.join(ENDINGS)}, from folders of them, and from datasets on {hub}."
        )
    configuration = parts[0] if len(parts) == 2 else None
    return Repository(place), configuration, parts[-1] if parts else None


def files_of(path: Path) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files of a path that are read, by name: its data, or texts if it has none; and notes."""
    if path.is_file():
        if not ends_in(path.name, ENDINGS):
            raise CorpusError(f"{path} cannot be read: its name must end in {', '.join(ENDINGS)}.")
        return {_label(path.name): path}, ()
    below = {_label(file.relative_to(path).as_posix()): file for file in _below(path)}
    readable = [name for name in sorted(below) if below[name].is_file()]
    for endings in (DATA, TEXTS):
        files = {name: below[name] for name in readable if ends_in(name, endings)}
        if files:
            others = [file for name, file in below.items() if name not in files]
            return files, _left_out(others, with_data=endings is DATA)
    raise CorpusError(
        f"{path} holds no file that ends in {', '.join((*DATA, *TEXTS))}. Texts in several "
        'languages are files such as en.jsonl and de.jsonl, with lines like {"id": "a1", "text": '
        '"…"}.'
    )


def _below(folder: Path) -> Iterator[Path]:
    """The files in a folder and in folders below, and links to folders, but no hidden ones."""

    def refuse(error: OSError) -> None:
        raise unreadable(error.filename, error)

    for place, folders, names in os.walk(folder, onerror=refuse):
        links = [name for name in folders if Path(place, name).is_symlink()]
        folders[:] = [name for name in folders if name not in links and name[0] != "."]
        yield from (Path(place, name) for name in (*names, *links) if name[0] != ".")


def _label(name: str) -> str:
    """A file's name as ids and messages have it: text, also if its bytes are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _left_out(files: Iterable[Path], *, with_data: bool) -> tuple[str, ...]:
    """A note on files that are not read: how many of each kind."""
    kinds = Counter(
        "linked folder(s)" if file.is_dir() else file.suffix.lower() or "without a suffix"
        for file in files
        if file.name != _SOURCES
    )
    if not kinds:
        return ()
    ordered = sorted(kinds.items(), key=lambda entry: (-entry[1], entry[0]))
    note = f"not read: {few([f'{count:,} {kind}' for kind, count in ordered], 12)}"
    if with_data and any(kind in TEXTS for kind in kinds):
        note += "; texts are read where no .jsonl or .parquet file is beside them"
    return (note,)
