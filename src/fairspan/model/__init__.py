"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer"]
