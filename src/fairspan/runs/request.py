"""A request: everything that was asked of a run and the files that it reads, as a hash that needs no model.

A complete log that was written for the same request is the answer, and neither torch nor the model is loaded.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from fairspan import __version__
from fairspan.encoding.endpoint import Endpoint
from fairspan.errors import FairspanError
from fairspan.model.source import DEFAULT_MODEL, PACKAGE
from fairspan.report.view import View
from fairspan.runs.log import RunLog, library_versions, read_header, read_log

DEFAULT_RUNS = Path("fairspan-runs")
_OF_MODEL = ("model", "name", "window", "device", "dtype", "trust_remote_code")
_OF_RUN = ("out", "store", "batch_tokens", "fresh", "progress")
# The fields of specs that name something to read.
_READ = ("corpus", "fit_corpus", "labelled", "task", "documents")
_DATA = (".json", ".jsonl", ".gz", ".parquet", ".tsv")
_MOST_FILES = 10_000


class Spec(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def request_of(verb: str, spec: Spec, model: Any, **loading: Any) -> str | None:
    """A hash of what decides a result; None if that cannot be known without reading it.

    Of files it takes names, sizes and times, of a model on the hub the files of its snapshot, of an object its
    `identity`. What it does not know are objects without one, code that comes with a model, and datasets on the hub.

    Args:
        loading: `name`, `window`, `device`, `dtype` and `trust_remote_code`.
    """
    identity = getattr(model, "identity", None)
    if not (isinstance(model, str | None) or isinstance(identity, str)) or loading.get("trust_remote_code"):
        return None
    asked = spec.to_dict()
    # A tuning has a table for each of its tasks.
    tables = [asked, *asked.get("tasks", ()), *asked.get("guards", ())]
    sources = [value for table in tables for name in _READ if isinstance(value := table.get(name), str)]
    try:
        known = identity or _model_state(model or DEFAULT_MODEL)
        states = [known, *(_source_state(source) for source in sources)]
    except OSError:
        return None
    if None in states:
        return None
    given = {name: value for name, value in loading.items() if value}
    # Which device and dtype a model gets by default depends on the machine.
    machine = [platform.node(), platform.machine(), os.environ.get("CUDA_VISIBLE_DEVICES")]
    decisive = [__version__, library_versions(), machine, verb, named(model), given, asked, states]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def named(model: Any) -> str:
    """What logs call a model that was not given a name."""
    if isinstance(model, str | None):
        return model or DEFAULT_MODEL
    return model.model if isinstance(model, Endpoint) else type(model).__name__


def answer(request: str | None, model: Any, out: Path | str | None, show: Callable[[RunLog], View]) -> RunLog | None:
    """The complete log that was written for this very request, if it is there."""
    if request is None:
        return None
    for folder in [Path(out)] if out is not None else sorted(DEFAULT_RUNS.glob(f"{slug(named(model))}-????????")):
        # What cannot be read is for the run itself to report.
        with suppress(FairspanError):
            header = read_header(folder)
            if header.get("request") == request and header.get("status") == "complete":
                return read_log(folder, show)
    return None


def known_run(
    verb: str, make: Callable[..., Spec], show: Callable[[RunLog], View], given: Mapping[str, Any]
) -> RunLog | None:
    """The answer to the keywords of a verb, of which `make` makes its spec."""
    if given.get("fresh"):
        return None
    loading = {name: given[name] for name in _OF_MODEL if name in given}
    model = loading.pop("model", None)
    request = request_of(verb, make(**fields_of_study(given)), model, **loading)
    return answer(request, loading.get("name") or model, given.get("out"), show)


def fields_of_study(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a verb that say what is measured, with paths as a spec holds them."""
    own = {name: value for name, value in given.items() if name not in (*_OF_MODEL, *_OF_RUN)}
    return {name: str(value) if isinstance(value, Path) else value for name, value in own.items()}


def slug(name: str) -> str:
    """What the folders of a model's runs begin with."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rstrip("/").split("/")[-1]).strip("-.") or "model"


def _model_state(name: str) -> Any:
    """The files of a model; None where they are not known, or refer to weights elsewhere."""
    if Path(name).is_dir():
        folders = [Path(name)]
    elif name == DEFAULT_MODEL:
        package = find_spec(PACKAGE)
        folders = [Path(place) for place in (package and package.submodule_search_locations) or ()]
    else:
        folders = list(_snapshots(name))
    states = [_folder_state(folder) for folder in folders]
    if not states or None in states or any((folder / "adapter_config.json").exists() for folder in folders):
        return None
    return states


def _snapshots(name: str) -> Iterator[Path]:
    """A model's snapshots in the cache of the hub. A name without an owner may be sentence-transformers' own."""
    from huggingface_hub.constants import HF_HUB_CACHE

    cache = Path(os.environ.get("SENTENCE_TRANSFORMERS_HOME") or HF_HUB_CACHE)
    for repository in {name, name if "/" in name else f"sentence-transformers/{name}"}:
        place = cache / f"models--{repository.replace('/', '--')}"
        with suppress(OSError, UnicodeDecodeError):
            commit = (place / "refs" / "main").read_text(encoding="utf-8").strip()
            if (place / "snapshots" / commit).is_dir():
                yield place / "snapshots" / commit


def _source_state(source: str) -> Any:
    """The files of a corpus or a task; None if it is not on this machine."""
    if source in ("pages", "passages"):
        return []
    if source == "sample":
        return _folder_state(Path(__file__).parents[1] / "corpus" / "data" / source)
    if source.startswith("mteb:"):
        with suppress(PackageNotFoundError):
            return version("mteb")
        return None
    path = Path(source.removeprefix("beir:")).expanduser()
    if path.is_file():
        return [_file_state(path)]
    return _folder_state(path, deepest=1, endings=_DATA) if path.is_dir() else None


def _folder_state(folder: Path, deepest: int | None = None, endings: tuple[str, ...] = ("",)) -> Any:
    found = []
    for place, folders, names in os.walk(folder, followlinks=True):
        if deepest is not None and len(Path(place).relative_to(folder).parts) >= deepest:
            folders.clear()
        found += [_file_state(Path(place, name)) for name in names if name.endswith(endings)]
        if len(found) > _MOST_FILES:
            return None
    return sorted(found)


def _file_state(file: Path) -> list[Any]:
    """Where a file is, and its size and times. The time of change is the one that no program can set."""
    state = file.stat()
    return [str(file.resolve()), state.st_size, state.st_mtime_ns, state.st_ctime_ns]
