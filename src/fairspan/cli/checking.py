"""What is refused before a model is loaded, which takes many seconds: its name, what is read, what is written."""

import os
from pathlib import Path

from fairspan.errors import FairspanError
from fairspan.model.source import find_model
from fairspan.runs.options import StudyOptions


def check_model(options: StudyOptions) -> None:
    """Raise if there is no such model, or nothing can be written where the run goes; no request is sent."""
    _ = options.loading
    require_folder(None if options.out is None else Path(options.out))
    if options.store is not None and not Path(options.store).exists():
        require_file(Path(options.store))
    if isinstance(options.model, str | None):
        find_model(options.model)


def require_folder(folder: Path | None, target: Path | None = None) -> None:
    """Raise if no folder can be made there, or nothing written into the one that is there: neither the target."""
    if folder is None:
        return
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise FairspanError(f"{target or folder} cannot be written: {error.strerror}.") from None
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise FairspanError(f"{target or folder} cannot be written: {there} is no folder that you may write into.")


def require_file(file: Path | None) -> None:
    """Raise if no file can be written there."""
    if file is not None and file.is_dir():
        raise FairspanError(f"{file} cannot be written: it is a folder.")
    if file is not None:
        require_folder(file.parent, file)
