"""The folder of a run: the log in place, a newer one beside it until it can take its place, and the writer's lock."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from warnings import warn

import polars as pl
from filelock import FileLock, Timeout

from fairspan.errors import FairspanError

HEADER, ROWS = "run.json", "rows.parquet"
BESIDE, LOCK = ".newer", ".lock"


def header_file(folder: Path) -> Path:
    return folder / HEADER


def newer_header(folder: Path) -> dict[str, Any] | None:
    """What a log that did not take its place says of itself; None if there is none that can be read."""
    with suppress(OSError, ValueError):
        header = json.loads((folder / BESIDE / HEADER).read_text(encoding="utf-8"))
        return header if isinstance(header, dict) and header.get("status") != "complete" else None
    return None


def move_into_place(folder: Path) -> None:
    """Put the log beside where the one before is.

    Both are logs of one run. Rows come first, so that whoever reads in between, or after a crash, has at least as
    many rows as the header counts.
    """
    for name in (ROWS, HEADER):
        with _explained(folder), suppress(FileNotFoundError):
            (folder / BESIDE / name).replace(folder / name)
    with suppress(OSError):
        (folder / BESIDE).rmdir()


def replace_file(file: Path, write: Callable[[Path], Any]) -> None:
    """Write a whole file of a run, or nothing."""
    with _explained(file.parent):
        write_whole(file, write)


def write_whole(file: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside and rename it, so that it is there as a whole or not at all."""
    # The process's number keeps two writers from sharing a half-written file.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextmanager
def locked(
    folder: Path,
    advice: str = "or choose another folder with out",
    explained: Callable[[Path], AbstractContextManager[None]] | None = None,
) -> Iterator[None]:
    """Keep other processes from writing the folder. The system gives the lock back however this one ends.

    Args:
        explained: says in one line why the folder cannot be written, in place of what is said of a run's.

    Raises:
        FairspanError: if another process holds it, or the folder cannot be written.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    with (explained or _explained)(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise FairspanError(
                f"another process is writing {folder}{_who(folder)}: wait until it has finished, {advice}."
            ) from None
        except NotImplementedError:
            warn(f"the file system of {folder} has no locks: let no other process write this folder.", stacklevel=2)
    try:
        yield
    finally:
        lock.release()


def _who(folder: Path) -> str:
    """Such as " (process 1234, since 2026-01-31 12:00 UTC)"; empty if the log does not say yet."""
    for file in (folder / BESIDE / HEADER, folder / HEADER):
        with suppress(OSError, ValueError, KeyError, TypeError):
            header = json.loads(file.read_text(encoding="utf-8"))
            if header["status"] == "running":
                return f" (process {header['process']}, since {header['started'][:16].replace('T', ' ')} UTC)"
    return ""


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        place = folder.parent if folder.name == BESIDE else folder
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise FairspanError(
            f"the run's folder {place} cannot be written ({reason}): make room or choose another with out. "
            "Vectors that were computed are in the store, and the same command continues from there."
        ) from error
