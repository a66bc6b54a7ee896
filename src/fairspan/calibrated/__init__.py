"""Calibrated models: SentenceTransformers whose attention runs through `fairspan.attention`."""

from fairspan.calibrated.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer"]
