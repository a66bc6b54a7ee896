"""Writing a model's files: all of them or nothing. Needs no torch, so that it can check early."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairspan.errors import FairspanError, MissingExtra, UnsupportedModel, first_line


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write files to, which becomes `folder`, a new or an empty one, in the end."""
    # An empty folder may be a mounted volume, which cannot be replaced by another folder.
    exists = folder.is_dir()
    name = f".{folder.name}.{os.getpid()}"
    partial = folder / name if exists else folder.absolute().with_name(name)
    new_parents = [parent for parent in partial.parents if not parent.exists()]
    try:
        partial.mkdir(parents=True)
        yield partial
        if not exists:
            partial.rename(folder.absolute())
            return
        # modules.json, which makes the folder a model, comes last.
        for file in sorted(partial.iterdir(), key=lambda file: file.name == "modules.json"):
            file.rename(folder / file.name)
    except FairspanError:
        raise
    except Exception as error:
        raise UnsupportedModel(f"{folder} cannot be written: {first_line(error)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):  # it is not empty
                parent.rmdir()


def write_json(file: Path, content: Any) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    file.write_text(text + "\n", encoding="utf-8")


def require_new(folder: Path) -> None:
    """Raise if there is something at `folder` other than an empty folder."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise UnsupportedModel(
            f"{folder} exists and is not an empty folder: choose another, or remove it."
        )


def require_exportable(out: Path) -> None:
    """Raise if no model can be exported to `out`: its name, its files, or a missing package."""
    if out.suffix == ".onnx":
        raise UnsupportedModel(
            f"a model is exported to a folder: use {str(out.with_suffix(''))!r} for {str(out)!r}."
        )
    require_new(out)
    packages = ("onnx", "onnxscript", "onnxruntime")
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"exporting needs {', '.join(missing)}: pip install 'fairspan[onnx]'.")
