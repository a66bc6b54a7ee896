"""A model's identity: what it computes with, not what it is called."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from sentence_transformers import SentenceTransformer


def fingerprint(model: SentenceTransformer) -> str:
    """A hash of every weight and of the modules' settings; two models that share it give the same vectors.

    The longest text a model reads is not part of it: documents are never cut.
    """
    digest = hashlib.sha256()
    for module in model.children():
        digest.update(_described(module).encode())
    digest.update(json.dumps({"truncate_dim": model.truncate_dim}).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _described(module: Any) -> str:
    settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
    kept = {name: value for name, value in settings.items() if name not in ("max_seq_length", "calibration")}
    kind = next(base.__name__ for base in type(module).__mro__ if not base.__module__.startswith("fairspan"))
    return json.dumps([kind, kept], sort_keys=True, default=str)


def _bytes(tensor: torch.Tensor) -> Any:
    flat = tensor.contiguous().cpu().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else b""
