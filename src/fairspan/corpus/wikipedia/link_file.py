"""`LinkFile`: a file of links between languages, plain, gzipped or in bz2, read as bytes in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairspan.corpus.wikipedia.streams import BZ2, GZIP, LONGEST
from fairspan.errors import CorpusError


class LinkFile:
    """Whole lines of a file, in blocks or one by one.

    `position` is how many bytes of the file, as it is on disk, have been read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._raw = path, _open(path)
        self._file: IO[bytes] | gzip.GzipFile | bz2.BZ2File = self._raw
        start = self._raw.read(len(BZ2))
        self._raw.seek(0)
        if start.startswith(GZIP):
            self._file = gzip.GzipFile(fileobj=self._raw)
        elif start == BZ2:
            self._file = bz2.BZ2File(self._raw)

    @property
    def position(self) -> int:
        return self._raw.tell()

    def lines(self) -> Iterator[bytes]:
        with self._explained():
            while line := self._file.readline(LONGEST):
                yield self._checked(line)

    def blocks(self, size: int = 1 << 20) -> Iterator[bytes]:
        """Blocks of about `size` bytes that end where a line ends."""
        with self._explained():
            while block := self._file.read(size):
                yield block + self._checked(self._file.readline(LONGEST))

    def __enter__(self) -> LinkFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._raw.close()

    def _checked(self, line: bytes) -> bytes:
        if len(line) == LONGEST:
            raise CorpusError(f"{self.path.name} is no dump: it has a line of more than {LONGEST:,} bytes.")
        return line

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise CorpusError(f"{self.path.name} is cut off: download it again, and run the same command.") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise CorpusError(f"{self.path.name} is damaged ({error}): download it again.") from None
        except OSError as error:
            raise CorpusError(f"{self.path} cannot be read: {error.strerror or error}.") from None


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None
