"""A model's identity: what it computes with, not what it is called."""

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

# Entries of configurations that do not change a vector (names, versions, kernels of attention)
_IRRELEVANT = {"architectures", "dtype", "model_kwargs", "torch_dtype", "transformers_version"}
# or that other parts of a key contain (the calibration, the window).
_IRRELEVANT |= {"calibration", "max_seq_length", "untiled_length"}
_SIDES = ("truncation_side", "padding_side")
# Keys contain their versions.
_LIBRARIES = ("fairspan", "torch", "transformers", "sentence_transformers")


def fingerprint(model: SentenceTransformer) -> str:
    """A hash of everything a model computes with: models with the same hash give the same vectors.

    The longest text that a model reads is not part of it.
    """
    digest = hashlib.sha256()
    for described in (*_descriptions(model), *_adapters(model), *_codes(model)):
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.contiguous().cpu().reshape(-1)
        if flat.numel():
            digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


def _descriptions(model: SentenceTransformer) -> Iterator[Any]:
    """The settings of every module and its tokenizer."""
    yield {"truncate_dim": model.truncate_dim}
    for name, module in model.named_modules():
        if hasattr(module, "get_config_dict"):
            yield [name, _kind(module), _relevant(module.get_config_dict())]
        config = getattr(module, "config", None)
        if config is not None and hasattr(config, "to_dict"):
            yield [name, _kind(module), _relevant(config.to_dict())]
        tokenizer = module.__dict__.get("tokenizer") or module.__dict__.get("processor")
        if tokenizer is not None:
            yield [name, _tokenizer(tokenizer)]


def _adapters(model: SentenceTransformer) -> Iterator[Any]:
    """For each layer with adapters of peft, the active ones and their strengths."""
    # If a model has adapters, peft is imported already.
    tuners = sys.modules.get("peft.tuners.tuners_utils")
    for name, module in model.named_modules() if tuners else ():
        if isinstance(module, tuners.BaseTunerLayer):  # type: ignore[union-attr]
            active = [] if module.disable_adapters else list(module.active_adapters)
            scaling = getattr(module, "scaling", {})
            strengths = {adapter: scaling.get(adapter) for adapter in active}
            yield [name, _kind(module), active, strengths, list(module.merged_adapters)]


def _codes(model: SentenceTransformer) -> Iterator[str]:
    """The source of classes that come with a model, a program or another library."""
    for name in sorted({type(module).__module__ for module in model.modules()}):
        if name.partition(".")[0] not in _LIBRARIES:
            with suppress(OSError, TypeError, KeyError):  # typed into a console
                yield inspect.getsource(sys.modules[name])


def _kind(module: nn.Module) -> str:
    """The name of a module's class; a calibrated one counts as what it was made from."""
    return next(
        base.__name__ for base in type(module).__mro__ if not base.__module__.startswith("fairspan")
    )


def _relevant(settings: Any) -> Any:
    """The settings that change vectors."""
    if isinstance(settings, dict):
        return {
            str(name): _relevant(value)
            for name, value in settings.items()
            if name not in _IRRELEVANT and not str(name).startswith("_")
        }
    if isinstance(settings, list | tuple):
        return [_relevant(value) for value in settings]
    return settings


def _tokenizer(tokenizer: Any) -> Any:
    """The rules and vocabulary of a tokenizer, and the sides on which it truncates and pads.

    Lengths of truncation and padding are set by calls.
    """
    sides = {side: getattr(tokenizer, side, "right") for side in _SIDES}
    unusual = {side: value for side, value in sides.items() if value != "right"}
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if isinstance(backend, Tokenizer):
        rules = json.loads(backend.to_str())
        omitted = ("truncation", "padding")
        return {name: rule for name, rule in rules.items() if name not in omitted} | unusual
    settings = {
        name: sorted(value) if isinstance(value, set) else value
        for name, value in vars(tokenizer).items()
        if isinstance(value, str | int | float | set) and name != "name_or_path"
    }
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else None
    return [type(tokenizer).__name__, vocabulary, settings]
