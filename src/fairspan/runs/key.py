"""The key of a run: everything that was asked and the files that it reads, as a hash that needs no model.

A complete log that was written under the same key is the answer, and neither torch nor the model is loaded.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairspan import __version__
from fairspan.corpus.readers import EMBEDDED
from fairspan.errors import FairspanError
from fairspan.model.source import Loading, find_model
from fairspan.report.view import View
from fairspan.runs.header import read_header
from fairspan.runs.identity import library_versions
from fairspan.runs.log import RunLog, read_log
from fairspan.runs.options import StudyOptions

DEFAULT_RUNS = Path("fairspan-runs")
_MOST_FILES = 10_000


def key_of(options: StudyOptions) -> str | None:
    """A hash of what decides a result; None if that cannot be known without reading it.

    Of files it takes names, sizes and times, of a model on the hub the files of its snapshot, of an object its
    `identity`. What it does not know are objects without one, code that comes with a model, and datasets on the hub.
    """
    model, identity = options.model, getattr(options.model, "identity", None)
    if (
        not (isinstance(model, str | None) or isinstance(identity, str))
        or options.trust_remote_code
    ):
        return None
    try:
        known = identity or _model_state(model)  # type: ignore[arg-type]
        states = [known, *(_source_state(source) for source in options.sources)]
    except (OSError, PackageNotFoundError, FairspanError):
        return None
    if None in states:
        return None
    return _hash_here(
        options.verb, options.model_name, asdict(options.loading), options.asked, states
    )


def model_key(name: str | None, loading: Loading) -> str | None:
    """A hash of a model's files and of how they are loaded; None if that cannot be known without loading it."""
    try:
        state = None if loading.trust_remote_code else _model_state(name)
    except (OSError, FairspanError):
        return None
    return None if state is None else _hash_here(asdict(loading), state)


def _hash_here(*decisive: Any) -> str:
    """A hash of what decides a result, with these versions on this machine."""
    # Which device and dtype a model gets by default depends on the machine.
    machine = [platform.node(), platform.machine(), os.environ.get("CUDA_VISIBLE_DEVICES")]
    every = [__version__, library_versions(), machine, *decisive]
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def known_log(options: StudyOptions, show: Callable[[RunLog], View]) -> RunLog | None:
    """The complete log that was written for these very options, if it is there and wanted."""
    key = None if options.fresh else key_of(options)
    if key is None:
        return None
    named = sorted(DEFAULT_RUNS.glob(f"{slug(options.model_name)}-????????"))
    for folder in named if options.out is None else [Path(options.out)]:
        # What cannot be read is for the run itself to report.
        with suppress(FairspanError):
            header = read_header(folder)
            if header.key == key and header.complete:
                return read_log(folder, show)
    return None


def slug(name: str) -> str:
    """What the folders of a model's runs begin with."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rstrip("/").split("/")[-1]).strip("-.") or "model"


def _model_state(name: str | None) -> Any:
    """The files of a model on this machine; None where they refer to weights elsewhere."""
    folder = Path(find_model(name, local_files_only=True))
    return None if (folder / "adapter_config.json").exists() else _folder_state(folder)


def _source_state(source: str) -> Any:
    """The files of a corpus or a task; None if it is not on this machine."""
    kind, colon, place = source.partition(":")
    if kind == "mteb" and colon:
        return version("mteb")
    if source in ("pages", "passages"):
        return []
    named = place if kind in ("beir", "pages", "passages") and colon else source
    path = EMBEDDED.get(named, Path(named).expanduser())
    if path.is_file():
        return [_file_state(path)]
    return _folder_state(path) if path.is_dir() else None


def _folder_state(folder: Path) -> Any:
    found = []
    for place, _, names in os.walk(folder, followlinks=True):
        found += [_file_state(Path(place, name)) for name in names]
        if len(found) > _MOST_FILES:
            return None
    return sorted(found)


def _file_state(file: Path) -> list[Any]:
    """Where a file is, and its size and times. The time of change is the one that no program can set."""
    state = file.stat()
    return [str(file.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
