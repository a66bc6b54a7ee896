"""`Identity`: everything that decides a result; it names the run and the entries of the store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a finished run is found without a model
    from fairspan.runs.prepared import Prepared

# What computes vectors; patch releases are taken to keep them.
_ENGINES = ("torch", "transformers", "sentence-transformers")
_LIBRARIES = ("fairspan", *_ENGINES, "tokenizers", "numpy", "scipy", "polars")
_TEXTS = ("documents", "segments", "queries")


@dataclass(frozen=True, slots=True)
class Identity:
    """Two runs with the same identity have the same result.

    Attributes:
        weights: the fingerprint of the subject, None for an object whose results are not kept.
        calibrations: those that the model has before any treatment.
        windows: tokens that are read, by treatment and kind of text; None for any number.
        counted: tokens that texts may have, by side.
        texts: hashes of everything that was read: corpora, tasks, labels, texts to fit on.
    """

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
        windows = {
            treatment.name: {texts: subject.window(treatment, texts) for texts in _TEXTS}
            for treatment in options.all_treatments
        }
        return cls(
            name=subject.name,
            weights=subject.fingerprint,
            prompts=dict(subject.prompts),
            similarity=subject.similarity,
            calibrations=subject.calibrations,
            windows=windows,
            counted={side: counter.window for side, counter in subject.counters.items()},
            texts=[*prepared.text_hashes, *prepared.fit.text_hashes],
            options=options.decisive,
            versions={"fairspan": version("fairspan"), **engine_versions()},
        )

    @property
    def run_name(self) -> str:
        """The name of a run's folder: the model's, and a hash of everything."""
        return f"{slug(self.name)}-{hash_of(asdict(self))[:8]}"


def vector_prefix(weights: str) -> str:
    """What the keys of a model's vectors in the store begin with."""
    return hash_of([weights, engine_versions()])


def hash_of(value: Any) -> str:
    """SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def slug(name: str) -> str:
    """What the folders of a model's runs begin with."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rstrip("/").split("/")[-1]).strip("-.") or "model"


def engine_versions() -> dict[str, str]:
    """Major and minor versions of the libraries that compute vectors."""
    return {name: ".".join(version(name).split(".")[:2]) for name in _ENGINES}


def library_versions() -> dict[str, str]:
    return {library: version(library) for library in _LIBRARIES}
