"""Hashes and versions: what identities and keys are made of."""

import hashlib
import json
import re
from importlib.metadata import version
from typing import Any

# What computes vectors; patch releases are taken to keep them.
_ENGINES = ("torch", "transformers", "sentence-transformers")
_LIBRARIES = ("fairspan", *_ENGINES, "tokenizers", "numpy", "scipy", "polars")


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
