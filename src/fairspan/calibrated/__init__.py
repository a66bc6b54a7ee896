"""Where models that fairspan 0.1 saved look for their class; it lives in `fairspan.model` now."""

from fairspan.model.transformer import CalibratedTransformer

__all__ = ["CalibratedTransformer"]
