"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer"]


def __getattr__(name: str) -> Any:
    # Saved models name the class here. It is imported on first use, because it imports torch.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("fairspan.model.transformer"), name)
