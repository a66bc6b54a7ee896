"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.model.even import EvenPooling
    from fairspan.model.level import Level
    from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer", "EvenPooling", "Level"]
_FILES = {"CalibratedTransformer": "transformer", "EvenPooling": "even", "Level": "level"}


def __getattr__(name: str) -> Any:
    # Saved models name the classes here. They are imported on first use: they import torch.
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"fairspan.model.{_FILES[name]}"), name)
