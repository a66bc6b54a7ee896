"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairspan.model.language_module import LanguageModule
    from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer", "LanguageModule"]


def __getattr__(name: str) -> Any:
    # Saved models name the classes here. What only asks where a model is needs none of what they import.
    if name == "CalibratedTransformer":
        from fairspan.model.transformer import CalibratedTransformer

        return CalibratedTransformer
    if name == "LanguageModule":
        from fairspan.model.language_module import LanguageModule

        return LanguageModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
