"""The files of an exported model: checked before anything is loaded, and written whole or not at all."""

import os
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from fairspan.errors import ExportError, FairspanError, MissingExtra

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def require_packages() -> None:
    """Raise if what writes and runs graphs is not installed."""
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"exporting needs {', '.join(missing)}: pip install 'fairspan[onnx]'.")


def require_place(out: Path) -> None:
    """Raise if a file of an export is there already, or the name is none of a graph."""
    if out.suffix != ".onnx":
        raise ExportError(f"a graph is written to a file that ends in .onnx, got {str(out)!r}.")
    for file in ExportFiles(out).all:
        if os.path.lexists(file):
            raise ExportError(f"{file} exists: choose another name, or remove it.")


class ExportFiles:
    """Where the parts of an export go. They are written in a folder beside, and moved when all of them are whole."""

    def __init__(self, out: Path) -> None:
        self.graph = out
        self.weights = out.with_name(f"{out.name}.data")
        self.facts = out.with_suffix(".json")
        self.tokenizer = out.with_suffix(".tokenizer")
        self._partial = out.absolute().parent / f".{out.name}.{os.getpid()}"

    @property
    def all(self) -> tuple[Path, ...]:
        return self.graph, self.weights, self.facts, self.tokenizer

    def partial(self, file: Path) -> Path:
        """Where a part is until it is moved."""
        return self._partial / file.name

    def __enter__(self) -> "ExportFiles":
        self._made = [parent for parent in self._partial.parents if not parent.exists()]
        try:
            self._partial.mkdir(parents=True)
        except OSError as error:
            self._remove()
            raise self._not_written(error) from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        moved = []
        try:
            if error is None:
                # The graph last: where it is, everything is.
                for file in reversed(self.all):
                    if self.partial(file).exists():
                        self.partial(file).rename(file)
                        moved.append(file)
                self._partial.rmdir()
                return
        except OSError as failed:
            error = failed
            for file in moved:
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        self._remove()
        if isinstance(error, Exception) and not isinstance(error, FairspanError):
            raise self._not_written(error) from None

    def _remove(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)
        for parent in self._made:
            with suppress(OSError):
                parent.rmdir()

    def _not_written(self, error: Exception) -> ExportError:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return ExportError(
            f"{self.graph} cannot be written: {(said.strip().splitlines() or [type(error).__name__])[0]}"
        )
