"""`Source`: the records of files, folders, datasets and lists, one after the other, from any place on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from pathlib import Path
from typing import Any

from fairspan.corpus.hub import Dataset, Repository
from fairspan.corpus.rows import (
    ENDINGS,
    LINES,
    PARQUET,
    START,
    TEXTS,
    Fault,
    Fields,
    Found,
    Place,
    Row,
    read_file,
)
from fairspan.corpus.segment import describe
from fairspan.errors import CorpusError

_ON_HUB = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[^:/]+){0,2}")

Given = str | Path | Iterable[Mapping[str, Any]]
"""A file, a folder, the name of a dataset, or records."""


class Files:
    """JSON Lines, Parquet or text files, in the order of their names; `done` counts their bytes."""

    def __init__(self, name: str, paths: Mapping[str, Path], fields: Fields) -> None:
        self.name, self._fields = name, fields
        self._files = list(paths.items())
        states = [path.stat() for path in paths.values()]
        self._sizes = [state.st_size for state in states]
        self.total = sum(self._sizes)
        digest = hashlib.sha256()
        for label, state in zip(paths, states, strict=True):
            digest.update(
                f"{label}\0{state.st_size}\0{state.st_mtime_ns}\n".encode(
                    "utf-8", "surrogateescape"
                )
            )
        self.identity = {
            "files": len(states),
            "bytes": self.total,
            "state": digest.hexdigest()[:16],
        }

    def rows(self, start: Place = START) -> Iterator[Found]:
        before = sum(self._sizes[: start.file])
        for number, (label, path) in enumerate(self._files[start.file :], start=start.file):
            begin = start if number == start.file else Place(number)
            try:
                for found, place in read_file(label, path, begin, self._fields):
                    yield found, place._replace(done=before + place.done)
            except OSError as error:
                raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None
            before += self._sizes[number]


class Records:
    """Records in Python; `done` counts them. What can be read only once is read on, never back."""

    name = "records"

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._records = records
        self._used = 0
        self.total = len(records) if isinstance(records, Sized) else 0
        self.identity = {"records": self.total or None}

    def rows(self, start: Place = START) -> Iterator[Found]:
        waiting: Iterator[Any] = iter(self._records)
        once = waiting is self._records
        for number, fields in enumerate(
            islice(waiting, start.row - self._used * once, None), start=start.row + 1
        ):
            self._used = number
            place = Place(0, number, 0, number)
            if isinstance(fields, Mapping):
                yield Row(self.name, number, fields), place
            else:
                yield (
                    Fault(self.name, number, None, f"not an object but {describe(fields)}."),
                    place,
                )


Source = Files | Records | Dataset
"""Records that can be read from any place on. Errors and manifests call them by their `name`; `total` is what
`Place.done` is at the end, or 0 if that is not known; `identity` has to stay the same from one call to the next."""


def open_source(given: Given, fields: Fields) -> Source:
    """The records of a file, a folder, a dataset as `name`, `name:split` or `name:configuration:split`, or a list.

    Raises:
        CorpusError: if there is no such source, or nothing in it that could be read.
    """
    if not isinstance(given, str | Path):
        return Records(given)
    path = Path(given).expanduser()
    if path.exists():
        return Files(str(given), files_of(path), fields)
    repository, named = find_dataset(given)
    return repository.open(*named, fields)


def find_dataset(given: str | Path) -> tuple[Repository, tuple[str | None, str | None]]:
    """A dataset, and the configuration and the split that are named behind it; only where no file has the name."""
    place, *named = str(given).split(":")
    may_be = _ON_HUB.fullmatch(str(given)) and not str(given).endswith(ENDINGS)
    if not isinstance(given, str) or not (may_be or Path(place).is_dir()):
        raise CorpusError(
            f"there is no file or folder {str(given)!r}. Texts are read from files that end in {', '.join(ENDINGS)}, "
            "from folders of them, and from datasets on the Hugging Face hub, named as owner/name or "
            "owner/name:split."
        )
    return Repository(place), (named[0] if len(named) == 2 else None, named[-1] if named else None)


def files_of(path: Path) -> dict[str, Path]:
    """The files that a file or a folder is read from, by their names in it: its data, or texts if there is none.

    Files and folders whose names begin with a dot are not read.
    """
    if path.is_file():
        if not path.name.endswith(ENDINGS):
            raise CorpusError(f"{path} cannot be read: its name must end in {', '.join(ENDINGS)}.")
        return {path.name: path}
    try:
        below = {
            file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()
        }
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None
    every = {name: file for name, file in sorted(below.items()) if "/." not in f"/{name}"}
    for endings in ((*LINES, *PARQUET), TEXTS):
        found = {name: file for name, file in every.items() if name.endswith(endings)}
        if found:
            return found
    raise CorpusError(
        f"{path} holds no file that ends in {', '.join((*LINES, *PARQUET, *TEXTS))}. Texts in several languages are "
        'files such as en.jsonl and de.jsonl, with lines like {"id": "a1", "text": "…"}.'
    )
