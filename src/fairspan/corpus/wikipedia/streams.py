"""Bytes and lines of dumps, compressed or not, in bounded memory."""

import bz2
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairspan.errors import CorpusError

BZ2, GZIP, PARQUET = b"BZh", b"\x1f\x8b", b"PAR1"
_CHUNK = 1 << 20
# More than any page has; a line or page beyond it means that the file is something else.
LONGEST = 1 << 28
_SHORTENED = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.ReadError)


class CutOff(Exception):  # noqa: N818 - caught inside this package, where it becomes a CorpusError that names a place
    """A compressed file ends, or stops making sense, before its end."""


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Errors of the system and of decompressors as one line."""
    try:
        yield
    except _SHORTENED:
        raise CutOff from None
    except OSError as error:
        if error.errno is None:  # bz2: "Invalid data stream"
            raise CutOff from None
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def first_bytes(path: Path, size: int = 1 << 16) -> bytes:
    """The beginning of a file's content, decompressed; what there is, if that is less."""
    with telling(path), path.open("rb") as file:
        start = file.read(size)
    if start.startswith(BZ2):
        try:
            return bz2.BZ2Decompressor().decompress(start, size) or _more(path, size)
        except OSError:
            return b""
    if start.startswith(GZIP):
        try:
            return zlib.decompressobj(31).decompress(start, size)
        except zlib.error:
            return b""
    return start


def _more(path: Path, size: int) -> bytes:
    """A block of bz2 is up to 900 kB, compressed or not, before any of it comes out."""
    with path.open("rb") as file:
        return bz2.BZ2Decompressor().decompress(file.read(_CHUNK), size)


def blocks(path: Path, offset: int = 0) -> Iterator[tuple[int | None, bytes]]:
    """The content of a plain or bz2 file from the start of a bz2 stream on.

    Yields:
        Where the bz2 stream starts that begins with this block, or None inside a stream; and the block. Of a plain
        file, where the block starts.
    """
    with telling(path), path.open("rb") as file:
        if file.read(len(BZ2)) != BZ2:
            file.seek(offset)
            while data := file.read(_CHUNK):
                yield offset, data
                offset += len(data)
            return
        file.seek(offset)
        stream, start = bz2.BZ2Decompressor(), offset
        fed = b""
        while True:
            if stream.eof:
                fed = stream.unused_data
                start = file.tell() - len(fed)
                fed = fed or file.read(_CHUNK)
                if not fed:
                    return
                stream, offset = bz2.BZ2Decompressor(), start
            elif stream.needs_input:
                fed = file.read(_CHUNK)
                if not fed:
                    raise CutOff
            data = stream.decompress(fed, _CHUNK)
            fed = b""
            if data:
                yield (start if start == offset else None), data
                offset = -1


def lines(path: Path) -> Iterator[tuple[bytes, int]]:
    """The lines of a file, plain, in gzip or bz2, or of the files in a tar archive of any of these.

    With each, how many bytes of the file, as it is on disk, have been read.
    """
    with telling(path), path.open("rb") as file:
        start = file.read(len(BZ2))
        file.seek(0)
        opened: IO[bytes] | gzip.GzipFile = file
        if start == BZ2:
            opened = bz2.BZ2File(file)
        elif start.startswith(GZIP):
            opened = gzip.GzipFile(fileobj=file)
        if is_tar(first_bytes(path, 512)):
            with tarfile.open(fileobj=opened, mode="r|") as archive:
                for member in archive:
                    inside = archive.extractfile(member) if member.isfile() else None
                    if inside is not None and not Path(member.name).name.startswith("."):
                        for line in _lines(path, inside):
                            yield line, file.tell()
            while opened.read(_CHUNK):  # the checksum stands at the end
                pass
        else:
            for line in _lines(path, opened):
                yield line, file.tell()


def is_tar(start: bytes) -> bool:
    return start[257:262] == b"ustar"


def _lines(path: Path, file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise CorpusError(f"{path.name} has a line of more than {LONGEST >> 20} MiB: it is no dump of articles.")
        yield line
