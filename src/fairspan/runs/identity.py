"""What decides a result: the `Identity` of a run, and its key, for which no model is loaded."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.corpus.readers import EMBEDDED
from fairspan.errors import FairspanError
from fairspan.model.source import Loading, find_model
from fairspan.runs.options import StudyOptions

if TYPE_CHECKING:
    from fairspan.runs.prepared import Prepared

_TEXTS = ("documents", "segments", "queries")
# What computes vectors; patch releases are taken to keep them.
_ENGINES = ("torch", "transformers", "sentence-transformers")
_LIBRARIES = ("fairspan", *_ENGINES, "tokenizers", "numpy", "scipy", "polars")
_MOST_FILES = 10_000
# Where it takes reading or loading something to know its state.
_UNKNOWN = (OSError, PackageNotFoundError, FairspanError)


@dataclass(frozen=True, slots=True)
class Identity:
    """Two runs with the same identity have the same result.

    Attributes:
        weights: the fingerprint of the subject, None for an object whose results are not kept.
        calibrations: those that the model has before any treatment.
        windows: tokens that are read, by treatment and kind of text; None for any number.
        counted: tokens that texts may have, by side.
        texts: hashes of everything that was read: corpora, tasks, labels.
    """

    verb: str
    name: str
    weights: str | None
    prompts: Mapping[str, str]
    similarity: str
    calibrations: list[dict[str, Any]]
    windows: Mapping[str, Mapping[str, int | None]]
    counted: Mapping[str, int | None]
    texts: list[Any]
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, prepared: Prepared) -> Identity:
        """The identity of a study that is ready to run."""
        subject = prepared.subject
        options = prepared.options
        # Tiles may be as long as what the plain model reads.
        treatments = (as_treatment(PLAIN), *options.all_treatments)
        windows = {
            treatment.name: {texts: subject.window(treatment, texts) for texts in _TEXTS}
            for treatment in treatments
        }
        return cls(
            verb=options.verb,
            name=subject.name,
            weights=subject.fingerprint,
            prompts=dict(subject.prompts),
            similarity=subject.similarity,
            calibrations=subject.calibrations,
            windows=windows,
            counted={side: counter.window for side, counter in subject.counters.items()},
            texts=prepared.text_hashes,
            options=options.decisive,
            versions={"fairspan": version("fairspan"), **_engine_versions()},
        )

    @property
    def run_name(self) -> str:
        """The name of a run's folder: its verb, the model, and a hash of everything."""
        return f"{run_prefix(self.verb, self.name)}-{hash_of(asdict(self))[:8]}"


def key_of(options: StudyOptions) -> str | None:
    """A hash of options and files, which a run with the same result has as well.

    Files count by names, sizes and times, a model on the hub by the files of its snapshot, an
    object by its `identity`. None if something cannot be known without reading it.
    """
    state = getattr(options.model, "identity", None)
    with suppress(*_UNKNOWN):
        if isinstance(options.model, str | None):
            state = _model_state(options.model, options.loading)
        if state and isinstance(state, str | list):
            sources = [_source_state(source) for source in options.sources]
            return _hash_here(options.model_name, options.decisive, state, sources)
    return None


def model_key(name: str | None, loading: Loading, *changes: Any) -> str | None:
    """A hash of a model's files, loading and changes; None if that takes loading it."""
    with suppress(*_UNKNOWN):
        return _hash_here(asdict(loading), _model_state(name, loading), *changes)
    return None


def _hash_here(*decisive: Any) -> str:
    """A hash of what decides a result, with these versions on this machine."""
    # Which device and dtype a model gets by default depends on the machine.
    machine = [platform.node(), platform.machine(), os.environ.get("CUDA_VISIBLE_DEVICES")]
    return hash_of([library_versions(), machine, *decisive])


def _model_state(name: str | None, loading: Loading) -> list[Any]:
    """The files of a model on this machine; raise if they refer to code or weights elsewhere."""
    folder = Path(find_model(name, local_files_only=True))
    if loading.trust_remote_code or any(folder.rglob("adapter_config.json")):
        raise FileNotFoundError(name)
    return _state_of(folder)


def _source_state(source: str) -> Any:
    """The files of a corpus or a task; raise if it is not on this machine."""
    kind, colon, place = source.partition(":")
    if kind == "mteb" and colon:
        raise FileNotFoundError(source)  # no file says whether its data have changed
    if source == "passages":
        return []
    name = place if kind == "beir" and colon else source
    if Path(name).parent.name == "qrels":  # judgements stand for their collection
        name = str(Path(name).parent.parent)
    return _state_of(EMBEDDED.get(name, Path(name).expanduser()))


def _state_of(path: Path) -> list[Any]:
    """Place, size and times of a file, or of all in a folder; raise if there are too many."""
    walk = os.walk(path, followlinks=True)
    inside = (Path(folder, name) for folder, _, names in walk for name in names)
    files = list(islice(inside, _MOST_FILES)) if path.is_dir() else [path]
    if len(files) == _MOST_FILES:
        raise FileNotFoundError(path)
    stats = [(str(file.resolve()), file.stat()) for file in files]
    # No program can set the time of change.
    return sorted([name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats)


def vector_prefix(weights: str) -> str:
    """What the keys of a model's vectors in the store begin with."""
    return hash_of([weights, _engine_versions()])


def hash_of(value: Any) -> str:
    """SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def run_prefix(verb: str, model: str) -> str:
    """What the folders of a model's runs begin with."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rstrip("/").split("/")[-1]).strip("-.")
    return f"{verb}-{name or 'model'}"


def _engine_versions() -> dict[str, str]:
    """Major and minor versions of the libraries that compute vectors."""
    return {name: ".".join(version(name).split(".")[:2]) for name in _ENGINES}


def library_versions() -> dict[str, str]:
    return {library: version(library) for library in _LIBRARIES}
