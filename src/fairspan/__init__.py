"""fairspan: measure and repair how fairly one vector represents every part of a long text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.calibration import Calibration
from fairspan.errors import (
    CalibrationError,
    FairspanError,
    LoadError,
    SegmentError,
    UnsupportedModel,
)
from fairspan.temperature import LengthSchedule, PerSide

if TYPE_CHECKING:
    from fairspan.calibrated.build import calibrate
    from fairspan.calibrated.by_segments import encode_segments
    from fairspan.calibrated.saved import load
    from fairspan.calibrated.segments import SegmentedText

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "CalibrationError",
    "FairspanError",
    "LengthSchedule",
    "LoadError",
    "PerSide",
    "SegmentError",
    "SegmentedText",
    "UnsupportedModel",
    "__version__",
    "calibrate",
    "encode_segments",
    "load",
]

# Names whose modules need torch are imported when first used, so that `import fairspan` stays cheap.
_LAZY = {
    "calibrate": "fairspan.calibrated.build",
    "load": "fairspan.calibrated.saved",
    "SegmentedText": "fairspan.calibrated.segments",
    "encode_segments": "fairspan.calibrated.by_segments",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
