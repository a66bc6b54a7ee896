"""The folder of a run or of vectors: why it cannot be written, and the lock of the process that writes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from warnings import warn

import polars as pl
from filelock import FileLock, Timeout

from fairspan.errors import FairspanError

HEADER, ROWS, LOCK = "run.json", "rows.parquet", ".lock"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What a full disk or a missing permission leads to, in one line."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = (
            getattr(error, "strerror", None) or str(error) or type(error).__name__
        ).splitlines()[0]
        raise FairspanError(
            f"{folder} cannot be written ({reason}): make room or choose another with out. What was computed is "
            "kept, and the same command continues from there."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing the folder. The system gives the lock back however this one ends.

    Raises:
        FairspanError: if another process holds it, or the folder cannot be written.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise FairspanError(
                f"another process is writing {folder}: wait until it has finished, or choose another folder with out."
            ) from None
        except NotImplementedError:
            warn(
                f"the file system of {folder} has no locks: let no other process write this folder.",
                stacklevel=2,
            )
    try:
        yield
    finally:
        lock.release()
