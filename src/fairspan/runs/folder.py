"""The folder of a run or of vectors: its lock, and why it cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from warnings import warn

import polars as pl
from filelock import FileLock, Timeout

from fairspan.calibration.calibration import CALIBRATION_FILE, Calibration
from fairspan.errors import FairspanError, first_line
from fairspan.report.files import write_file

HEADER = "run.json"
ROWS = "rows.parquet"
LOCK = ".lock"
DEFAULT_RUNS = Path("fairspan-runs")


def write_calibration(folder: Path, calibration: Calibration) -> None:
    """Write the calibration that a study suggests, unless it is there already."""
    file = folder / CALIBRATION_FILE
    text = f"{calibration.to_json()}\n"
    if not file.is_file() or file.read_bytes() != text.encode():
        write_file(file, text)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what a full disk or a missing permission leads to into one line."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FairspanError(
            f"{folder} cannot be written ({first_line(error)}): make room or choose another with "
            "out. What was computed is kept, and the same command continues from there."
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing the folder; raise if one of them is writing it.

    A folder that is made here and stays empty is removed.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise FairspanError(
                f"another process is writing {folder}: wait until it has finished, or choose "
                "another folder with out."
            ) from None
        except NotImplementedError:
            warn(
                f"the file system of {folder} has no locks: let no other process write it.",
                stacklevel=2,
            )
    try:
        yield
    finally:
        lock.release()
        if is_new and [file.name for file in folder.iterdir()] == [LOCK]:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
