"""`load`: a saved calibrated model, without running or unpickling anything from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan.calibrated.transformer import CalibratedTransformer, calibrated_transformers
from fairspan.errors import LoadError

_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_REFERENCE = f"{CalibratedTransformer.__module__}.{CalibratedTransformer.__name__}"


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
        raise LoadError("fairspan.load runs no code from a model folder: leave trust_remote_code out.")
    _refuse_pickles(Path(path))
    try:
        # The plain constructor imports a class outside sentence_transformers only under trust_remote_code, which
        # would trust everything else in the folder as well; this one is handed the single class it needs.
        model = SentenceTransformer._load_with_module_classes(
            str(path), {_REFERENCE: CalibratedTransformer}, trust_remote_code=False, **options
        )
    except json.JSONDecodeError as error:
        raise LoadError(f"{path}: a configuration file is not JSON ({error}).") from None
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise LoadError(
            f"{path} needs code that is neither sentence_transformers' nor fairspan's, and fairspan.load runs no "
            f"other: {str(error).splitlines()[0]}"
        ) from None
    if next(calibrated_transformers(model), None) is None:
        raise LoadError(
            f"{path} is not a calibrated model: load it with SentenceTransformer and pass it to fairspan.calibrate."
        )
    return model


def _refuse_pickles(folder: Path) -> None:
    if not folder.is_dir():
        return
    pickles = sorted(file for file in folder.rglob("*") if file.suffix in _PICKLES)
    if pickles:
        raise LoadError(
            f"{pickles[0]} may be a pickle, which can run code when it is read: convert it to safetensors, or remove "
            "it if it is not needed."
        )
