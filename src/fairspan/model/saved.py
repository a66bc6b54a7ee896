"""`load`: a saved calibrated model, without running or unpickling anything from its folder."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

from fairspan.errors import FairspanError, LoadError
from fairspan.model.language_module import LanguageModule
from fairspan.model.source import find_model
from fairspan.model.transformer import CalibratedTransformer, calibrated_transformers

_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_DOWNLOADED = ["*.json", "*.jinja", "*.safetensors", "*.txt", "*.model", "*.md"]
# What modules.json names: today's references, and the one of fairspan 0.1.
_REFERENCES: dict[str, type] = {
    "fairspan.model.CalibratedTransformer": CalibratedTransformer,
    "fairspan.calibrated.CalibratedTransformer": CalibratedTransformer,
    "fairspan.model.LanguageModule": LanguageModule,
}


def load(path: str | Path, **options: Any) -> SentenceTransformer:
    """A calibrated model that was saved with `save_pretrained`.

    Only classes of sentence_transformers and fairspan are used, whatever the folder names, and only safetensors are
    read.

    Args:
        path: its folder, or its name on the Hugging Face hub.
        options: whatever `SentenceTransformer` takes, except `trust_remote_code`, which is not needed.

    Raises:
        LoadError: if the folder holds no calibrated model, or one that would need code or pickles of its own.
    """
    if options.pop("trust_remote_code", False):
        raise LoadError("fairspan.load runs no code from a model folder: omit trust_remote_code.")
    source = find_model(path, **options)
    try:
        folder = Path(source.place) if Path(source.place).is_dir() else _download(source.place, options)
    except Exception as error:
        raise not_loaded(path, error) from None
    _refuse_pickles(folder)
    _refuse_foreign_activations(folder)
    try:
        # The plain constructor imports a class outside sentence_transformers only under trust_remote_code, which
        # would trust everything else in the folder as well; this one is handed the classes it needs.
        model = SentenceTransformer._load_with_module_classes(
            str(folder), _REFERENCES, trust_remote_code=False, **options
        )
    except FairspanError:
        raise
    except json.JSONDecodeError as error:
        raise LoadError(f"{path}: a configuration file is not JSON ({error}).") from None
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise not_loaded(path, error) from None
        raise LoadError(
            f"{path} needs code that is neither sentence_transformers' nor fairspan's, and fairspan.load runs no "
            f"other: {str(error).splitlines()[0]}"
        ) from None
    if next(calibrated_transformers(model), None) is None:
        raise LoadError(
            f"{path} is not a calibrated model: load it with SentenceTransformer and pass it to fairspan.calibrate."
        )
    return model


def save_whole(model: SentenceTransformer, folder: Path) -> None:
    """Save a model to a new or an empty folder, all of it or nothing.

    Raises:
        LoadError: if it cannot be written there; nothing is left of it then.
    """
    folder = folder.absolute()
    beside = not folder.exists()
    # An empty folder may be a volume of its own, which cannot be replaced by another folder.
    partial = folder.with_name(f".{folder.name}.{os.getpid()}") if beside else folder / f".{os.getpid()}"
    made = [parent for parent in partial.parents if not parent.exists()]
    try:
        partial.mkdir(parents=True)
        model.save_pretrained(str(partial))
        if beside:
            partial.rename(folder)
            return
        # Last what makes it a model.
        for file in sorted(partial.iterdir(), key=lambda file: file.name == "modules.json"):
            file.rename(folder / file.name)
        partial.rmdir()
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, FairspanError) or not isinstance(error, Exception):
            raise
        raise LoadError(f"{folder} cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (said.strip().splitlines() or [type(error).__name__])[0]


def not_loaded(name: str | Path, error: Exception) -> LoadError:
    """What is said of an error that comes from elsewhere, in one line."""
    return LoadError(f"{name} could not be loaded: {(str(error).strip().splitlines() or [type(error).__name__])[0]}")


def _download(name: str, options: dict[str, Any]) -> Path:
    """Fetch what a calibrated model consists of, and nothing that could be run."""
    return Path(
        snapshot_download(
            name,
            revision=options.pop("revision", None),
            token=options.get("token"),
            cache_dir=options.get("cache_folder"),
            local_files_only=options.get("local_files_only", False),
            allow_patterns=_DOWNLOADED,
        )
    )


def _refuse_pickles(folder: Path) -> None:
    pickles = sorted(file for file in folder.rglob("*") if file.suffix in _PICKLES)
    if pickles:
        raise LoadError(
            f"{pickles[0]} may be a pickle, which can run code when it is read: convert it to safetensors, or remove "
            "it if it is not needed."
        )


def _refuse_foreign_activations(folder: Path) -> None:
    """sentence_transformers puts Tanh in the place of an untrusted activation, which would change the vectors."""
    for file in sorted(folder.rglob("config.json")):
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise LoadError(f"{file} is not JSON ({error}).") from None
        activation = config.get("activation_function") if isinstance(config, dict) else None
        if isinstance(activation, str) and "." in activation and not activation.startswith("torch."):
            raise LoadError(
                f"{file} names the activation function {activation}, which is not torch's, and fairspan.load imports "
                "no other code."
            )
