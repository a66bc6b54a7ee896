"""Writing a model's files: all of them or nothing. Needs no torch, so that mistakes are found before it is loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fairspan.errors import FairspanError, MissingExtra, UnsupportedModel, first_line

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@contextmanager
def written_beside(place: Path) -> Iterator[Path]:
    """A folder to write files to and move them from, beside `place` or in it if it is one. It is gone in the end.

    Raises:
        UnsupportedModel: if something cannot be written; folders that were made for it are gone then.
    """
    # An empty folder may be a volume of its own, which cannot be replaced by another folder.
    partial = (
        place / f".{os.getpid()}" if place.is_dir() else place.absolute().with_name(f".{place.name}.{os.getpid()}")
    )
    made = [parent for parent in partial.parents if not parent.exists()]
    try:
        partial.mkdir(parents=True)
        yield partial
    except FairspanError:
        raise
    except Exception as error:
        raise UnsupportedModel(f"{place} cannot be written: {first_line(error)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            with suppress(OSError):  # it is not empty
                parent.rmdir()


def require_exportable(out: Path) -> None:
    """Raise if no graph can be exported to `out`: its name, files that are there, a missing package."""
    if out.suffix != ".onnx":
        raise UnsupportedModel(f"a graph is written to a file that ends in .onnx, got {str(out)!r}.")
    for file in map(out.with_suffix, (".onnx", ".onnx.data", ".json", ".tokenizer")):
        if os.path.lexists(file):
            raise UnsupportedModel(f"{file} exists: choose another name, or remove it.")
    missing = [package for package in ("onnx", "onnxscript", "onnxruntime") if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"exporting needs {', '.join(missing)}: pip install 'fairspan[onnx]'.")


def save_whole(model: SentenceTransformer, folder: Path) -> None:
    """Save a model to a new or an empty folder.

    Raises:
        UnsupportedModel: if it cannot be written there; nothing is left of it then.
    """
    with written_beside(folder) as partial:
        model.save_pretrained(str(partial))
        if not folder.exists():
            partial.rename(folder.absolute())
            return
        # Last what makes it a model.
        for file in sorted(partial.iterdir(), key=lambda file: file.name == "modules.json"):
            file.rename(folder / file.name)
