"""Versions of libraries: those that a log names, and those that vectors depend on."""

import platform
from importlib.metadata import version

_ENGINES = ("torch", "transformers", "sentence-transformers")
_LIBRARIES = ("fairspan", *_ENGINES, "tokenizers", "numpy", "scipy", "polars")


def library_versions() -> dict[str, str]:
    return {library: version(library) for library in _LIBRARIES}


def all_versions() -> dict[str, str]:
    """Those of the libraries and of Python, as a log has them."""
    return {"python": platform.python_version(), **library_versions()}


def engine_versions() -> dict[str, str]:
    """Major and minor versions of what computes vectors; patch releases are taken to keep them."""
    return {name: ".".join(version(name).split(".")[:2]) for name in _ENGINES}
