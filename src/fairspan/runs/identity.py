"""`Identity`: everything that decides a result."""

from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = (
    "fairspan",
    "torch",
    "transformers",
    "sentence-transformers",
    "tokenizers",
    "numpy",
    "scipy",
    "polars",
)


def library_versions() -> dict[str, str]:
    """The versions of what a run computes with."""
    versions = {}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return versions
