"""A model's identity: what it computes with, not what it is called."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import nn

# Entries of configurations that do not change a vector: names, versions, and how attention is computed,
_IRRELEVANT = {"architectures", "dtype", "model_kwargs", "torch_dtype", "transformers_version"}
# and settings that another part of a key holds (the calibration) or that documents never reach (the longest text).
_IRRELEVANT |= {"calibration", "max_seq_length", "untiled_length"}


def fingerprint(model: SentenceTransformer) -> str:
    """A hash of everything a model computes with: models with the same hash give the same vectors.

    It covers every weight, the settings of all modules, the transformers' configurations and the tokenizers. The
    longest text a model reads is not part of it: documents are never cut.
    """
    digest = hashlib.sha256()
    for described in _descriptions(model):
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.contiguous().cpu().reshape(-1)
        if flat.numel():
            digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


def _descriptions(model: SentenceTransformer) -> Iterator[Any]:
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


def _kind(module: nn.Module) -> str:
    """The name of a module's class; a calibrated one counts as what it was made from."""
    return next(
        base.__name__ for base in type(module).__mro__ if not base.__module__.startswith("fairspan")
    )


def _relevant(settings: Any) -> Any:
    if isinstance(settings, dict):
        return {
            str(name): _relevant(value)
            for name, value in settings.items()
            if name not in _IRRELEVANT and not str(name).startswith("_")
        }
    return (
        [_relevant(value) for value in settings] if isinstance(settings, list | tuple) else settings
    )


def _tokenizer(tokenizer: Any) -> Any:
    """The tokenizer's rules and vocabulary, without truncation and padding, which every call sets."""
    backend = (
        tokenizer
        if isinstance(tokenizer, Tokenizer)
        else getattr(tokenizer, "backend_tokenizer", None)
    )
    if isinstance(backend, Tokenizer):
        rules = json.loads(backend.to_str())
        return {
            name: value for name, value in rules.items() if name not in ("truncation", "padding")
        }
    return tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else type(tokenizer).__name__
