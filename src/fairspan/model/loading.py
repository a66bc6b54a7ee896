"""`load`: a saved calibrated model, and nothing from its folder is run or unpickled; `load_model`: any model."""

import json
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import get_device_name

from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.model.correction import LanguageCorrection
from fairspan.model.saving import first_line
from fairspan.model.source import DEFAULT_MODEL, Loading, find_model
from fairspan.model.transformer import CalibratedTransformer, calibrated_transformers

__all__ = ["DEFAULT_MODEL", "Loading", "load", "load_model"]

_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_DOWNLOADED = ["*.json", "*.jinja", "*.safetensors", "*.txt", "*.model", "*.md"]
_CLASSES: dict[str, type] = {
    f"fairspan.model.{kind.__name__}": kind for kind in (CalibratedTransformer, LanguageCorrection)
}


def load(path: str | Path, **options: Any) -> SentenceTransformer:
    """A calibrated model that was saved with `save_pretrained`.

    Only classes of sentence_transformers and fairspan are used, whatever the folder names, and only safetensors are
    read.

    Args:
        path: its folder, or its name on the Hugging Face hub.
        options: whatever `SentenceTransformer` takes, except `trust_remote_code`, which is not needed.

    Raises:
        UnsupportedModel: if the folder holds no calibrated model, or one that would need code or pickles of its own.
    """
    if options.pop("trust_remote_code", False):
        raise UnsupportedModel("fairspan.load runs no code from a model folder: omit trust_remote_code.")
    source = find_model(path, **options)
    try:
        folder = Path(source.place) if Path(source.place).is_dir() else _download(source.place, options)
        _refuse_pickles(folder)
        _refuse_foreign_activations(folder)
        # The plain constructor imports a class outside sentence_transformers only under trust_remote_code, which
        # would trust everything else in the folder as well; this one is handed the classes it needs.
        model = SentenceTransformer._load_with_module_classes(
            str(folder), _CLASSES, trust_remote_code=False, **options
        )
    except FairspanError:
        raise
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise _not_loaded(path, error) from None
        raise UnsupportedModel(
            f"{path} needs code that is neither sentence_transformers' nor fairspan's, and fairspan.load runs no "
            f"other: {str(error).splitlines()[0]}"
        ) from None
    if next(calibrated_transformers(model), None) is None:
        raise UnsupportedModel(
            f"{path} is not a calibrated model: load it with SentenceTransformer and pass it to fairspan.calibrate."
        )
    return model


def load_model(name: str | None = None, loading: Loading | None = None) -> SentenceTransformer:
    """A SentenceTransformer by its name on the hub or its folder, a saved calibrated one included.

    Args:
        name: None for all-MiniLM-L6-v2 from its PyPI package, which needs no network, at all its 512 positions.
    """
    return load_with_limit(name, loading)[0]


def load_with_limit(name: str | None, loading: Loading | None) -> tuple[SentenceTransformer, int | None]:
    """The same, and how many tokens the model is set to read by whoever made it."""
    loading, source = loading or Loading(), find_model(name)
    loading.require_device()
    try:
        on_cpu = str(loading.device or get_device_name()).startswith("cpu")
        dtype = loading.dtype or ("float32" if on_cpu else "auto")
        options: dict[str, Any] = {"device": loading.device}
        if dtype != "auto":
            options["model_kwargs"] = {"dtype": getattr(torch, dtype)}
        if source.is_calibrated:
            model = load(source.place, **options)
        else:
            model = SentenceTransformer(source.place, trust_remote_code=loading.trust_remote_code, **options)
    except FairspanError:
        raise
    except Exception as error:
        raise _not_loaded(name or DEFAULT_MODEL, error) from None
    limit, wanted = model.max_seq_length, loading.max_seq_length or source.max_seq_length
    if wanted is not None:
        model.max_seq_length = wanted
    return model, limit


def _not_loaded(name: str | Path, error: Exception) -> UnsupportedModel:
    return UnsupportedModel(f"{name} could not be loaded: {first_line(error)}")


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
        raise UnsupportedModel(
            f"{pickles[0]} may be a pickle, which can run code when it is read: convert it to safetensors, or remove "
            "it if it is not needed."
        )


def _refuse_foreign_activations(folder: Path) -> None:
    """sentence_transformers puts Tanh in the place of an untrusted activation, which would change the vectors."""
    for file in sorted(folder.rglob("config.json")):
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UnsupportedModel(f"{file} is not JSON ({error}).") from None
        activation = config.get("activation_function") if isinstance(config, dict) else None
        if isinstance(activation, str) and "." in activation and not activation.startswith("torch."):
            raise UnsupportedModel(
                f"{file} names the activation function {activation}, which is not torch's, and fairspan.load imports "
                "no other code."
            )
