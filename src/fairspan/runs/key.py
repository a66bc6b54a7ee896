"""The key of a run: its options and the state of the files that it reads, hashed without a model.

A complete log with the same key is the answer, and neither torch nor the model is loaded.
"""

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairspan.corpus.readers import EMBEDDED
from fairspan.errors import FairspanError
from fairspan.model.source import Loading, find_model
from fairspan.report.view import View
from fairspan.runs.hashes import hash_of, library_versions, slug
from fairspan.runs.header import read_header
from fairspan.runs.log import RunLog, read_log
from fairspan.runs.options import StudyOptions

DEFAULT_RUNS = Path("fairspan-runs")
_MOST_FILES = 10_000


def key_of(options: StudyOptions) -> str | None:
    """A hash of what decides a result; None if that cannot be known without reading it.

    Files count by names, sizes and times, a model on the hub by the files of its snapshot, an
    object by its `identity`.
    """
    try:
        states = [_model_state(options), *map(_source_state, options.sources)]
    except (OSError, PackageNotFoundError, FairspanError):
        return None
    if None in states:
        return None
    return _hash_here(options.model_name, options.decisive, states)


def model_key(name: str | None, loading: Loading) -> str | None:
    """A hash of a model's files and of how they are loaded; None if that takes loading it."""
    try:
        state = None if loading.trust_remote_code else _named_model_state(name)
    except (OSError, FairspanError):
        return None
    return None if state is None else _hash_here(asdict(loading), state)


def _hash_here(*decisive: Any) -> str:
    """A hash of what decides a result, with these versions on this machine."""
    # Which device and dtype a model gets by default depends on the machine.
    machine = [platform.node(), platform.machine(), os.environ.get("CUDA_VISIBLE_DEVICES")]
    return hash_of([library_versions(), machine, *decisive])


def known_log(options: StudyOptions, show: Callable[[RunLog], View]) -> RunLog | None:
    """The complete log that was written for these very options, if it exists and is wanted."""
    key = None if options.fresh else key_of(options)
    if key is None:
        return None
    folders = [Path(options.out or "")]
    if options.out is None:
        folders = sorted(DEFAULT_RUNS.glob(f"{slug(options.model_name)}-????????"))
    for folder in folders:
        # What cannot be read is for the run itself to report.
        with suppress(FairspanError):
            header = read_header(folder)
            if header.key == key and header.complete:
                return read_log(folder, show)
    return None


def _model_state(options: StudyOptions) -> Any:
    """What is known of the model of a study without loading it; None if that is too little."""
    if options.trust_remote_code:
        return None
    if isinstance(options.model, str | None):
        return _named_model_state(options.model)
    identity = getattr(options.model, "identity", None)
    return identity if isinstance(identity, str) else None


def _named_model_state(name: str | None) -> Any:
    """The files of a model on this machine; None where they refer to weights elsewhere."""
    folder = Path(find_model(name, local_files_only=True))
    return None if next(folder.rglob("adapter_config.json"), None) else _folder_state(folder)


def _source_state(source: str) -> Any:
    """The files of a corpus or a task; None if it is not on this machine."""
    kind, colon, place = source.partition(":")
    if kind == "mteb" and colon:
        return version("mteb")
    if source in ("pages", "passages"):
        return []
    name = place if kind in ("beir", "pages", "passages") and colon else source
    path = EMBEDDED.get(name, Path(name).expanduser())
    if path.is_file():
        return [_file_state(path)]
    return _folder_state(path) if path.is_dir() else None


def _folder_state(folder: Path) -> Any:
    """The state of every file in a folder; None if there are too many."""
    states: list[list[Any]] = []
    for place, _, names in os.walk(folder, followlinks=True):
        states += [_file_state(Path(place, name)) for name in names]
        if len(states) > _MOST_FILES:
            return None
    return sorted(states)


def _file_state(file: Path) -> list[Any]:
    """Where a file is, and its size and times."""
    state = file.stat()
    # No program can set the time of change.
    return [str(file.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
