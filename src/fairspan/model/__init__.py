"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.model.correction import LanguageCorrection
    from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer", "LanguageCorrection"]

_LAZY = {
    "CalibratedTransformer": "fairspan.model.transformer",
    "LanguageCorrection": "fairspan.model.correction",
}


def __getattr__(name: str) -> Any:
    # Saved models name the classes here. What only asks where a model is needs none of what they import.
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
