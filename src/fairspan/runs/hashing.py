"""Hashes that runs and stored vectors are known by."""

import hashlib
import json
from typing import Any

from fairspan.runs.versions import engine_versions


def hash_of(value: Any) -> str:
    """SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def vector_prefix(weights: str) -> str:
    """What the keys of a model's vectors in the store begin with."""
    return hash_of([weights, engine_versions()])
