"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer"]


def __getattr__(name: str) -> Any:
    # Saved models name the class here. What only asks where a model is needs none of what it imports.
    if name == "CalibratedTransformer":
        from fairspan.model.transformer import CalibratedTransformer

        return CalibratedTransformer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
