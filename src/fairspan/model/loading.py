"""Loading a model by its name or folder."""

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import get_device_name

from fairspan.errors import FairspanError
from fairspan.model.saved import load, not_loaded
from fairspan.model.source import DEFAULT_MODEL, Loading, find_model

__all__ = ["DEFAULT_MODEL", "Loading", "load_model"]


def load_model(name: str | None = None, loading: Loading | None = None) -> SentenceTransformer:
    """A SentenceTransformer by its name on the hub or its folder, a saved calibrated one included.

    Args:
        name: None for all-MiniLM-L6-v2 from its PyPI package, which needs no network, at all its 512 positions.
    """
    return load_with_limit(name, loading)[0]


def load_with_limit(name: str | None, loading: Loading | None) -> tuple[SentenceTransformer, int | None]:
    """The same, and how many tokens the model is set to read by whoever made it."""
    loading, source = loading or Loading(), find_model(name)
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
        raise not_loaded(name or DEFAULT_MODEL, error) from None
    limit, window = model.max_seq_length, loading.window or source.window
    if window is not None:
        model.max_seq_length = window
    return model, limit
